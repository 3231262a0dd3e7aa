// Causal attention: its bits against loops that follow the contract's order; its values and gradients against
// fp64 loops and finite differences, within bounds that follow from that order.
#include <cmath>

#include "correctness/kernels/either_type.hpp"
#include "correctness/kernels/naive.hpp"
#include "correctness/kernels/slopes.hpp"

namespace zp::kernels {
namespace {

struct HeadsShape {
  int64_t batch, sequence, heads, d;

  int64_t width() const { return heads * d; }
  int64_t rows() const { return batch * sequence; }
};

std::string text_of(const HeadsShape& s) {
  return "b" + std::to_string(s.batch) + "_t" + std::to_string(s.sequence) + "_h" + std::to_string(s.heads) +
         "_d" + std::to_string(s.d);
}

// Where things stand in qkv and out, for one head.
struct Head {
  const HeadsShape& shape;
  int64_t batch, head;

  // Element c of row i of q (part 0), k (1) or v (2).
  size_t in_qkv(int64_t part, int64_t i, int64_t c) const {
    return static_cast<size_t>(((batch * shape.sequence + i) * 3 + part) * shape.width() + head * shape.d +
                               c);
  }
  size_t in_out(int64_t i, int64_t c) const {
    return static_cast<size_t>((batch * shape.sequence + i) * shape.width() + head * shape.d + c);
  }
  size_t in_rows(int64_t i) const {
    return static_cast<size_t>((batch * shape.heads + head) * shape.sequence + i);
  }
};

template <class Body>
void for_each_head(const HeadsShape& shape, const Body& body) {
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t h = 0; h < shape.heads; ++h) body(Head{shape, b, h});
  }
}

// Chains of fma over k = begin … end-1, cut at multiples of 512. Term(k) gives the two factors.
template <class T, class Term>
T chains(int64_t begin, int64_t end, const Term& term) {
  using std::fma;
  T total(0.0F);
  for (int64_t k = begin; k < end;) {
    const bool is_first = k == begin;
    T chain(0.0F);
    for (const int64_t stop = std::min(end, (k / 512 + 1) * 512); k < stop; ++k) {
      const auto [a, b] = term(k);
      chain = fma(a, b, chain);
    }
    total = is_first ? chain : total + chain;
  }
  return total;
}

template <class T>
struct Forward {
  naive::List<T> out, row_max, row_sum;
};

float largest(const naive::List<float>& x) { return 0.0F + *std::max_element(x.begin(), x.end()); }
// The maximum moves by no more than the element that is off the most.
Bounded largest(const naive::List<Bounded>& x) {
  Bounded best = x[0];
  for (const Bounded& one : x) best = {std::max(best.value, one.value), std::max(best.error, one.error)};
  return best;
}

template <class T>
T scale_of(const HeadsShape& shape) {
  using std::sqrt;
  return T(1.0F) / sqrt(T(static_cast<float>(shape.d)));
}

// exp(score - max) of row i, j ≤ i; the maximum is written too.
template <class T>
naive::List<T> exponentials(const Head& head, const naive::List<T>& qkv, int64_t i, T& max) {
  naive::List<T> row;
  for (int64_t j = 0; j <= i; ++j) {
    row.push_back(chains<T>(0, head.shape.d,
                            [&](int64_t c) {
                              return std::pair(qkv[head.in_qkv(0, i, c)], qkv[head.in_qkv(1, j, c)]);
                            }) *
                  scale_of<T>(head.shape));
  }
  max = largest(row);
  for (T& x : row) x = naive::exponential(x - max);
  return row;
}

// p of row i for j = 0 … T-1, zero where masked.
template <class T>
naive::List<T> probabilities(const Head& head, const naive::List<T>& qkv, int64_t i, T& max, T& sum) {
  naive::List<T> row = exponentials(head, qkv, i, max);
  sum = naive::sum_in_lanes(row.data(), i + 1);
  for (T& x : row) x = x * (T(1.0F) / sum);
  row.resize(static_cast<size_t>(head.shape.sequence), T(0.0F));
  return row;
}

int64_t columns_of(const HeadsShape& shape, int64_t i) { return std::min(shape.sequence, (i / 64 + 1) * 64); }

