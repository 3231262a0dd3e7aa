// The memory that calls of the table's rows use.
#include <algorithm>
#include <cstring>

#include "harness/base/random.hpp"
#include "harness/device/host_access.hpp"
#include "kernels/cases.hpp"

namespace zp::kernels {
namespace {

template <class T, class At>
void fill(const View& view, const At& at) {
  std::vector<T> values(static_cast<size_t>(view.length().n));
  constexpr auto kPeriod = static_cast<size_t>(CaseMemory::kPeriod);
  for (size_t i = 0; i < std::min(values.size(), kPeriod); ++i) values[i] = at(i);
  for (size_t i = kPeriod; i < values.size(); ++i) values[i] = values[i - kPeriod];
  write_from_host<T>(view, values);
}

}  // namespace

View CaseMemory::space(Type type, int64_t length) {
  buffers_.push_back(device_.acquire(Category::activations, type, {length}));
  return buffers_.back().all();
}

View CaseMemory::numbers(Type type, int64_t length, float scale, float centre) {
  const View view = space(type, length);
  const auto at = [&, key = key()](uint64_t i) { return centre + random_normal(key, i, scale); };
  if (type == Type::bf16) {
    fill<bf16>(view, [&](uint64_t i) { return round_to_bf16(at(i)); });
  } else {
    fill<float>(view, at);
  }
  return view;
}

View CaseMemory::tokens(int64_t length, int64_t below) {
  const View view = space(Type::i32, length);
  fill<int32_t>(view, [&, key = key()](uint64_t i) {
    return static_cast<int32_t>(random_bits(key, i) % static_cast<uint64_t>(below));
  });
  return view;
}

View CaseMemory::fixed(int64_t length) {
  const View view = space(Type::i64, length);
  fill<int64_t>(view, [key = key()](uint64_t i) { return static_cast<int64_t>(random_bits(key, i)) >> 8; });
  return view;
}

std::vector<View> CaseMemory::views() const {
  std::vector<View> all;
  for (const Buffer& buffer : buffers_) all.push_back(buffer.all());
  return all;
}

Bytes CaseMemory::bytes() const {
  Bytes all;
  for (const Buffer& buffer : buffers_) all += buffer.all().bytes();
  return all;
}

HashSum CaseMemory::digest() const {
  HashSum sum = hash_sum_;
  uint64_t index = rank_ << 40U;
  for (const Buffer& buffer : buffers_) {
    const View view = buffer.all();
    const int64_t each = size_of(view.type()).n;
    const HostBytes held(view);
    const std::byte* at = held.bytes().data();
    for (int64_t left = view.length().n * each; left > 0; ++index) {
      uint32_t bits = 0;
      const int64_t now = std::min(std::min<int64_t>(each, sizeof bits), left);
      std::memcpy(&bits, at, static_cast<size_t>(now));
      sum += hash_element(index, bits);
      at += now;
      left -= now;
    }
  }
  for (const int64_t limb : exact_sum_.limbs()) sum += hash_element(index++, static_cast<uint32_t>(limb));
  return sum;
}

}  // namespace zp::kernels
