// AdamW: the bits of the formula for every host, its fp64 form within a derived bound, and that a step on
// slices is a step on the whole: what sharding the optimizer rests on.
#include <functional>

#include "correctness/kernels/either_type.hpp"
#include "correctness/kernels/naive.hpp"
#include "kernels/adamw.hpp"
#include "kernels/sgd.hpp"

namespace zp::kernels {
namespace {

// A rate so large that every rounding within the step shows in the master.
constexpr naive::AdamWRates kRates{
    0.7F, 0.75F, 0.9F, 0.95F, 1e-8F, 0.1F, 1.0F - 0.9F * 0.9F, 1.0F - 0.95F * 0.95F};
constexpr naive::AdamWRates kNoDecay{1.0F, 1e-3F, 0.8F, 0.999F, 1e-6F, 0.0F, 0.2F, 0.001F};

struct State {
  State(Type type, int64_t n)
      : grads(kept_as(type, data(n, 1))), master(data(n, 3)), m(data(n, 5)), v(data(n, 7)) {
    for (float& x : v) x = x * x;
  }
  Floats grads, master, m, v;
};

AdamW call_of(const naive::AdamWRates& rates) {
  AdamW call;
  call.clip = rates.clip;
  call.lr = rates.lr;
  call.beta1 = rates.beta1;
  call.beta2 = rates.beta2;
  call.epsilon = rates.epsilon;
  call.decay = rates.decay;
  call.correction1 = rates.correction1;
  call.correction2 = rates.correction2;
  return call;
}

constexpr naive::SgdRates kSgd{0.7F, 0.75F, 0.9F, 0.1F};
constexpr naive::SgdRates kPlain{1.0F, 1e-3F, 0.0F, 0.0F};

Sgd call_of(const naive::SgdRates& rates) {
  Sgd call;
  call.clip = rates.clip;
  call.lr = rates.lr;
  call.momentum = rates.momentum;
  call.decay = rates.decay;
  return call;
}

State stepped(const naive::AdamWRates& rates, State state) {
  for (size_t i = 0; i < state.grads.size(); ++i) {
    const auto next = naive::adamw<float>(rates, state.grads[i], {state.master[i], state.m[i], state.v[i]});
    state.master[i] = next.master;
    state.m[i] = next.m;
    state.v[i] = next.v;
  }
  return state;
}

TEST(AdamW, HasTheBitsOfTheFormulaForEveryHost) {
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const int64_t n : {0, 1, 7, 8, 31, 33, 65, 1009, 2 * 16384 + 13}) {
      for (const auto& rates : {kRates, kNoDecay}) {
        const State before(type, n);
        const State want = stepped(rates, before);
        for (const Host& host : hosts()) {
          Bench bench(host);
          AdamW call = call_of(rates);
          call.grads = put_as(type, before.grads, bench);
          call.master = bench.put(before.master);
          call.m = bench.put(before.m);
          call.v = bench.put(before.v);
          bench.run(call);
          EXPECT_TRUE(same_bits(values_of<float>(call.master), want.master))
              << text_of(host) << " length " << n;
          EXPECT_TRUE(same_bits(values_of<float>(call.m), want.m)) << text_of(host) << " length " << n;
          EXPECT_TRUE(same_bits(values_of<float>(call.v), want.v)) << text_of(host) << " length " << n;
          EXPECT_TRUE(same_bits(widened(call.grads), before.grads));
        }
      }
    }
  }
}

TEST(AdamW, OneElementIsTheFormulaThatEveryDeviceShares) {
  State state(Type::f32, 999);
  const State want = stepped(kRates, state);
  AdamWNumbers numbers;
  numbers.clip = kRates.clip;
  numbers.lr = kRates.lr;
  numbers.beta1 = kRates.beta1;
  numbers.beta2 = kRates.beta2;
  numbers.epsilon = kRates.epsilon;
  numbers.decay = kRates.decay;
  numbers.correction1 = kRates.correction1;
  numbers.correction2 = kRates.correction2;
  for (size_t i = 0; i < state.grads.size(); ++i) {
    adamw_element(numbers, state.grads[i], state.master[i], state.m[i], state.v[i]);
  }
  EXPECT_TRUE(same_bits(state.master, want.master));
  EXPECT_TRUE(same_bits(state.m, want.m));
  EXPECT_TRUE(same_bits(state.v, want.v));
}