template <class T>
Forward<T> forward(const HeadsShape& shape, const naive::List<T>& qkv) {
  const auto rows = static_cast<size_t>(shape.batch * shape.heads * shape.sequence);
  Forward<T> result{naive::List<T>(qkv.size() / 3), naive::List<T>(rows), naive::List<T>(rows)};
  for_each_head(shape, [&](const Head& head) {
    for (int64_t i = 0; i < shape.sequence; ++i) {
      const size_t row = head.in_rows(i);
      const naive::List<T> p = probabilities(head, qkv, i, result.row_max[row], result.row_sum[row]);
      for (int64_t c = 0; c < shape.d; ++c) {
        result.out[head.in_out(i, c)] = chains<T>(0, columns_of(shape, i), [&](int64_t j) {
          return std::pair(p[static_cast<size_t>(j)], qkv[head.in_qkv(2, j, c)]);
        });
      }
    }
  });
  return result;
}

template <class T>
struct Gradients {
  naive::List<naive::List<T>> p, ds;  // of one head
};

template <class T>
Gradients<T> gradients(const Head& head, const naive::List<T>& qkv, const naive::List<T>& dout) {
  Gradients<T> g;
  const int64_t length = head.shape.sequence;
  for (int64_t i = 0; i < length; ++i) {
    T max, sum;
    g.p.push_back(probabilities(head, qkv, i, max, sum));
    const naive::List<T>& p = g.p.back();
    naive::List<T> ds(static_cast<size_t>(length), T(0.0F));
    for (int64_t j = 0; j <= i; ++j) {
      ds[static_cast<size_t>(j)] = chains<T>(0, head.shape.d, [&](int64_t c) {
        return std::pair(dout[head.in_out(i, c)], qkv[head.in_qkv(2, j, c)]);
      });
    }
    const T w = naive::lanes<T>(i + 1, [&](T lane, int64_t j) {
      return lane + ds[static_cast<size_t>(j)] * p[static_cast<size_t>(j)];
    });
    for (int64_t j = 0; j <= i; ++j) {
      T& x = ds[static_cast<size_t>(j)];
      x = (p[static_cast<size_t>(j)] * (x - w)) * scale_of<T>(head.shape);
    }
    g.ds.push_back(ds);
  }
  return g;
}

template <class T>
naive::List<T> backward(const HeadsShape& shape, const naive::List<T>& qkv, const naive::List<T>& dout) {
  naive::List<T> dqkv(qkv.size());
  for_each_head(shape, [&](const Head& head) {
    const Gradients<T> g = gradients(head, qkv, dout);
    for (int64_t x = 0; x < shape.sequence; ++x) {
      const auto at = static_cast<size_t>(x);
      for (int64_t c = 0; c < shape.d; ++c) {
        dqkv[head.in_qkv(0, x, c)] = chains<T>(0, columns_of(shape, x), [&](int64_t j) {
          return std::pair(g.ds[at][static_cast<size_t>(j)], qkv[head.in_qkv(1, j, c)]);
        });
        dqkv[head.in_qkv(1, x, c)] = chains<T>(x / 64 * 64, shape.sequence, [&](int64_t i) {
          return std::pair(g.ds[static_cast<size_t>(i)][at], qkv[head.in_qkv(0, i, c)]);
        });
        dqkv[head.in_qkv(2, x, c)] = chains<T>(x / 64 * 64, shape.sequence, [&](int64_t i) {
          return std::pair(g.p[static_cast<size_t>(i)][at], dout[head.in_out(i, c)]);
        });
      }
    }
  });
  return dqkv;
}

// softmax(q kᵀ/sqrt(d)) v in fp64, straight from the definition.
std::vector<double> exact_attention(const HeadsShape& shape, const std::vector<double>& qkv) {
  std::vector<double> out(qkv.size() / 3, 0.0);
  for_each_head(shape, [&](const Head& head) {
    for (int64_t i = 0; i < shape.sequence; ++i) {
      std::vector<double> e;
      double sum = 0.0;
      for (int64_t j = 0; j <= i; ++j) {
        double score = 0.0;
        for (int64_t c = 0; c < shape.d; ++c) score += qkv[head.in_qkv(0, i, c)] * qkv[head.in_qkv(1, j, c)];
        e.push_back(std::exp(score / std::sqrt(static_cast<double>(shape.d))));
        sum += e.back();
      }
      for (int64_t j = 0; j <= i; ++j) {
        for (int64_t c = 0; c < shape.d; ++c) {
          out[head.in_out(i, c)] += e[static_cast<size_t>(j)] / sum * qkv[head.in_qkv(2, j, c)];
        }
      }
    }
  });
  return out;
}

