// Kernels run on data of several ranks, and their hashes compared with those that were kept.
#include "correctness/kernels/golden/kernel_hashes.hpp"

#include <array>
#include <map>
#include <sstream>
#include <thread>

namespace zp::kernels {
namespace {

constexpr uint64_t kRanks = 2;
constexpr NamedSizes kSizes[] = {
    {"odd", kOddSizes},
    {"large",
     {.batch = 2, .sequence = 1027, .width = 520, .heads = 8, .vocabulary = 1031, .parameters = 1'048'583}},
};

KernelNeeds needs_of(const CaseSizes& sizes) {
  const auto threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return {.host = {.threads = threads, .max_sequence = sizes.sequence},
          .attention_rows = sizes.rows() * sizes.heads};
}

// Kernel and sizes → hash.
std::map<std::string, std::string> parsed(std::istream& text) {
  std::map<std::string, std::string> hashes;
  for (std::string line; std::getline(text, line);) {
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) hashes[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return hashes;
}

}  // namespace

std::span<const NamedSizes> golden_sizes() { return kSizes; }

KernelHashes::KernelHashes(const Backend& backend, const NamedSizes& sizes, const Dress& dress)
    : sizes_(sizes),
      engine_(backend.make_engine(0, Fill::nan, 60.0)),
      table_(engine_->make_kernels(engine_->device(), needs_of(sizes.sizes))) {
  if (dress) table_ = dress(std::move(table_));
}

std::string KernelHashes::line(const KernelCase& row) {
  HashSum sum;
  for (uint64_t rank = 0; rank < kRanks; ++rank) {
    CaseMemory memory(engine_->device(), rank);
    table_->run(row.make(memory, sizes_.sizes));
    sum += memory.digest();
  }
  return std::string(row.name) + ", " + std::string(sizes_.name) + ": " + to_string(sum);
}

std::vector<std::string> differences(const std::vector<std::string>& lines, const std::string& golden,
                                     std::string_view sizes) {
  std::ostringstream joined;
  for (const std::string& line : lines) joined << line << '\n';
  std::istringstream got_text(joined.str()), golden_text(golden);
  const std::map<std::string, std::string> got = parsed(got_text);
  std::map<std::string, std::string> expected = parsed(golden_text);
  std::erase_if(expected, [&](const auto& line) { return !line.first.ends_with(", " + std::string(sizes)); });
  std::vector<std::string> found;
  for (const auto& [kernel, hash] : got) {
    const auto kept = expected.find(kernel);
    if (kept == expected.end()) {
      found.push_back(kernel + ": got " + hash + ", and the golden file knows no such kernel");
    } else if (kept->second != hash) {
      found.push_back(kernel + ": got " + hash + ", expected " + kept->second);
    }
  }
  for (const auto& [kernel, hash] : expected) {
    if (!got.contains(kernel)) found.push_back(kernel + ": got nothing, expected " + hash);
  }
  return found;
}

}  // namespace zp::kernels