// The paper's algorithm in fp64: decay acts on the parameter, not through the moments.
TEST(AdamW, IsNearThePapersAlgorithm) {
  for (const auto& r : {kRates, kNoDecay}) {
    const State before(Type::f32, 1000);
    const State got = stepped(r, before);
    std::vector<double> master, m, v;
    std::vector<Bounded> master_bound, m_bound, v_bound;
    for (size_t i = 0; i < before.grads.size(); ++i) {
      const double g = double{r.clip} * before.grads[i], old = before.master[i];
      m.push_back(double{r.beta1} * before.m[i] + (1.0 - double{r.beta1}) * g);
      v.push_back(double{r.beta2} * before.v[i] + (1.0 - double{r.beta2}) * g * g);
      const double m_hat = m.back() / r.correction1, v_hat = v.back() / r.correction2;
      master.push_back(old - double{r.lr} * (m_hat / (std::sqrt(v_hat) + r.epsilon) + double{r.decay} * old));
      const auto bound =
          naive::adamw<Bounded>(r, Bounded(before.grads[i]),
                                {Bounded(before.master[i]), Bounded(before.m[i]), Bounded(before.v[i])});
      master_bound.push_back(bound.master);
      m_bound.push_back(bound.m);
      v_bound.push_back(bound.v);
    }
    EXPECT_TRUE(within_bounds(got.master, master, master_bound));
    EXPECT_TRUE(within_bounds(got.m, m, m_bound));
    EXPECT_TRUE(within_bounds(got.v, v, v_bound));
  }
}

using Step =
    std::function<void(Bench& bench, const View& grads, const View& master, const View& m, const View& v)>;

// Whether three steps on slices leave the masters that three steps on the whole leave.
testing::AssertionResult commutes_with_slicing(const Step& step, const std::vector<int64_t>& cuts,
                                               const Host& host) {
  const int64_t n = cuts.back();
  const State state(Type::f32, n);
  Floats masters[2];
  for (const bool sliced : {false, true}) {
    Bench bench(host);
    const View grads = bench.put(state.grads), master = bench.put(state.master);
    const View m = bench.put(state.m), v = bench.put(state.v);
    for (int t = 0; t < 3; ++t) {
      int64_t begin = 0;
      for (const int64_t end : sliced ? cuts : std::vector<int64_t>{n}) {
        const Range slice{{begin}, {end}};
        step(bench, grads.part(slice), master.part(slice), m.part(slice), v.part(slice));
        begin = end;
      }
    }
    masters[sliced ? 1 : 0] = values_of<float>(master);
  }
  return same_bits(masters[1], masters[0]);
}

TEST(Optimizers, CommuteWithSlicingAndANormScaledOneDoesNot) {
  const Step adamw = [](Bench& bench, const View& grads, const View& master, const View& m, const View& v) {
    AdamW call = call_of(kRates);
    call.grads = grads;
    call.master = master;
    call.m = m;
    call.v = v;
    bench.run(call);
  };
  const Step sgd = [](Bench& bench, const View& grads, const View& master, const View& m, const View&) {
    Sgd call = call_of(kSgd);
    call.grads = grads;
    call.master = master;
    call.m = m;
    bench.run(call);
  };
  // Like LARS: the step is scaled by the norms of the tensor that it is given.
  const Step norm_scaled = [](Bench&, const View& grads, const View& master, const View&, const View&) {
    double weights = 0.0, slope = 0.0;
    float* w = master.write<float>();
    const float* g = grads.read<float>();
    for (int64_t i = 0; i < grads.length().n; ++i) {
      weights += double{w[i]} * w[i];
      slope += double{g[i]} * g[i];
    }
    const auto rate = static_cast<float>(1e-3 * std::sqrt(weights / (slope + 1e-30)));
    for (int64_t i = 0; i < grads.length().n; ++i) w[i] -= rate * g[i];
  };
  for (const Host& host : hosts()) {
    for (const auto& cuts : {std::vector<int64_t>{64, 128, 150}, std::vector<int64_t>{1, 34, 35, 20000}}) {
      EXPECT_TRUE(commutes_with_slicing(adamw, cuts, host)) << text_of(host);
      EXPECT_TRUE(commutes_with_slicing(sgd, cuts, host)) << text_of(host);
      EXPECT_FALSE(commutes_with_slicing(norm_scaled, cuts, host)) << text_of(host);
    }
  }
}