struct AttentionResults {
  Floats out, row_max, row_sum, dqkv;
};

AttentionResults computed(const Host& host, const HeadsShape& shape, const Floats& qkv, const Floats& dout) {
  Bench bench(host, shape.sequence);
  const int64_t rows = shape.batch * shape.heads * shape.sequence;
  AttentionForward there;
  there.qkv = bench.put(qkv);
  there.out = bench.space(Type::f32, shape.rows() * shape.width());
  there.row_max = bench.space(Type::f32, rows);
  there.row_sum = bench.space(Type::f32, rows);
  there.batch = shape.batch;
  there.sequence = shape.sequence;
  there.width = shape.width();
  there.heads = shape.heads;
  bench.run(there);
  AttentionBackward back;
  back.qkv = there.qkv;
  back.row_max = there.row_max;
  back.row_sum = there.row_sum;
  back.dout = bench.put(dout);
  back.dqkv = bench.space(Type::f32, shape.rows() * 3 * shape.width());
  back.batch = shape.batch;
  back.sequence = shape.sequence;
  back.width = shape.width();
  back.heads = shape.heads;
  bench.run(back);
  return {values_of<float>(there.out), values_of<float>(there.row_max), values_of<float>(there.row_sum),
          values_of<float>(back.dqkv)};
}

struct AttentionInputs {
  Floats qkv, dout;
  explicit AttentionInputs(const HeadsShape& shape)
      : qkv(data(shape.rows() * 3 * shape.width(), 11)), dout(data(shape.rows() * shape.width(), 12)) {}
};

class AttentionOfEveryShape : public testing::TestWithParam<HeadsShape> {};

TEST_P(AttentionOfEveryShape, HasTheBitsOfTheOrderedLoopsOnEveryIsaAndThreadCount) {
  const HeadsShape shape = GetParam();
  const AttentionInputs in(shape);
  const Forward<float> there = forward<float>(shape, in.qkv);
  const Floats back = backward<float>(shape, in.qkv, in.dout);
  for (const Host& host : hosts()) {
    const AttentionResults got = computed(host, shape, in.qkv, in.dout);
    EXPECT_TRUE(same_bits(got.row_max, there.row_max)) << "row_max on " << text_of(host);
    EXPECT_TRUE(same_bits(got.row_sum, there.row_sum)) << "row_sum on " << text_of(host);
    EXPECT_TRUE(same_bits(got.out, there.out)) << "out on " << text_of(host);
    EXPECT_TRUE(same_bits(got.dqkv, back)) << "dqkv on " << text_of(host);
  }
}

INSTANTIATE_TEST_SUITE_P(, AttentionOfEveryShape,
                         testing::Values(HeadsShape{1, 1, 1, 1}, HeadsShape{2, 5, 3, 3},
                                         HeadsShape{1, 63, 1, 16}, HeadsShape{1, 64, 2, 8},
                                         HeadsShape{2, 65, 1, 17}, HeadsShape{1, 130, 2, 5},
                                         HeadsShape{3, 33, 2, 64}, HeadsShape{2, 190, 4, 8},
                                         HeadsShape{1, 512, 1, 4}, HeadsShape{1, 577, 1, 3},
                                         HeadsShape{1, 1100, 1, 2}),
                         [](const auto& info) { return text_of(info.param); });

class AttentionWithinBounds : public testing::TestWithParam<HeadsShape> {};

TEST_P(AttentionWithinBounds, ForwardIsSoftmaxOfScoresTimesValues) {
  const HeadsShape shape = GetParam();
  const AttentionInputs in(shape);
  const AttentionResults got = computed(hosts().back(), shape, in.qkv, in.dout);
  const Forward<Bounded> bound = forward<Bounded>(shape, bounded_list(in.qkv));
  EXPECT_TRUE(within_bounds(got.out, exact_attention(shape, widened_to_fp64(in.qkv)), bound.out));
}

