// A model: its units' tensors, and forward and backward one unit at a time, so that a strategy can gather,
// reduce and drop between units. Knows nothing of ranks, slices or optimizers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/type.hpp"
#include "harness/device/device.hpp"
#include "harness/layout/layout.hpp"
#include "harness/model/data.hpp"
#include "kernels/kernels.hpp"

namespace zp {

enum class Architecture { gpt, synthetic };

// Shapes that fix the model. For the synthetic model only `name` and `architecture` count.
struct ModelConfig {
  std::string name;
  Architecture architecture = Architecture::gpt;
  int64_t layers = 0, width = 0, heads = 0;
  int64_t positions = 0;  // longest sequence: rows of the position table
  int64_t vocabulary = 0;
  bool tied = false;                     // the head's weight is the token table
  int64_t unit_blocks = 1;               // so many blocks form a unit
  std::vector<std::string> frozen = {};  // names of units that are not trained; of any architecture
};

// Presets "tiny", "small", "gpt2", "synthetic". Throws (usage) naming what there is.
ModelConfig model_preset(std::string_view name);
// Throws (usage) for numbers that make no model (heads not dividing width, …), and for frozen units that it
// does not have, or that leave nothing to train.
void check_model(const ModelConfig& config);

// Units in forward order: embeddings, block.0 …, head (gpt); where several blocks form a unit, blocks.0-3 ….
std::vector<UnitSpec> model_units(const ModelConfig& config);

// Of a GPT, which parts are frozen: embeddings, every block, head.
std::vector<bool> frozen_parts(const ModelConfig& config);

struct BatchShape {
  int64_t batch = 1;     // sequences in a micro-batch
  int64_t sequence = 0;  // tokens in a sequence
  int64_t rows() const { return batch * sequence; }
};

// Views of what a use reads or writes: the unit's own, and the unit's that it borrows, where it borrows one.
struct UnitViews {
  View own, borrowed;
  UnitViews(View own_view, View borrowed_view = {}) : own(own_view), borrowed(borrowed_view) {}  // NOLINT
};

class Model {
 public:
  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  virtual ~Model() = default;

  // Starts a micro-batch. `number` counts over the whole job's step; tokens are copied to the device.
  virtual void begin(int step, int number, const MicroBatch& tokens) = 0;
  // Uses of one micro-batch, in the order of layout/uses.hpp. weights: the unit's parameters, at least its
  // logical length, of the recipe's type, in tensor order.
  virtual void forward(int unit, const UnitViews& weights) = 0;
  // grads: the same shape, of the recipe's gradient type, empty where a unit is frozen; its logical elements
  // are overwritten with this micro-batch's gradient of its mean token loss, rounded once to that type.
  // Padding is left alone. Of a borrowed unit, the borrower writes the gradient of the tensor that it reads;
  // the unit's own backward adds to it, and writes the rest.
  virtual void backward(int unit, const UnitViews& weights, const UnitViews& grads) = 0;
  // Mean token loss of the micro-batch; valid once the last unit's forward is done.
  virtual float loss() const = 0;
};

// Activations (Category::activations), tokens (data) and the fp32 image of the gradients that one kernel
// writes (workspace, only where the recipe's gradients are not fp32) are acquired here and held until the
// end.
std::unique_ptr<Model> make_model(const ModelConfig& config, const BatchShape& shape, const Recipe& recipe,
                                  uint64_t seed, Device& device, kernels::Table& kernels);

// Key of a tensor's initial values, and of the synthetic model's gradients of one micro-batch.
uint64_t init_key(uint64_t seed, std::string_view tensor_name);
uint64_t synthetic_key(uint64_t seed, int step, int micro_batch);
// The synthetic model's loss of one micro-batch: a small dyadic number.
float synthetic_loss(uint64_t seed, int step, int micro_batch);

}  // namespace zp
