// The probes are arithmetic, not control registers, so they hold on every processor. Operands are volatile,
// or the compiler would answer them.
#include "harness/base/float_environment.hpp"

#include <bit>
#include <cstdint>
#include <string>

#include "harness/base/check.hpp"

namespace zp {
namespace {

bool rounds_to_nearest_even() {
  const volatile float one = 1.0F;
  const volatile float half_step = 0x1p-24F;
  const volatile float next = 1.0F + 0x1p-23F;
  // Ties above 1 go down to 1 and up to 1 + 2·2⁻²³, and likewise below -1: no other mode does all of it.
  return one + half_step == one && next + half_step == 1.0F + 0x1p-22F && -one - half_step == -one &&
         -next - half_step == -(1.0F + 0x1p-22F);
}

bool keeps_subnormal_results() {
  const volatile float smallest_normal = 0x1p-126F;
  const volatile float half = 0.5F;
  const volatile double smallest_normal64 = 0x1p-1022;
  const float result = smallest_normal * half;
  const double result64 = smallest_normal64 * 0.5;
  // By bits: a comparison would take a subnormal operand.
  return std::bit_cast<uint32_t>(result) == 0x00400000U &&
         std::bit_cast<uint64_t>(result64) == 0x0008000000000000U;
}

bool keeps_subnormal_operands() {
  const volatile float smallest = 0x1p-149F;
  const volatile float scale = 0x1p100F;
  return smallest * scale == 0x1p-49F;
}

bool contracts() {
  // Fused, the product's rounding error would remain.
  const volatile float factor = 1.0F + 0x1p-12F;
  const volatile float rounded = -(1.0F + 0x1p-11F);
  const volatile double factor64 = 1.0 + 0x1p-27;
  const volatile double rounded64 = -(1.0 + 0x1p-26);
  const float a = factor;
  const float c = rounded;
  const double a64 = factor64;
  const double c64 = rounded64;
  return a * a + c != 0.0F || a64 * a64 + c64 != 0.0;
}

void demand(bool holds, const char* found) {
  if (holds) return;
  fail(Exit::unavailable,
       std::string("float arithmetic: ") + found +
           "; bits are claimed only with round to nearest even, subnormals and no contraction");
}

}  // namespace

void require_float_environment() {
  demand(rounds_to_nearest_even(), "this thread does not round to nearest even");
  demand(keeps_subnormal_results(),
         "this thread flushes subnormal results to zero (a library built with fast-math?)");
  demand(keeps_subnormal_operands(),
         "this thread takes subnormal operands for zero (a library built with fast-math?)");
  demand(!contracts(), "the compiler fused a product and a sum that were written apart");
}

}  // namespace zp
