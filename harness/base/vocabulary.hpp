// The words that ledger and theory share: what memory is held for, what a collective is for, when memory is
// looked at. One word per thing; names are those that tables and records print.
#pragma once

#include <array>
#include <string_view>

namespace zp {

// What memory is held for.
enum class Category {
  params,       // parameters between steps: whole, or this rank's slices
  grads,        // gradients kept for the step: whole, or slices
  optimizer,    // fp32 masters and moments
  gathered,     // zero3: whole parameters of the units in use
  bucket,       // one unit's whole local gradient before it is reduced
  fold,         // extra gradient buffers and scratch of the fold over micro-steps
  activations,  // what the model keeps from forward to backward, and their gradients
  workspace,    // kernels: packed panels, attention blocks, fp32 image of one tensor's gradient
  transport,    // receive pieces; the fixed-point image of gradients that are being reduced
  scalars,      // losses and norms in exchange
  data,         // tokens of the micro-batch
};
inline constexpr std::array kCategories{Category::params,      Category::grads,     Category::optimizer,
                                        Category::gathered,    Category::bucket,    Category::fold,
                                        Category::activations, Category::workspace, Category::transport,
                                        Category::scalars,     Category::data};

constexpr std::string_view name_of(Category category) {
  switch (category) {
    case Category::params: return "params";
    case Category::grads: return "grads";
    case Category::optimizer: return "optimizer";
    case Category::gathered: return "gathered";
    case Category::bucket: return "bucket";
    case Category::fold: return "fold";
    case Category::activations: return "activations";
    case Category::workspace: return "workspace";
    case Category::transport: return "transport";
    case Category::scalars: return "scalars";
    case Category::data: return "data";
  }
  return "?";
}

// What a collective is for.
enum class Purpose { gather_params, reduce_grads, grad_norm, loss };
inline constexpr std::array kPurposes{Purpose::gather_params, Purpose::reduce_grads, Purpose::grad_norm,
                                      Purpose::loss};

constexpr std::string_view name_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::gather_params: return "gather params";
    case Purpose::reduce_grads: return "reduce grads";
    case Purpose::grad_norm: return "grad norm";
    case Purpose::loss: return "loss";
  }
  return "?";
}

enum class Operation { reduce_scatter, all_gather, all_reduce };

constexpr std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::reduce_scatter: return "reduce-scatter";
    case Operation::all_gather: return "all-gather";
    case Operation::all_reduce: return "all-reduce";
  }
  return "?";
}

// How a collective is built from messages (design 3.4).
enum class Algorithm { halving, direct, ring, native };
inline constexpr std::array kAlgorithms{Algorithm::halving, Algorithm::direct, Algorithm::ring,
                                        Algorithm::native};

constexpr std::string_view name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::halving: return "halving";
    case Algorithm::direct: return "direct";
    case Algorithm::ring: return "ring";
    case Algorithm::native: return "native";
  }
  return "?";
}

// How messages get from the memory of one rank's device to that of another's.
enum class Route {
  staged,     // through pinned memory of the host
  gpu_aware,  // by MPI, which is given the memory of the device and reaches it by itself
  carried,    // by the device's own library
};

constexpr std::string_view name_of(Route route) {
  switch (route) {
    case Route::staged: return "staged";
    case Route::gpu_aware: return "gpu-aware";
    case Route::carried: return "nccl";
  }
  return "?";
}

// Whose matrix products forward and backward compute with: ours, in the documented order, or a vendor's
// library, whose bits are those of one device and one version of it.
enum class Math { ordered, vendor };

constexpr std::string_view name_of(Math math) { return math == Math::ordered ? "ordered" : "vendor"; }

// When the memory of a rank is looked at. Peaks are the moment of the largest total; `most` is each category
// at its own largest, which need not be one moment.
enum class Point {
  after_init,       // before the first step
  after_forward,    // of the step's last micro-step
  backward_peak,    // within the backward passes of the step, reductions included
  after_reduction,  // every gradient of the step is reduced, nothing is updated yet
  after_step,
  step_peak,      // within the whole step
  forward_most,   // within the forward uses of the step
  backward_most,  // within its backward uses
  rest_most,      // before, between and after the passes: reductions that end there, norm, optimizer
};
inline constexpr std::array kPoints{Point::after_init,      Point::after_forward, Point::backward_peak,
                                    Point::after_reduction, Point::after_step,    Point::step_peak,
                                    Point::forward_most,    Point::backward_most, Point::rest_most};

constexpr std::string_view name_of(Point point) {
  switch (point) {
    case Point::after_init: return "after init";
    case Point::after_forward: return "after forward";
    case Point::backward_peak: return "backward peak";
    case Point::after_reduction: return "after reduction";
    case Point::after_step: return "after step";
    case Point::step_peak: return "step peak";
    case Point::forward_most: return "most in forward";
    case Point::backward_most: return "most in backward";
    case Point::rest_most: return "most in the rest";
  }
  return "?";
}

}  // namespace zp
