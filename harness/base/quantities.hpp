// Quantities with their unit in the type, so that a count of elements is never taken for a count of bytes.
#pragma once

#include <compare>
#include <cstdint>

namespace zp {

struct Elements {
  int64_t n = 0;
  friend constexpr bool operator==(const Elements&, const Elements&) = default;
  friend constexpr auto operator<=>(const Elements&, const Elements&) = default;
  friend constexpr Elements operator+(Elements a, Elements b) { return {a.n + b.n}; }
  friend constexpr Elements operator-(Elements a, Elements b) { return {a.n - b.n}; }
  constexpr Elements& operator+=(Elements b) {
    n += b.n;
    return *this;
  }
};

struct Bytes {
  int64_t n = 0;
  friend constexpr bool operator==(const Bytes&, const Bytes&) = default;
  friend constexpr auto operator<=>(const Bytes&, const Bytes&) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.n + b.n}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.n - b.n}; }
  constexpr Bytes& operator+=(Bytes b) {
    n += b.n;
    return *this;
  }
};

constexpr Elements operator*(Elements e, int64_t times) { return {e.n * times}; }
constexpr Bytes operator*(Bytes b, int64_t times) { return {b.n * times}; }
// Bytes of `e` elements of `each` bytes.
constexpr Bytes operator*(Elements e, Bytes each) { return {e.n * each.n}; }

// Half-open run of elements.
struct Range {
  Elements begin, end;
  friend constexpr bool operator==(const Range&, const Range&) = default;
  friend constexpr auto operator<=>(const Range&, const Range&) = default;
  constexpr Elements length() const { return end - begin; }
  constexpr bool empty() const { return begin == end; }
};

// The part of `a` that lies in `b`; empty at a's begin when there is none.
constexpr Range intersection(Range a, Range b) {
  const Elements begin = a.begin < b.begin ? b.begin : a.begin;
  const Elements end = a.end < b.end ? a.end : b.end;
  return begin < end ? Range{begin, end} : Range{a.begin, a.begin};
}

}  // namespace zp
