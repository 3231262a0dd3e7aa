// The start-up probe: it passes here, and refuses a thread whose arithmetic was changed behind its back.
#include "harness/base/float_environment.hpp"

#include <gtest/gtest.h>

#include <cfenv>

#include "harness/base/check.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace zp {
namespace {

TEST(FloatEnvironment, IsAsTheContractDemands) { EXPECT_NO_THROW(require_float_environment()); }

TEST(FloatEnvironment, RefusesEveryOtherRoundingMode) {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    EXPECT_THROW(require_float_environment(), Error) << mode;
    std::fesetround(FE_TONEAREST);
  }
}

#if defined(__x86_64__)
TEST(FloatEnvironment, RefusesSubnormalsTakenForZero) {
  constexpr unsigned flush_to_zero = 0x8000;
  constexpr unsigned denormals_are_zero = 0x0040;
  for (const unsigned bit : {flush_to_zero, denormals_are_zero}) {
    const unsigned kept = _mm_getcsr();
    _mm_setcsr(kept | bit);
    EXPECT_THROW(require_float_environment(), Error) << bit;
    _mm_setcsr(kept);
  }
}
#endif

}  // namespace
}  // namespace zp
