// CUDA's functions on numbers that have one right result, as plain C++: integers, IEEE-754 operations rounded
// to nearest even, bits. Cache hints are loads and stores; atomics are for integers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

// ---- Single and double precision

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0F / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }

// ---- Bits and conversions. A float outside the integer type becomes its nearest value, NaN becomes 0 (for
// 64 bits from double: the most negative value), as PTX's cvt says.

inline unsigned __float_as_uint(float a) { return std::bit_cast<unsigned>(a); }
inline int __float_as_int(float a) { return std::bit_cast<int>(a); }
inline float __uint_as_float(unsigned a) { return std::bit_cast<float>(a); }
inline float __int_as_float(int a) { return std::bit_cast<float>(a); }
inline long long __double_as_longlong(double a) { return std::bit_cast<long long>(a); }
inline double __longlong_as_double(long long a) { return std::bit_cast<double>(a); }
inline int __double2hiint(double a) { return static_cast<int>(std::bit_cast<std::int64_t>(a) >> 32); }
inline int __double2loint(double a) { return static_cast<int>(std::bit_cast<std::int64_t>(a) & 0xffffffff); }

namespace zp::emulated {

template <class Integer, class Float>
Integer to_nearest(Float value, Integer of_nan = 0) {
  constexpr auto least = std::numeric_limits<Integer>::min();
  constexpr auto most = std::numeric_limits<Integer>::max();
  if (value != value) return of_nan;
  const Float whole = std::nearbyint(value);
  if (whole >= std::ldexp(Float{1}, std::numeric_limits<Integer>::digits)) return most;
  if (whole < static_cast<Float>(least)) return least;
  return static_cast<Integer>(whole);
}

}  // namespace zp::emulated

inline int __float2int_rn(float a) { return zp::emulated::to_nearest<int>(a); }
inline unsigned __float2uint_rn(float a) { return zp::emulated::to_nearest<unsigned>(a); }
inline int __double2int_rn(double a) { return zp::emulated::to_nearest<int>(a); }
inline long long __double2ll_rn(double a) {
  return zp::emulated::to_nearest<long long>(a, std::numeric_limits<long long>::min());
}
inline float __int2float_rn(int a) { return static_cast<float>(a); }
inline float __uint2float_rn(unsigned a) { return static_cast<float>(a); }
inline float __ll2float_rn(long long a) { return static_cast<float>(a); }
inline float __double2float_rn(double a) { return static_cast<float>(a); }
inline double __int2double_rn(int a) { return a; }
inline double __ll2double_rn(long long a) { return static_cast<double>(a); }

// ---- Integers

inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32U);
}
inline int __mulhi(int a, int b) { return static_cast<int>(std::int64_t{a} * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>(static_cast<Wide>(a) * b >> 64U);
}
inline int __popc(unsigned a) { return std::popcount(a); }
inline int __popcll(unsigned long long a) { return std::popcount(a); }
inline int __clz(int a) { return std::countl_zero(static_cast<unsigned>(a)); }
inline int __clzll(long long a) { return std::countl_zero(static_cast<unsigned long long>(a)); }
inline int __ffs(int a) { return a == 0 ? 0 : std::countr_zero(static_cast<unsigned>(a)) + 1; }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((((std::uint64_t{high} << 32U) | low) << (by & 31U)) >> 32U);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>(((std::uint64_t{high} << 32U) | low) >> (by & 31U));
}

// nvcc has them for every program.
inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline long min(long a, long b) { return b < a ? b : a; }
inline long max(long a, long b) { return a < b ? b : a; }
inline unsigned long min(unsigned long a, unsigned long b) { return b < a ? b : a; }
inline unsigned long max(unsigned long a, unsigned long b) { return a < b ? b : a; }
inline long long min(long long a, long long b) { return b < a ? b : a; }
inline long long max(long long a, long long b) { return a < b ? b : a; }
inline unsigned long long min(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
inline unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }

// ---- Loads and stores with cache hints

#define ZP_EMULATED_LOAD(name) \
  template <class T>           \
  T name(const T* from) {      \
    return *from;              \
  }
#define ZP_EMULATED_STORE(name) \
  template <class T>            \
  void name(T* to, T value) {   \
    *to = value;                \
  }
ZP_EMULATED_LOAD(__ldg)
ZP_EMULATED_LOAD(__ldca)
ZP_EMULATED_LOAD(__ldcg)
ZP_EMULATED_LOAD(__ldcs)
ZP_EMULATED_LOAD(__ldcv)
ZP_EMULATED_LOAD(__ldlu)
ZP_EMULATED_STORE(__stwb)
ZP_EMULATED_STORE(__stcg)
ZP_EMULATED_STORE(__stcs)
ZP_EMULATED_STORE(__stwt)
#undef ZP_EMULATED_LOAD
#undef ZP_EMULATED_STORE

// ---- Atomics, relaxed as CUDA's: they order nothing

#define ZP_EMULATED_ATOMICS(T)                                                                         \
  inline T atomicAdd(T* at, T value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }       \
  inline T atomicExch(T* at, T value) { return __atomic_exchange_n(at, value, __ATOMIC_RELAXED); }     \
  inline T atomicAnd(T* at, T value) { return __atomic_fetch_and(at, value, __ATOMIC_RELAXED); }       \
  inline T atomicOr(T* at, T value) { return __atomic_fetch_or(at, value, __ATOMIC_RELAXED); }         \
  inline T atomicXor(T* at, T value) { return __atomic_fetch_xor(at, value, __ATOMIC_RELAXED); }       \
  inline T atomicCAS(T* at, T expected, T value) {                                                     \
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);      \
    return expected;                                                                                   \
  }                                                                                                    \
  inline T atomicMax(T* at, T value) {                                                                 \
    T seen = __atomic_load_n(at, __ATOMIC_RELAXED);                                                    \
    while (seen < value &&                                                                             \
           !__atomic_compare_exchange_n(at, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) { \
    }                                                                                                  \
    return seen;                                                                                       \
  }                                                                                                    \
  inline T atomicMin(T* at, T value) {                                                                 \
    T seen = __atomic_load_n(at, __ATOMIC_RELAXED);                                                    \
    while (value < seen &&                                                                             \
           !__atomic_compare_exchange_n(at, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) { \
    }                                                                                                  \
    return seen;                                                                                       \
  }
ZP_EMULATED_ATOMICS(int)
ZP_EMULATED_ATOMICS(unsigned)
ZP_EMULATED_ATOMICS(unsigned long long)
#undef ZP_EMULATED_ATOMICS
inline unsigned atomicSub(unsigned* at, unsigned value) { return atomicAdd(at, 0U - value); }
inline int atomicSub(int* at, int value) { return __atomic_fetch_sub(at, value, __ATOMIC_RELAXED); }
