// Training text: any file as bytes, or a seeded synthetic corpus. Which tokens a micro-batch holds depends on
// (seed, step, micro-batch number over the whole job) alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zp {

// batch·sequence inputs, and the token that follows each.
struct MicroBatch {
  std::vector<int32_t> inputs, targets;
};

class Corpus {
 public:
  // The file's bytes are its tokens (vocabulary 256). `least`: tokens of one micro-batch, which must be there
  // with the one that follows. Throws (usage) for a missing, unreadable or empty file, or one that does not
  // hold `tokens` (a micro-batch) and the one that follows.
  static Corpus from_file(const std::string& path, int64_t tokens);
  // A file of tokens as llm.c writes them: a header of 256 int32 (magic 20240520, version 1, how many tokens,
  // zeros), then the tokens, uint16; little-endian. Throws (usage) as from_file, and for what is no such
  // file, is cut off, or holds a token outside `vocabulary`.
  static Corpus from_token_file(const std::string& path, int64_t tokens, int64_t vocabulary);
  // A Markov-like text of `length` tokens below `vocabulary` that a model can learn something from.
  static Corpus synthetic(uint64_t seed, int64_t length, int64_t vocabulary);

  const std::string& name() const { return name_; }
  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  // 64-bit hash of the tokens: fixes the data of a run.
  uint64_t hash() const;
  // Sequences start at offsets drawn from (seed, step, number, sequence index).
  MicroBatch micro_batch(uint64_t seed, int step, int number, int64_t batch, int64_t sequence) const;

 private:
  std::string name_;
  std::vector<int32_t> tokens_;
};

}  // namespace zp
