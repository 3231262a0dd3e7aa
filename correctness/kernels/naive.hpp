// The contracts of kernels.hpp as plain loops over any number type. With float they give the bits, written
// apart from the kernels (no lanes of hardware, no blocks, no threads); with Bounded the error that this
// order may make.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "correctness/kernels/bounded.hpp"

namespace zp::naive {

template <class T>
using List = std::vector<T>;

// What binary32 does, step by step; `T(x)` makes a number of a float.
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }
inline float square_root(float x) { return std::sqrt(x); }
inline Bounded square_root(Bounded x) { return zp::sqrt(x); }

inline float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

// The coefficients are the specification (reproducible arithmetic, design 3.1).
inline float exponential(float x) {
  x = std::min(std::max(x, -104.0F), 89.0F);
  const float magic = 12582912.0F;
  const float shifted = std::fma(x, 0x1.715476p+0F, magic);
  const float n = shifted - magic;
  float r = std::fma(n, -0x1.62e43p-1F, x);
  r = std::fma(n, 0x1.05c61p-29F, r);
  float q = 0x1.6af784p-10F;
  for (const float c : {0x1.1232dep-7F, 0x1.55589ap-5F, 0x1.555494p-3F, 0x1.fffffcp-2F})
    q = std::fma(q, r, c);
  const float y = std::fma(r * r, q, r) + 1.0F;
  const int whole = static_cast<int>(n);
  const int half = (whole - (whole < 0 ? 1 : 0)) / 2;  // rounded down
  return (y * power_of_two(half)) * power_of_two(whole - half);
}
inline Bounded exponential(Bounded x) { return exp(x); }

inline float tangent(float x) {
  const float a = std::fabs(x);
  float magnitude = 0.0F;
  if (a < 0.625F) {
    const float u = a * a;
    float p = 0x1.189a78p-9F;
    for (const float c :
         {-0x1.0bfc64p-7F, 0x1.639406p-6F, -0x1.b9f046p-5F, 0x1.111076p-3F, -0x1.555554p-2F}) {
      p = std::fma(p, u, c);
    }
    magnitude = std::fma(a * u, p, a);
  } else {
    const float b = std::min(a, 10.0F);
    magnitude = 1.0F - 2.0F / (exponential(b + b) + 1.0F);
  }
  return std::copysign(magnitude, x);
}
inline Bounded tangent(Bounded x) { return tanh(x); }

// Correctly rounded: extended precision, then once to binary32 (no sampled argument lies near enough to a
// tie).
inline float logarithm(float x) { return static_cast<float>(std::log(static_cast<long double>(x))); }
inline Bounded logarithm(Bounded x) { return log(x); }

// 32 lanes from +0, element i in lane i mod 32, folded (l, l+16), 8, 4, 2, 1.
template <class T, class AddTo>
T lanes(int64_t n, const AddTo& add_to) {
  List<T> lane(32, T(0.0F));
  for (int64_t i = 0; i < n; ++i)
    lane[static_cast<size_t>(i % 32)] = add_to(lane[static_cast<size_t>(i % 32)], i);
  for (size_t half = 16; half > 0; half /= 2) {
    for (size_t l = 0; l < half; ++l) lane[l] = lane[l] + lane[l + half];
  }
  return lane[0];
}

template <class T>
T sum_in_lanes(const T* x, int64_t n) {
  return lanes<T>(n, [x](T lane, int64_t i) { return lane + x[i]; });
}

template <class T>
T number(int64_t n) {
  return T(static_cast<float>(n));
}

template <class T>
struct Norm {
  List<T> y, mean, rstd;
};

template <class T>
Norm<T> layer_norm(const List<T>& x, const List<T>& gain, const List<T>& bias, int64_t rows) {
  const auto width = static_cast<int64_t>(gain.size());
  Norm<T> out{List<T>(x.size()), {}, {}};
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = x.data() + r * width;
    const T mean = sum_in_lanes(row, width) / number<T>(width);
    const T variance =
        lanes<T>(width, [&](T lane, int64_t i) { return fma(row[i] - mean, row[i] - mean, lane); }) /
        number<T>(width);
    const T rstd = T(1.0F) / square_root(variance + T(1e-5F));
    for (int64_t c = 0; c < width; ++c) {
      const auto column = static_cast<size_t>(c);
      out.y[static_cast<size_t>(r * width + c)] = fma((row[c] - mean) * rstd, gain[column], bias[column]);
    }
    out.mean.push_back(mean);
    out.rstd.push_back(rstd);
  }
  return out;
}

template <class T>
struct NormGradient {
  List<T> dx, dgain, dbias;
};

