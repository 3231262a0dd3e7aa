// The memory that calls of the table's rows use.
#include <algorithm>
#include <cstring>

#include "harness/base/random.hpp"
#include "kernels/cases.hpp"

namespace zp::kernels {

View CaseMemory::space(Type type, int64_t length) {
  buffers_.push_back(device_.acquire(Category::activations, type, {length}));
  return buffers_.back().all();
}

View CaseMemory::numbers(Type type, int64_t length, float scale, float centre) {
  const View view = space(type, length);
  const uint64_t key = buffers_.size();
  for (int64_t i = 0; i < length; ++i) {
    const float x = centre + random_normal(key, static_cast<uint64_t>(i), scale);
    if (type == Type::bf16) {
      view.write<bf16>()[i] = round_to_bf16(x);
    } else {
      view.write<float>()[i] = x;
    }
  }
  return view;
}

View CaseMemory::tokens(int64_t length, int64_t below) {
  const View view = space(Type::i32, length);
  const uint64_t key = buffers_.size();
  for (int64_t i = 0; i < length; ++i) {
    const uint64_t bits = random_bits(key, static_cast<uint64_t>(i));
    view.write<int32_t>()[i] = static_cast<int32_t>(bits % static_cast<uint64_t>(below));
  }
  return view;
}

View CaseMemory::fixed(int64_t length) {
  const View view = space(Type::i64, length);
  const uint64_t key = buffers_.size();
  for (int64_t i = 0; i < length; ++i)
    view.write<int64_t>()[i] = static_cast<int64_t>(random_bits(key, static_cast<uint64_t>(i))) >> 8;
  return view;
}

Bytes CaseMemory::bytes() const {
  Bytes all;
  for (const Buffer& buffer : buffers_) all += buffer.all().bytes();
  return all;
}

HashSum CaseMemory::digest() const {
  HashSum sum = hash_sum_;
  uint64_t index = 0;
  for (const Buffer& buffer : buffers_) {
    const View view = buffer.all();
    const int64_t each = size_of(view.type()).n;
    const auto* at = static_cast<const char*>(view.raw());
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
