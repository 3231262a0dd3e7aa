// kernel_races_program [FILE LINE]: every kernel of the table as CUDA code on the emulated runtime; prints
// "hash", its name and what its results hash to, and then the barriers that blocks and warps came to, and the
// waits for asynchronous copies, a line each; those of one line of the source are left out.
// For the thread sanitizer, to which each CUDA thread is a thread (ZP_EMULATED_CUDA_RACE_CHECK=1).
// kernel_races_program NAME…: these kernels.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "correctness/cuda_emulator/barriers.hpp"
#include "correctness/kernels/cuda/pinned_device.hpp"
#include "kernels/cases.hpp"
#include "kernels/cuda/cuda_table.hpp"

namespace zp::kernels {
namespace {

// Small, and each barrier comes between uses of the same shared memory: attention has two tiles, and its
// heads two panels; operands of products have three.
constexpr CaseSizes kSizes{
    .batch = 2, .sequence = 97, .width = 40, .heads = 1, .vocabulary = 33, .parameters = 300};
// Of sums of columns an eleventh tile of rows takes the first one's place.
constexpr CaseSizes kManyRows{
    .batch = 1, .sequence = 705, .width = 18, .heads = 1, .vocabulary = 33, .parameters = 300};

CaseSizes sizes_of(std::string_view name) {
  return name == "bias backward" || name == "layer norm backward" ? kManyRows : kSizes;
}

using Names = std::span<char* const>;

// Of these names; of any, where there are none.
void run_kernels(Names names) {
  PinnedDevice device;
  const OwnStream stream;
  const auto table =
      make_cuda_table(device, {.stream = stream.get(), .max_attention_rows = kSizes.rows() * kSizes.heads});
  for (const KernelCase& row : kernel_cases()) {
    const auto named = [&](std::string_view name) { return name == row.name; };
    if (!names.empty() && std::ranges::none_of(names, named)) continue;
    CaseMemory memory(device);
    table->run(row.make(memory, sizes_of(row.name)));
    stream.wait();
    std::printf("hash %s: %s\n", std::string(row.name).c_str(), to_string(memory.digest()).c_str());
  }
}

}  // namespace
}  // namespace zp::kernels

int main(int count, char** words) {
  const bool leaves_out = count == 3 && std::atoi(words[2]) > 0;
  zp::emulated::watch_barriers(leaves_out ? words[1] : "", leaves_out ? std::atoi(words[2]) : 0);
  zp::kernels::run_kernels(leaves_out ? zp::kernels::Names()
                                      : std::span(words + 1, static_cast<size_t>(count - 1)));
  for (int i = 0; i < zp::emulated::barriers_met(); ++i) {
    const zp::emulated::Site site = zp::emulated::barrier_met(i);
    std::printf("%s %d\n", site.file, site.line);
  }
  return 0;
}
