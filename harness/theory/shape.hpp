// A GPT and its micro-batch as plain numbers: all that theory knows of a model.
#pragma once

#include <cstdint>
#include <vector>

namespace zp::theory {

struct GptShape {
  int64_t layers = 0, width = 0, heads = 0;
  int64_t positions = 0;  // rows of the position table
  int64_t vocabulary = 0;
  int64_t batch = 1;              // sequences in a micro-batch
  int64_t sequence = 0;           // tokens in a sequence
  bool tied = false;              // the head's weight is the token table
  std::vector<bool> frozen = {};  // embeddings, each block, head; empty: all are trained
  int64_t rows() const { return batch * sequence; }

  bool trained(int64_t part) const { return frozen.empty() || !frozen[static_cast<size_t>(part)]; }
  bool trained_block(int64_t block) const { return trained(1 + block); }
  bool trained_embeddings() const { return trained(0); }
  bool trained_head() const { return trained(layers + 1); }
  // The weight of the head, wherever it lies.
  bool trained_head_weight() const { return tied ? trained_embeddings() : trained_head(); }
};

}  // namespace zp::theory