TEST_P(AttentionWithinBounds, BackwardIsTheSlopeOfForward) {
  const HeadsShape shape = GetParam();
  const AttentionInputs in(shape);
  const AttentionResults got = computed(hosts().back(), shape, in.qkv, in.dout);
  const std::vector<double> dout = widened_to_fp64(in.dout);
  const Slopes slope = slopes(widened_to_fp64(in.qkv), [&](const std::vector<double>& qkv) {
    return inner_product(exact_attention(shape, qkv), dout);
  });
  const naive::List<Bounded> bound = backward<Bounded>(shape, bounded_list(in.qkv), bounded_list(in.dout));
  EXPECT_TRUE(within_bounds(got.dqkv, slope.value, bound, slope.error));
}

INSTANTIATE_TEST_SUITE_P(, AttentionWithinBounds,
                         testing::Values(HeadsShape{1, 1, 1, 1}, HeadsShape{2, 5, 3, 3},
                                         HeadsShape{1, 13, 2, 4}, HeadsShape{1, 67, 1, 2}),
                         [](const auto& info) { return text_of(info.param); });

TEST(Attention, StoresAMaximumOfZeroWithoutItsSign) {
  const HeadsShape shape{1, 9, 1, 1};
  // Every product underflows to -0.
  Floats qkv;
  for (int64_t i = 0; i < shape.sequence; ++i) qkv.insert(qkv.end(), {-0x1p-100F, 0x1p-100F, 1.0F});
  const Floats dout(static_cast<size_t>(shape.sequence), 1.0F);
  for (const Host& host : hosts()) {
    const AttentionResults got = computed(host, shape, qkv, dout);
    EXPECT_TRUE(same_bits(got.row_max, Floats(9, 0.0F))) << text_of(host);
    EXPECT_TRUE(same_bits(got.dqkv, backward<float>(shape, qkv, dout))) << text_of(host);
  }
}

// Rows 1 … 7 end in -0 where only what they see is added: tiny negative values, halved or less. A masked term
// makes it +0, where its value is positive, and it stays -0 where that is negative too.
TEST(Attention, ExecutesMaskedTermsWhereAZeroKeepsItsSign) {
  const HeadsShape shape{1, 70, 1, 2};
  Floats qkv(static_cast<size_t>(3 * shape.width() * shape.rows()), 0.0F);
  const Head head{shape, 0, 0};
  for (int64_t j = 0; j < shape.sequence; ++j) {
    qkv[head.in_qkv(2, j, 0)] = j < 8 ? -0x1p-149F : 1.0F;
    qkv[head.in_qkv(2, j, 1)] = -0x1p-149F;
  }
  const Floats dout(static_cast<size_t>(shape.rows() * shape.width()), 1.0F);
  const Floats want = forward<float>(shape, qkv).out;
  EXPECT_FALSE(std::signbit(want[head.in_out(3, 0)]));
  EXPECT_TRUE(std::signbit(want[head.in_out(3, 1)]));
  for (const Host& host : hosts()) {
    const AttentionResults got = computed(host, shape, qkv, dout);
    EXPECT_TRUE(same_bits(got.out, want)) << text_of(host);
    EXPECT_TRUE(same_bits(got.dqkv, backward<float>(shape, qkv, dout))) << text_of(host);
  }
}

TEST(Attention, TakesShorterSequencesThanTheTableWasMadeForAndNoLongerOnes) {
  for (const Host& host : hosts()) {
    const auto device = make_host_device(Fill::nan);
    const auto table =
        make_host_table(*device, {.threads = host.threads, .max_sequence = 8, .isa = host.isa});
    for (const int64_t sequence : {7, 9}) {
      const Buffer qkv = device->acquire(Category::activations, Type::f32, {sequence * 3});
      const Buffer out = device->acquire(Category::activations, Type::f32, {sequence});
      const Buffer max = device->acquire(Category::activations, Type::f32, {sequence});
      const Buffer sum = device->acquire(Category::activations, Type::f32, {sequence});
      AttentionForward call;
      call.qkv = qkv.all();
      call.out = out.all();
      call.row_max = max.all();
      call.row_sum = sum.all();
      call.batch = call.width = call.heads = 1;
      call.sequence = sequence;
      if (sequence > 8) {
        EXPECT_THROW(table->run(call), Error);
      } else {
        EXPECT_NO_THROW(table->run(call));
      }
    }
  }
}

}  // namespace
}  // namespace zp::kernels