template <class T>
NormGradient<T> layer_norm_backward(const List<T>& x, const List<T>& gain, const Norm<T>& forward,
                                    const List<T>& dy) {
  const size_t width = gain.size();
  const auto n = static_cast<int64_t>(width);
  NormGradient<T> out{List<T>(x.size()), List<T>(width, T(0.0F)), List<T>(width, T(0.0F))};
  for (size_t r = 0; r < forward.mean.size(); ++r) {
    const auto xhat = [&](size_t c) { return (x[r * width + c] - forward.mean[r]) * forward.rstd[r]; };
    const auto h = [&](size_t c) { return dy[r * width + c] * gain[c]; };
    const T mean_h =
        lanes<T>(n, [&](T lane, int64_t c) { return lane + h(static_cast<size_t>(c)); }) / number<T>(n);
    const T mean_hx = lanes<T>(n,
                               [&](T lane, int64_t c) {
                                 return lane + h(static_cast<size_t>(c)) * xhat(static_cast<size_t>(c));
                               }) /
                      number<T>(n);
    for (size_t c = 0; c < width; ++c) {
      out.dx[r * width + c] = ((h(c) - mean_h) - xhat(c) * mean_hx) * forward.rstd[r];
      out.dgain[c] = fma(dy[r * width + c], xhat(c), out.dgain[c]);
      out.dbias[c] = out.dbias[c] + dy[r * width + c];
    }
  }
  return out;
}

// A constant that stands in fp32 for a number which it only approximates.
template <class T>
T rounded_constant(float x) {
  return T(x);
}
template <>
inline Bounded rounded_constant(float x) {
  return bounded::rounded(x, 0.0, 2.0);
}

template <class T>
T gelu_tanh(T x) {
  return tangent(fma((x * x) * x, T(0.044715F), x) * T(0.7978846F));
}

template <class T>
T gelu(T x) {
  return (T(0.5F) * x) * (T(1.0F) + gelu_tanh(x));
}

template <class T>
T gelu_slope(T x) {
  const T t = gelu_tanh(x);
  const T inner = fma(rounded_constant<T>(0.134145F) * x, x, T(1.0F)) * T(0.7978846F);
  return fma((T(0.5F) * x) * fma(-t, t, T(1.0F)), inner, T(0.5F) * (T(1.0F) + t));
}

template <class T>
struct Loss {
  List<T> row_max, row_sum, row_loss;
  T loss{};
};

inline float plain(float x) { return x; }
inline double plain(Bounded x) { return x.value; }

template <class T>
Loss<T> cross_entropy(const List<T>& logits, const std::vector<int32_t>& targets) {
  const size_t rows = targets.size(), vocabulary = logits.size() / rows;
  Loss<T> out;
  for (size_t r = 0; r < rows; ++r) {
    const T* row = logits.data() + r * vocabulary;
    const T max = T(0.0F) + *std::max_element(row, row + vocabulary,
                                              [](const T& a, const T& b) { return plain(a) < plain(b); });
    const T sum = lanes<T>(static_cast<int64_t>(vocabulary),
                           [&](T lane, int64_t i) { return lane + exponential(row[i] - max); });
    out.row_max.push_back(max);
    out.row_sum.push_back(sum);
    out.row_loss.push_back((logarithm(sum) + max) - row[targets[r]]);
  }
  out.loss =
      sum_in_lanes(out.row_loss.data(), static_cast<int64_t>(rows)) / number<T>(static_cast<int64_t>(rows));
  return out;
}

template <class T>
List<T> cross_entropy_backward(const List<T>& logits, const std::vector<int32_t>& targets,
                               const Loss<T>& forward) {
  const size_t rows = targets.size(), vocabulary = logits.size() / rows;
  const T share = T(1.0F) / number<T>(static_cast<int64_t>(rows));
  List<T> out;
  for (size_t i = 0; i < logits.size(); ++i) {
    const size_t r = i / vocabulary;
    const T p = exponential(logits[i] - forward.row_max[r]) * (T(1.0F) / forward.row_sum[r]);
    const bool is_target = i % vocabulary == static_cast<size_t>(targets[r]);
    out.push_back((p - T(is_target ? 1.0F : 0.0F)) * share);
  }
  return out;
}

// With h the largest power of two below the count: element i+h is added to element i, then the first h are
// folded.
template <class T>
T fold(List<T> parts) {
  while (parts.size() > 1) {
    size_t h = 1;
    while (2 * h < parts.size()) h *= 2;
    for (size_t i = 0; i + h < parts.size(); ++i) parts[i] = parts[i] + parts[i + h];
    parts.resize(h);
  }
  return parts[0];
}

template <class T>
struct Moments {
  T master{}, m{}, v{};
};

struct AdamWRates {
  float clip, lr, beta1, beta2, epsilon, decay, correction1, correction2;
};

struct SgdRates {
  float clip, lr, momentum, decay;
};

template <class T>
struct Velocity {
  T master, m;
};

template <class T>
Velocity<T> sgd(const SgdRates& n, T grad, Velocity<T> state) {
  const T g = fma(T(n.decay), state.master, T(n.clip) * grad);
  state.m = fma(T(n.momentum), state.m, g);
  state.master = state.master - T(n.lr) * state.m;
  return state;
}

template <class T>
Moments<T> adamw(const AdamWRates& n, T grad, Moments<T> state) {
  const T g = T(n.clip) * grad;
  state.m = fma(T(n.beta1), state.m, (T(1.0F) - T(n.beta1)) * g);
  state.v = fma(T(n.beta2), state.v, (T(1.0F) - T(n.beta2)) * (g * g));
  const T step = (state.m / T(n.correction1)) / (square_root(state.v / T(n.correction2)) + T(n.epsilon));
  state.master = state.master - T(n.lr) * fma(T(n.decay), state.master, step);
  return state;
}

}  // namespace zp::naive
