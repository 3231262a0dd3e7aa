// Types and reductions of the emulated NCCL. See nccl_numbers.hpp.
#include "correctness/cuda_emulator/nccl_numbers.hpp"

#include <cuda_bf16.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

namespace zp::emulated {

namespace {

struct TypeRow {
  ncclDataType_t type;
  const char* name;
  std::size_t size;
  bool reducible;
};

constexpr std::array kTypes{
    TypeRow{ncclInt8, "int8", 1, true},        TypeRow{ncclUint8, "uint8", 1, true},
    TypeRow{ncclInt32, "int32", 4, true},      TypeRow{ncclUint32, "uint32", 4, true},
    TypeRow{ncclInt64, "int64", 8, true},      TypeRow{ncclUint64, "uint64", 8, true},
    TypeRow{ncclFloat16, "float16", 2, false}, TypeRow{ncclFloat32, "float32", 4, true},
    TypeRow{ncclFloat64, "float64", 8, true},  TypeRow{ncclBfloat16, "bfloat16", 2, true},
};

const TypeRow* find(ncclDataType_t type) {
  const auto at =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& row) { return row.type == type; });
  return at == kTypes.end() ? nullptr : &*at;
}

struct Bf16 {
  __nv_bfloat16 value;
};

template <class T>
auto widened(T value) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return __bfloat162float(value.value);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(value);  // sums wrap
  } else {
    return value;
  }
}

template <class T, class Wide>
T narrowed(Wide value) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return {__float2bfloat16_rn(value)};
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
bool before(T a, T b) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return widened(a) < widened(b);
  } else {
    return a < b;
  }
}

// A mean is the sum of each part divided by how many there are, as NCCL has it for floating point.
template <class T>
T scaled(T part, int world) {
  if constexpr (std::is_integral_v<T>) {
    return part;
  } else {
    return narrowed<T>(widened(part) *
                       (decltype(widened(part)){1} / static_cast<decltype(widened(part))>(world)));
  }
}

template <class T>
T together(T a, T b, ncclRedOp_t operation) {
  switch (operation) {
    case ncclProd: return narrowed<T>(widened(a) * widened(b));
    case ncclMax: return before(a, b) ? b : a;
    case ncclMin: return before(b, a) ? b : a;
    default: return narrowed<T>(widened(a) + widened(b));
  }
}

enum class Step { begin, more };

template <class T>
void reduce(const Reduction& reduction, void* total, const void* part, std::size_t count, Step step) {
  auto* const to = static_cast<T*>(total);
  const auto* const from = static_cast<const T*>(part);
  for (std::size_t i = 0; i < count; ++i) {
    const T mine = reduction.operation == ncclAvg ? scaled(from[i], reduction.world) : from[i];
    to[i] = step == Step::begin ? mine : together(to[i], mine, reduction.operation);
  }
}

void reduce_typed(const Reduction& reduction, void* total, const void* part, std::size_t count, Step step) {
  switch (reduction.type) {
    case ncclInt8: return reduce<std::int8_t>(reduction, total, part, count, step);
    case ncclUint8: return reduce<std::uint8_t>(reduction, total, part, count, step);
    case ncclInt32: return reduce<std::int32_t>(reduction, total, part, count, step);
    case ncclUint32: return reduce<std::uint32_t>(reduction, total, part, count, step);
    case ncclInt64: return reduce<std::int64_t>(reduction, total, part, count, step);
    case ncclUint64: return reduce<std::uint64_t>(reduction, total, part, count, step);
    case ncclFloat32: return reduce<float>(reduction, total, part, count, step);
    case ncclFloat64: return reduce<double>(reduction, total, part, count, step);
    case ncclBfloat16: return reduce<Bf16>(reduction, total, part, count, step);
    default: return;  // refused when it was called
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  const TypeRow* const row = find(type);
  return row == nullptr ? 0 : row->size;
}

const char* name_of(ncclDataType_t type) {
  const TypeRow* const row = find(type);
  return row == nullptr ? "unknown" : row->name;
}

const char* name_of(ncclRedOp_t reduction) {
  constexpr std::array kNames{"sum", "product", "maximum", "minimum", "mean"};
  return static_cast<std::size_t>(reduction) < kNames.size() ? kNames[static_cast<std::size_t>(reduction)]
                                                             : "unknown";
}

bool can_reduce(ncclDataType_t type, ncclRedOp_t reduction) {
  const TypeRow* const row = find(type);
  if (row == nullptr || !row->reducible || reduction < ncclSum || reduction > ncclAvg) return false;
  const bool floating = type == ncclFloat32 || type == ncclFloat64 || type == ncclBfloat16;
  return reduction != ncclAvg || floating;
}

void begin_reduction(const Reduction& reduction, void* total, const void* part, std::size_t count) {
  reduce_typed(reduction, total, part, count, Step::begin);
}

void continue_reduction(const Reduction& reduction, void* total, const void* part, std::size_t count) {
  reduce_typed(reduction, total, part, count, Step::more);
}

}  // namespace zp::emulated
