// What the transport tests compare with, written apart from the product: additions by plain loops, the fold
// over places with its rounding places, and the messages that each algorithm sends. Also a table of kernels
// that can only fold.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <vector>

#include "harness/base/random.hpp"
#include "harness/transport/transport.hpp"

namespace zp::plain {

inline constexpr size_t kMostPlaces = 8;

// Units of 2⁻⁴⁴ nearest to x.
inline int64_t units_of(float x) { return std::llrint(std::ldexp(static_cast<double>(x), 44)); }

// The kernels that a transport needs.
class FoldOnly final : public kernels::Table {
 public:
  void run(const kernels::Call& call) override {
    if (const auto* conversion = std::get_if<kernels::ToFixed>(&call)) return convert(*conversion);
    const auto& fold = std::get<kernels::Fold>(call);
    ++calls;
    elements += std::max<int64_t>(1, static_cast<int64_t>(fold.inputs.size()) - 1) * fold.out.length().n;
    if (fold.inputs.front().type() == Type::i64) return add_integers(fold);
    for (int64_t i = 0; i < fold.out.length().n; ++i) store(fold.out, i, folded(fold, i) / fold.divisor);
  }

  int64_t calls = 0, elements = 0;  // of folds
  int64_t converted = 0;

 private:
  void convert(const kernels::ToFixed& call) {
    for (int64_t i = 0; i < call.from.length().n; ++i)
      call.to.write<int64_t>()[i] = units_of(call.from.read<float>()[i]);
    converted += call.from.length().n;
  }
  static void add_integers(const kernels::Fold& fold) {
    for (int64_t i = 0; i < fold.out.length().n; ++i) {
      int64_t sum = 0;
      for (const View& input : fold.inputs) sum += input.read<int64_t>()[i];
      if (fold.out.type() == Type::i64) {
        fold.out.write<int64_t>()[i] = sum;
      } else {
        fold.out.write<float>()[i] =
            static_cast<float>(std::ldexp(static_cast<double>(sum), -44)) / fold.divisor;
      }
    }
  }
  static float folded(const kernels::Fold& fold, int64_t i) {
    std::array<float, kMostPlaces> terms{};
    for (size_t t = 0; t < fold.inputs.size(); ++t) terms.at(t) = load(fold.inputs[t], i);
    for (size_t count = fold.inputs.size(); count > 1;) {
      size_t half = 1;
      while (half * 2 < count) half *= 2;
      for (size_t t = half; t < count; ++t) terms[t - half] += terms[t];
      count = half;
    }
    return terms[0];
  }
  static float load(const View& view, int64_t i) {
    return view.type() == Type::bf16 ? widen(view.read<bf16>()[i]) : view.read<float>()[i];
  }
  static void store(const View& view, int64_t i, float x) {
    if (view.type() == Type::bf16) {
      view.write<bf16>()[i] = round_to_bf16(x);
    } else {
      view.write<float>()[i] = x;
    }
  }
};

// A contribution that no other (rank, element) shares, with enough bits that the order of additions shows.
inline float value(int place, int64_t element) {
  constexpr uint64_t kKey = key_of(7, "transport");
  return random_normal(kKey, static_cast<uint64_t>(place) << 40 | static_cast<uint64_t>(element), 1.0F);
}

// Bits of any element type, as an unsigned number.
inline uint64_t bits_of(const View& view, int64_t i) {
  switch (view.type()) {
    case Type::f32: return std::bit_cast<uint32_t>(view.read<float>()[i]);
    case Type::bf16: return view.read<bf16>()[i].bits;
    case Type::i32: return static_cast<uint32_t>(view.read<int32_t>()[i]);
    case Type::i64: return static_cast<uint64_t>(view.read<int64_t>()[i]);
  }
  return 0;
}

// Writes place's own value of an element, in the view's type.
inline void put(const View& view, int64_t i, int place, int64_t element) {
  const float x = value(place, element);
  switch (view.type()) {
    case Type::f32: view.write<float>()[i] = x; break;
    case Type::bf16: view.write<bf16>()[i] = round_to_bf16(x); break;
    case Type::i32: view.write<int32_t>()[i] = static_cast<int32_t>(std::bit_cast<uint32_t>(x) + 7); break;
    case Type::i64: view.write<int64_t>()[i] = (int64_t{place} << 40) - element; break;
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
  return std::bit_cast<uint32_t>(static_cast<float>(std::ldexp(static_cast<double>(sum), -44)) / divisor);
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