// ---- SGD with momentum

TEST(Sgd, HasTheBitsOfTheFormulaForEveryHost) {
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const int64_t n : {0, 1, 7, 8, 31, 33, 1009, 16384 + 13}) {
      for (const auto& rates : {kSgd, kPlain}) {
        const State before(type, n);
        State want = before;
        for (size_t i = 0; i < want.grads.size(); ++i) {
          const auto next = naive::sgd<float>(rates, want.grads[i], {want.master[i], want.m[i]});
          want.master[i] = next.master;
          want.m[i] = next.m;
        }
        for (const Host& host : hosts()) {
          Bench bench(host);
          Sgd call = call_of(rates);
          call.grads = put_as(type, before.grads, bench);
          call.master = bench.put(before.master);
          call.m = bench.put(before.m);
          bench.run(call);
          EXPECT_TRUE(same_bits(values_of<float>(call.master), want.master)) << text_of(host) << " " << n;
          EXPECT_TRUE(same_bits(values_of<float>(call.m), want.m)) << text_of(host) << " length " << n;
          EXPECT_TRUE(same_bits(widened(call.grads), before.grads));
        }
      }
    }
  }
}

// PyTorch's algorithm in fp64: the buffer begins as the first gradient, decay included; no dampening.
TEST(Sgd, IsNearPyTorchsAlgorithmFromTheFirstStepOn) {
  const State start(Type::f32, 500);
  for (size_t i = 0; i < start.grads.size(); ++i) {
    float master = start.master[i], m = 0.0F;
    naive::Velocity<Bounded> bound{Bounded(master), Bounded(m)};
    double exact = master, buffer = 0.0;
    for (int t = 0; t < 3; ++t) {
      const float grad = start.grads[i] * static_cast<float>(1 << t);
      const double g = double{kSgd.clip} * grad + double{kSgd.decay} * exact;
      buffer = t == 0 ? g : double{kSgd.momentum} * buffer + g;
      exact -= double{kSgd.lr} * buffer;
      sgd_element({.clip = kSgd.clip, .lr = kSgd.lr, .momentum = kSgd.momentum, .decay = kSgd.decay}, grad,
                  master, m);
      bound = naive::sgd<Bounded>(kSgd, Bounded(grad), bound);
    }
    ASSERT_TRUE(within_bounds({master, m}, {exact, buffer}, {bound.master, bound.m})) << i;
  }
}

// A gradient four times too large: AdamW's parameters hardly show it, SGD's move four times as far.
TEST(Sgd, ShowsTheScaleOfTheGradientAndAdamWHidesIt) {
  const auto adamw_moves = [](float scale) {
    float master = 1.0F, m = 0.0F, v = 0.0F;
    AdamWNumbers numbers;
    numbers.lr = 0x1p-6F;
    numbers.beta1 = 0.9F;
    numbers.beta2 = 0.95F;
    numbers.correction1 = 1.0F - 0.9F;
    numbers.correction2 = 1.0F - 0.95F;
    numbers.epsilon = 1e-8F;
    adamw_element(numbers, scale * 0.25F, master, m, v);
    return 1.0F - master;
  };
  const auto sgd_moves = [](float scale) {
    float master = 1.0F, m = 0.0F;
    sgd_element({.clip = 1.0F, .lr = 0x1p-6F, .momentum = 0.9F, .decay = 0.0F}, scale * 0.25F, master, m);
    return 1.0F - master;
  };
  EXPECT_EQ(adamw_moves(4.0F), adamw_moves(1.0F));
  EXPECT_EQ(sgd_moves(4.0F), 4.0F * sgd_moves(1.0F));
  EXPECT_GT(sgd_moves(1.0F), 0.0F);
}

}  // namespace
}  // namespace zp::kernels
