// kernel_hashes DEVICE SIZES [GOLDEN]: one line a kernel, its hash on that device (cpu, cuda or emulated)
// with sizes odd, large or all. With a golden file, exit 7 where a hash is another than the file's; without
// one the text is such a file. Exit 5: there is no such device here. A line is out before the next kernel
// begins, so that what hangs or crashes is the one after the last.
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>

#include "correctness/kernels/golden/kernel_hashes.hpp"
#include "harness/base/check.hpp"

namespace {

using namespace zp;

constexpr const char* kContract = "repro-1: one hash a kernel and sizes, the same on every device\n";

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) fail(Exit::usage, path + " cannot be read");
  return text.str();
}

// An error says of which kernel it is.
std::vector<std::string> print_hashes(const Backend& backend, const kernels::NamedSizes& sizes) {
  kernels::KernelHashes hashes(backend, sizes);
  std::vector<std::string> lines;
  for (const kernels::KernelCase& row : kernels::kernel_cases()) {
    try {
      lines.push_back(hashes.line(row));
    } catch (const Error& error) {
      fail(error.code(), std::string(row.name) + ", " + std::string(sizes.name) + ": " + error.what());
    }
    std::printf("%s\n", lines.back().c_str());
    std::fflush(stdout);
  }
  return lines;
}

Exit run(const std::string& device, const std::string& wanted, const std::string* golden) {
  const Backend& backend = backend_named(device);
  if (golden != nullptr && !golden->starts_with(kContract))
    fail(Exit::usage, "the golden file does not begin with: " + std::string(kContract));
  if (golden == nullptr) std::fputs(kContract, stdout);
  size_t sizes_run = 0;
  Exit exit = Exit::pass;
  for (const kernels::NamedSizes& sizes : kernels::golden_sizes()) {
    if (wanted != "all" && wanted != sizes.name) continue;
    ++sizes_run;
    const std::vector<std::string> lines = print_hashes(backend, sizes);
    if (golden == nullptr) continue;
    for (const std::string& difference : kernels::differences(lines, *golden, sizes.name)) {
      std::fprintf(stderr, "%s: %s\n", device.c_str(), difference.c_str());
      exit = Exit::bits;
    }
  }
  if (sizes_run == 0) fail(Exit::usage, "'" + wanted + "' are no sizes; there are odd, large and all");
  return exit;
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count < 3 || count > 4) fail(Exit::usage, "usage: kernel_hashes DEVICE SIZES [GOLDEN]");
    std::string golden;
    if (count == 4) golden = read(words[3]);
    return static_cast<int>(run(words[1], words[2], count == 4 ? &golden : nullptr));
  } catch (const Error& error) {
    std::fprintf(stderr, "kernel_hashes: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel_hashes: %s\n", error.what());
    return static_cast<int>(Exit::internal);
  }
}
