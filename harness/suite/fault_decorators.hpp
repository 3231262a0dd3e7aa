// The decorators behind --inject.
#pragma once

#include <atomic>
#include <memory>

#include "harness/suite/inject.hpp"

namespace zp {

// One injection as a decorator sees it.
struct Armed {
  Injection injection;
  Type wire = Type::f32;     // of gradients
  std::shared_ptr<int> now;  // step under way
  std::shared_ptr<std::atomic<int>> fired;
  bool due() const { return *now == injection.step; }
  bool hits(int unit) const { return injection.unit < 0 || injection.unit == unit; }
  void strike() const { ++*fired; }
};

// Adds the injection's decorator around what `faults` has already.
void add_fault(Faults& faults, const Armed& armed);

}  // namespace zp
