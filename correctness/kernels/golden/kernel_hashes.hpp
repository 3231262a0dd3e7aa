// One hash a kernel: what a row of the table leaves behind on a backend's device, on data of several ranks.
// The same on every device, or a kernel is wrong; results/golden keeps them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/trainer/backend.hpp"
#include "kernels/cases.hpp"

namespace zp::kernels {

struct NamedSizes {
  std::string_view name;
  CaseSizes sizes;
};
// "odd", and "large": products in many tiles, chains that are cut, more blocks than a GPU runs at once.
std::span<const NamedSizes> golden_sizes();

using Dress = std::function<std::unique_ptr<Table>(std::unique_ptr<Table>)>;

// Kernels of one device, which may be dressed in a decorator.
class KernelHashes {
 public:
  KernelHashes(const Backend& backend, const NamedSizes& sizes, const Dress& dress = {});
  // "gemm forward, odd: <32 digits>"
  std::string line(const KernelCase& row);

 private:
  NamedSizes sizes_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Table> table_;
};

// What `golden`, a text of such lines, says otherwise of the kernels with these sizes; a kernel that only one
// of the two has is a difference. Empty: nothing.
std::vector<std::string> differences(const std::vector<std::string>& lines, const std::string& golden,
                                     std::string_view sizes);

}  // namespace zp::kernels
