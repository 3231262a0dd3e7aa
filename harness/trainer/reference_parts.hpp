// Sums over micro-batches of a part of one tensor: where the order of additions depends on who owns an
// element.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/trainer/reference_gpt.hpp"
#include "harness/trainer/reference_sums.hpp"

namespace zp {

class PartSums {
 public:
  struct Whole {
    std::string name;
    int64_t length = 0;
  };
  // `gradients`: of every micro-batch, as stored, in type `stored`.
  PartSums(const std::vector<Tensors>& gradients, Type stored, Device& device, kernels::Table& kernels)
      : gradients_(gradients), stored_(stored), device_(device), kernels_(kernels) {}

  // The tensors of one unit, side by side: of each element the sum of the place that owns it, into `total`.
  void sum_unit(const std::vector<Whole>& tensors, const std::vector<std::unique_ptr<Sum>>& by_owner,
                const Tensors& total) const;

 private:
  struct Part {
    std::string name;
    Range range;
  };
  Buffer evaluate(const Sum& sum, const Part& part) const;

  const std::vector<Tensors>& gradients_;
  Type stored_;
  Device& device_;
  kernels::Table& kernels_;
};

}  // namespace zp
