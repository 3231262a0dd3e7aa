// Element types, bf16 and its conversions, and the recipes (which state is held in which type).
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "harness/base/host_device.hpp"
#include "harness/base/quantities.hpp"

namespace zp {

enum class Type : uint8_t { f32, bf16, i32, i64 };

constexpr Bytes size_of(Type type) {
  switch (type) {
    case Type::bf16: return {2};
    case Type::f32:
    case Type::i32: return {4};
    case Type::i64: return {8};
  }
  return {0};
}

constexpr std::string_view name_of(Type type) {
  switch (type) {
    case Type::bf16: return "bf16";
    case Type::f32: return "fp32";
    case Type::i32: return "int32";
    case Type::i64: return "int64";
  }
  return "?";
}

// The upper half of a binary32.
struct bf16 {
  uint16_t bits = 0;
  friend constexpr bool operator==(bf16, bf16) = default;
};

ZP_HOST_DEVICE constexpr float widen(bf16 x) { return __builtin_bit_cast(float, uint32_t{x.bits} << 16); }
ZP_HOST_DEVICE constexpr float widen(float x) { return x; }

// Round to nearest even; every NaN becomes 0x7fff.
ZP_HOST_DEVICE constexpr bf16 round_to_bf16(float x) {
  const auto u = __builtin_bit_cast(uint32_t, x);
  if ((u & 0x7fffffffU) > 0x7f800000U) return {0x7fff};
  return {static_cast<uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16)};
}

template <class T>
inline constexpr Type type_of = Type::f32;
template <>
inline constexpr Type type_of<bf16> = Type::bf16;
template <>
inline constexpr Type type_of<int32_t> = Type::i32;
template <>
inline constexpr Type type_of<int64_t> = Type::i64;

// Types of the model states (design 3.3). Masters and moments are fp32.
struct Recipe {
  std::string_view name;
  Type params;
  Type grads;  // in memory and on the wire
};

inline constexpr std::array kRecipes{
    Recipe{.name = "bf16-fp32grad", .params = Type::bf16, .grads = Type::f32},
    Recipe{.name = "bf16", .params = Type::bf16, .grads = Type::bf16},
    Recipe{.name = "fp32", .params = Type::f32, .grads = Type::f32},
};

// Parameters that are fp32 are their own masters: the optimizer updates them where they lie.
constexpr bool has_master(const Recipe& recipe) { return recipe.params != Type::f32; }

// How gradients cross ranks: in the recipe's gradient type, or as 64-bit fixed point of unit 2⁻⁴⁴, whose sums
// are exact in any order (fp32 gradients only).
enum class GradientWire { as_stored, i64 };

// A gradient |g| in fixed point is below this, divided by the number of micro-batches that a sum adds up.
inline constexpr double kFixedPointBound = 0x1p19;

// Throws (usage) naming what there is.
Recipe recipe_named(std::string_view name);

}  // namespace zp
