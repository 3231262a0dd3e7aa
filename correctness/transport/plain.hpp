// What the transport tests compare with, written apart from the product: additions by plain loops, the fold
// over places with its rounding places, and the messages that each algorithm sends. Also a table of kernels
// that can only fold.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "harness/base/random.hpp"
#include "harness/transport/transport.hpp"

namespace zp::plain {

inline constexpr size_t kMostPlaces = 8;

// Units of 2⁻⁴⁴ nearest to x, and back; the products are exact.
inline int64_t units_of(float x) { return std::llrint(static_cast<double>(x) * 0x1p44); }
inline float of_units(int64_t sum) { return static_cast<float>(static_cast<double>(sum) * 0x1p-44); }

// The elements of a view, which is asked once: asking is slow.
inline std::vector<float> floats_of(const View& view) {
  std::vector<float> all(static_cast<size_t>(view.length().n));
  if (view.empty()) return all;
  if (view.type() == Type::bf16) {
    std::transform(view.read<bf16>(), view.read<bf16>() + view.length().n, all.begin(),
                   [](bf16 x) { return widen(x); });
  } else {
    std::copy_n(view.read<float>(), view.length().n, all.begin());
  }
  return all;
}

// The kernels that a transport needs.
class FoldOnly final : public kernels::Table {
 public:
  void run(const kernels::Call& call) override {
    if (const auto* conversion = std::get_if<kernels::ToFixed>(&call)) return convert(*conversion);
    const auto& fold = std::get<kernels::Fold>(call);
    ++calls;
    elements += std::max<int64_t>(1, static_cast<int64_t>(fold.inputs.size()) - 1) * fold.out.length().n;
    if (fold.out.empty()) return;
    if (fold.inputs.front().type() == Type::i64) return add_integers(fold);
    store(fold.out, folded(fold), fold.divisor);
  }

  int64_t calls = 0, elements = 0;  // of folds
  int64_t converted = 0;

