// A GPT and its micro-batch as plain numbers: all that theory knows of a model.
#pragma once

#include <cstdint>

namespace zp::theory {

struct GptShape {
  int64_t layers = 0, width = 0, heads = 0;
  int64_t positions = 0;  // rows of the position table
  int64_t vocabulary = 0;
  int64_t batch = 1;     // sequences in a micro-batch
  int64_t sequence = 0;  // tokens in a sequence
  int64_t rows() const { return batch * sequence; }
};

}  // namespace zp::theory
