// Two of anything taken as one: an operation on both halves, side by side, so that one fills the time in
// which the other waits for its operands. What is not doubled serves both halves. Included by simd.hpp only.
#pragma once

#include <cstdint>

namespace zp::kernels::ZP_ISA {

template <class T>
struct Twice {
  T one, two;
};

template <class T>
inline constexpr bool kTwice = false;
template <class T>
inline constexpr bool kTwice<Twice<T>> = true;

template <class T>
ZP_INLINE T one_of(T x) {
  return x;
}
template <class T>
ZP_INLINE T one_of(Twice<T> x) {
  return x.one;
}
template <class T>
ZP_INLINE T two_of(T x) {
  return x;
}
template <class T>
ZP_INLINE T two_of(Twice<T> x) {
  return x.two;
}

// operation(x...), of each half where an argument is doubled.
template <class Operation, class... X>
ZP_INLINE auto halves(Operation operation, X... x) {
  if constexpr ((kTwice<X> || ...)) {
    const auto one = halves(operation, one_of(x)...);
    const auto two = halves(operation, two_of(x)...);
    return Twice<decltype(halves(operation, one_of(x)...))>{one, two};
  } else {
    return operation(x...);
  }
}

template <class X, class Y>
concept Doubled = kTwice<X> || kTwice<Y>;

template <class X, class Y>
requires Doubled<X, Y> ZP_INLINE auto operator+(X x, Y y) {
  return halves([](auto a, auto b) { return a + b; }, x, y);
}
template <class X, class Y>
requires Doubled<X, Y> ZP_INLINE auto operator-(X x, Y y) {
  return halves([](auto a, auto b) { return a - b; }, x, y);
}
template <class X, class Y>
requires Doubled<X, Y> ZP_INLINE auto operator*(X x, Y y) {
  return halves([](auto a, auto b) { return a * b; }, x, y);
}
template <class X, class Y>
requires Doubled<X, Y> ZP_INLINE auto operator/(X x, Y y) {
  return halves([](auto a, auto b) { return a / b; }, x, y);
}
template <class X, class Y>
requires Doubled<X, Y> ZP_INLINE auto operator&(X x, Y y) {
  return halves([](auto a, auto b) { return a & b; }, x, y);
}
template <class X, class Y>
requires Doubled<X, Y> ZP_INLINE auto operator|(X x, Y y) {
  return halves([](auto a, auto b) { return a | b; }, x, y);
}
template <class X, class Y>
requires Doubled<X, Y> ZP_INLINE auto larger(X x, Y y) {
  return halves([](auto a, auto b) { return larger(a, b); }, x, y);
}
template <class X, class Y>
requires Doubled<X, Y> ZP_INLINE auto smaller(X x, Y y) {
  return halves([](auto a, auto b) { return smaller(a, b); }, x, y);
}
template <class X, class Y>
requires Doubled<X, Y> ZP_INLINE auto less(X x, Y y) {
  return halves([](auto a, auto b) { return less(a, b); }, x, y);
}
template <class X, class Y, class Z>
requires(Doubled<X, Y> || kTwice<Z>) ZP_INLINE auto fma(X x, Y y, Z z) {
  return halves([](auto a, auto b, auto c) { return fma(a, b, c); }, x, y, z);
}
template <class M, class T>
ZP_INLINE Twice<T> select(Twice<M> mask, Twice<T> yes, Twice<T> no) {
  return {select(mask.one, yes.one, no.one), select(mask.two, yes.two, no.two)};
}
template <class T>
ZP_INLINE auto bits_of(Twice<T> x) {
  return halves([](auto a) { return bits_of(a); }, x);
}
template <class T>
ZP_INLINE auto from_bits(Twice<T> x) {
  return halves([](auto a) { return from_bits(a); }, x);
}

}  // namespace zp::kernels::ZP_ISA