 private:
  void convert(const kernels::ToFixed& call) {
    if (call.from.empty()) return;
    std::transform(call.from.read<float>(), call.from.read<float>() + call.from.length().n,
                   call.to.write<int64_t>(), units_of);
    converted += call.from.length().n;
  }
  static void add_integers(const kernels::Fold& fold) {
    std::vector<int64_t> sums(static_cast<size_t>(fold.out.length().n));
    for (const View& input : fold.inputs)
      std::transform(sums.begin(), sums.end(), input.read<int64_t>(), sums.begin(), std::plus<>());
    if (fold.out.type() == Type::i64) {
      std::copy(sums.begin(), sums.end(), fold.out.write<int64_t>());
    } else {
      std::transform(sums.begin(), sums.end(), fold.out.write<float>(),
                     [&](int64_t sum) { return of_units(sum) / fold.divisor; });
    }
  }
  static std::vector<float> folded(const kernels::Fold& fold) {
    std::vector<std::vector<float>> terms;
    for (const View& input : fold.inputs) terms.push_back(floats_of(input));
    for (size_t count = terms.size(); count > 1;) {
      size_t half = 1;
      while (half * 2 < count) half *= 2;
      for (size_t t = half; t < count; ++t) {
        std::vector<float>& sums = terms[t - half];
        std::transform(sums.begin(), sums.end(), terms[t].begin(), sums.begin(), std::plus<>());
      }
      count = half;
    }
    return terms.front();
  }
  static void store(const View& view, const std::vector<float>& sums, float divisor) {
    if (view.type() == Type::bf16) {
      std::transform(sums.begin(), sums.end(), view.write<bf16>(),
                     [=](float sum) { return round_to_bf16(sum / divisor); });
    } else {
      std::transform(sums.begin(), sums.end(), view.write<float>(), [=](float sum) { return sum / divisor; });
    }
  }
};

// A contribution that no other (rank, element) shares, with enough bits that the order of additions shows.
inline float value(int place, int64_t element) {
  constexpr uint64_t kKey = key_of(7, "transport");
  return random_normal(kKey, static_cast<uint64_t>(place) << 40 | static_cast<uint64_t>(element), 1.0F);
}

// Bits of all elements of any type, as unsigned numbers.
inline std::vector<uint64_t> bits_of(const View& view) {
  std::vector<uint64_t> bits(static_cast<size_t>(view.length().n));
  if (view.empty()) return bits;
  const int64_t n = view.length().n;
  switch (view.type()) {
    case Type::f32:
      std::transform(view.read<float>(), view.read<float>() + n, bits.begin(),
                     [](float x) { return std::bit_cast<uint32_t>(x); });
      break;
    case Type::bf16:
      std::transform(view.read<bf16>(), view.read<bf16>() + n, bits.begin(), [](bf16 x) { return x.bits; });
      break;
    case Type::i32:
      std::transform(view.read<int32_t>(), view.read<int32_t>() + n, bits.begin(),
                     [](int32_t x) { return static_cast<uint32_t>(x); });
      break;
    case Type::i64: std::copy_n(view.read<int64_t>(), n, bits.begin()); break;
  }
  return bits;
}

// What is a place's own value of an element, in each type.
template <class T>
T own_value(int place, int64_t element) {
  if constexpr (std::is_same_v<T, int64_t>) return (int64_t{place} << 40) - element;
  const float x = value(place, element);
  if constexpr (std::is_same_v<T, bf16>) return round_to_bf16(x);
  if constexpr (std::is_same_v<T, int32_t>) return static_cast<int32_t>(std::bit_cast<uint32_t>(x) + 7);
  if constexpr (std::is_same_v<T, float>) return x;
}
inline uint64_t own_bits(Type type, int place, int64_t element) {
  switch (type) {
    case Type::f32: return std::bit_cast<uint32_t>(own_value<float>(place, element));
    case Type::bf16: return own_value<bf16>(place, element).bits;
    case Type::i32: return static_cast<uint32_t>(own_value<int32_t>(place, element));
    case Type::i64: return static_cast<uint64_t>(own_value<int64_t>(place, element));
  }
  return 0;
}

// Element i of a view gets the place's own value number first + i.
template <class T>
void fill_as(const View& view, int place, int64_t first) {
  T* to = view.write<T>();
  for (int64_t i = 0; i < view.length().n; ++i) to[i] = own_value<T>(place, first + i);
}
inline void fill(const View& view, int place, int64_t first = 0) {
  if (view.empty()) return;
  switch (view.type()) {
    case Type::f32: return fill_as<float>(view, place, first);
    case Type::bf16: return fill_as<bf16>(view, place, first);
    case Type::i32: return fill_as<int32_t>(view, place, first);
    case Type::i64: return fill_as<int64_t>(view, place, first);
  }
}

// The sum over places of one element (design 3.3, 3.4). Halving rounds every partial sum but the last to the
// wire's type; direct rounds none; a ring adds from the owner's successor on and rounds at every hop. The
// quotient is rounded once, to the result's type.
inline uint64_t sum_bits(Algorithm algorithm, Type wire, Type result, int world, int64_t element,
                         float divisor, int owner) {
  std::array<float, kMostPlaces> sums{};
  for (int place = 0; place < world; ++place) {
    const float x = value(place, element);
    sums.at(static_cast<size_t>(place)) = wire == Type::bf16 ? widen(round_to_bf16(x)) : x;
  }
  for (int count = algorithm == Algorithm::ring ? 1 : world; count > 1;) {
    int half = 1;
    while (half * 2 < count) half *= 2;
    for (int i = half; i < count; ++i) sums[static_cast<size_t>(i - half)] += sums[static_cast<size_t>(i)];
    count = half;
    if (algorithm == Algorithm::halving && wire == Type::bf16 && count > 1) {
      for (int i = 0; i < count; ++i)
        sums[static_cast<size_t>(i)] = widen(round_to_bf16(sums[static_cast<size_t>(i)]));
    }
  }
  if (algorithm == Algorithm::ring) {
    float sum = sums.at(static_cast<size_t>((owner + 1) % world));
    for (int hop = 2; hop <= world && world > 1; ++hop) {
      sum += sums.at(static_cast<size_t>((owner + hop) % world));
      if (wire == Type::bf16 && hop < world) sum = widen(round_to_bf16(sum));
    }
    sums.front() = sum;
  }
  const float mean = sums.front() / divisor;
  return result == Type::bf16 ? round_to_bf16(mean).bits : std::bit_cast<uint32_t>(mean);
}

// The same in fixed point, whatever the algorithm; as int64, the sum itself.
inline uint64_t fixed_sum_bits(Type result, int world, int64_t element, float divisor) {
  int64_t sum = 0;
  for (int place = 0; place < world; ++place) sum += units_of(value(place, element));
  if (result == Type::i64) return static_cast<uint64_t>(sum);
  return std::bit_cast<uint32_t>(of_units(sum) / divisor);
}

struct Traffic {
  int64_t messages = 0, bytes = 0;
  friend bool operator==(const Traffic&, const Traffic&) = default;
};
using TrafficByPlace = std::map<int, Traffic>;  // places that are sent nothing are absent

inline void add_messages(TrafficByPlace& traffic, int place, int64_t bytes, int64_t longest) {
  if (bytes == 0) return;
  traffic[place].messages += (bytes + longest - 1) / longest;
  traffic[place].bytes += bytes;
}

// Bytes of the slices whose place agrees with `like` in the bits from h up.
inline int64_t bytes_like(const Cuts& cuts, Type type, int like, int h) {
  int64_t bytes = 0;
  for (int q = 0; q < cuts.world(); ++q) {
    if (q / h == like / h) bytes += cuts.of(q).length().n * size_of(type).n;
  }
  return bytes;
}

inline void add_reduce_scatter(TrafficByPlace& traffic, Algorithm algorithm, const Cuts& cuts, Type type,
                               int place) {
  for (int q = 0; q < cuts.world() && algorithm == Algorithm::direct; ++q) {
    if (q != place) add_messages(traffic, q, cuts.of(q).length().n * size_of(type).n, kPiece.n);
  }
  for (int h = 1; h < cuts.world() && algorithm == Algorithm::halving; h *= 2) {
    add_messages(traffic, place ^ h, bytes_like(cuts, type, place ^ h, h), kPiece.n);
  }
  // All but the own one, on to the next place.
  for (int q = 0; q < cuts.world() && algorithm == Algorithm::ring; ++q) {
    if (q == place) continue;
    add_messages(traffic, (place + 1) % cuts.world(), cuts.of(q).length().n * size_of(type).n, kPiece.n);
  }
}

inline void add_all_gather(TrafficByPlace& traffic, Algorithm algorithm, const Cuts& cuts, Type type,
                           int place) {
  for (int q = 0; q < cuts.world() && algorithm == Algorithm::direct; ++q) {
    if (q != place) add_messages(traffic, q, cuts.of(place).length().n * size_of(type).n, kLongestMessage.n);
  }
  for (int h = 1; h < cuts.world() && algorithm == Algorithm::halving; h *= 2) {
    add_messages(traffic, place ^ h, bytes_like(cuts, type, place, h), kLongestMessage.n);
  }
  // All but the next place's.
  for (int q = 0; q < cuts.world() && algorithm == Algorithm::ring; ++q) {
    const int next = (place + 1) % cuts.world();
    if (q != next) add_messages(traffic, next, cuts.of(q).length().n * size_of(type).n, kLongestMessage.n);
  }
}

// Counts what passes through a link, by rank.
class CountingLink final : public Link {
 public:
  explicit CountingLink(Link& link) : link_(link) {}
  int rank() const override { return link_.rank(); }
  int world() const override { return link_.world(); }
  std::unique_ptr<Request> send(int peer, const Tag& tag, std::span<const std::byte> bytes) override {
    sent[peer].messages += 1;
    sent[peer].bytes += static_cast<int64_t>(bytes.size());
    return link_.send(peer, tag, bytes);
  }
  std::unique_ptr<Request> receive(int peer, const Tag& tag, std::span<std::byte> bytes) override {
    return link_.receive(peer, tag, bytes);
  }

  std::map<int, Traffic> sent;

 private:
  Link& link_;
};

}  // namespace zp::plain
