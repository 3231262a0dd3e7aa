// Training text as tokens, and which of them a micro-batch holds.
#include "harness/model/data.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "harness/base/check.hpp"
#include "harness/base/random.hpp"

namespace zp {
namespace {

constexpr uintmax_t kLargestFile = uintmax_t{1} << 30;

// llm.c's files of tokens.
constexpr size_t kHeaderWords = 256;
constexpr uint32_t kMagic = 20240520;
constexpr uint32_t kVersion = 1;

std::string read_file(const std::string& path) {
  const std::string where = "data file " + path;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail(Exit::usage, where + " is a folder; name a file");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const char* why = errno != 0 ? std::strerror(errno) : "cannot be opened";
    fail(Exit::usage, where + ": " + why + "; name a readable file");
  }
  if (!std::filesystem::is_regular_file(path, ignored)) {
    fail(Exit::usage, where + " is no regular file; name a file with text");
  }
  if (std::filesystem::file_size(path, ignored) > kLargestFile) {
    fail(Exit::usage, where + " is larger than 1 GiB; name a part of it");
  }
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) fail(Exit::usage, where + " cannot be read to its end; name a readable file");
  if (bytes.empty()) fail(Exit::usage, where + " is empty; name a file with text");
  return bytes;
}

void check_length(const std::string& where, int64_t length, int64_t tokens) {
  if (tokens < 1) {
    fail(Exit::usage,
         where + ": a micro-batch of " + std::to_string(tokens) + " tokens; it must hold at least 1");
  }
  if (length - 1 < tokens) {
    fail(Exit::usage, where + " holds " + std::to_string(length) + " tokens; a micro-batch of " +
                          std::to_string(tokens) + " needs as many and the token that follows");
  }
}

}  // namespace

Corpus Corpus::from_file(const std::string& path, int64_t tokens) {
  const std::string bytes = read_file(path);
  check_length("data file " + path, static_cast<int64_t>(bytes.size()), tokens);
  Corpus corpus;
  corpus.name_ = std::filesystem::path(path).filename().string();
  corpus.tokens_.reserve(bytes.size());
  for (const char c : bytes) corpus.tokens_.push_back(static_cast<unsigned char>(c));
  return corpus;
}

namespace {

// `bytes` little-endian bytes from `at` on.
uint32_t word_at(const std::string& file, size_t at, size_t bytes) {
  uint32_t word = 0;
  for (size_t i = 0; i < bytes; ++i) {
    word |= uint32_t{static_cast<unsigned char>(file[at + i])} << (8 * i);
  }
  return word;
}

// How many tokens follow the header.
size_t checked_header(const std::string& file, const std::string& where) {
  const std::string expected = "; a token file of llm.c begins with 256 int32: 20240520, 1, how many tokens";
  if (file.size() < 4 * kHeaderWords) {
    fail(Exit::usage,
         where + " holds " + std::to_string(file.size()) + " bytes, less than a header" + expected);
  }
  const auto word = [&](size_t index) { return word_at(file, 4 * index, 4); };
  if (word(0) != kMagic) {
    fail(Exit::usage, where + " begins with " + std::to_string(word(0)) + ", not 20240520" + expected);
  }
  if (word(1) != kVersion) {
    fail(Exit::usage, where + " is of version " + std::to_string(word(1)) + ", not 1" + expected);
  }
  const size_t tokens = word(2);
  const size_t held = (file.size() - 4 * kHeaderWords) / 2;
  if (file.size() != 4 * kHeaderWords + 2 * tokens) {
    fail(Exit::usage,
         where + " announces " + std::to_string(tokens) + " tokens and holds " + std::to_string(held) +
             (held < tokens ? "; it is cut off, fetch it again" : "; it must end after the last"));
  }
  return tokens;
}

}  // namespace

Corpus Corpus::from_token_file(const std::string& path, int64_t tokens, int64_t vocabulary) {
  const std::string where = "data file " + path;
  const std::string file = read_file(path);
  const size_t count = checked_header(file, where);
  check_length(where, static_cast<int64_t>(count), tokens);
  Corpus corpus;
  corpus.name_ = std::filesystem::path(path).filename().string();
  corpus.tokens_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t token = word_at(file, 4 * kHeaderWords + 2 * i, 2);
    if (token >= vocabulary) {
      fail(Exit::usage, where + ": token " + std::to_string(i) + " is " + std::to_string(token) +
                            ", outside the model's vocabulary of " + std::to_string(vocabulary) +
                            "; use a model with a larger one");
    }
    corpus.tokens_.push_back(static_cast<int32_t>(token));
  }
  return corpus;
}

// Each token is mostly followed by one of four favourites of its own; the first of them is the likeliest.
Corpus Corpus::synthetic(uint64_t seed, int64_t length, int64_t vocabulary) {
  if (length < 2 || vocabulary < 2 || vocabulary > INT32_MAX) {
    fail(Exit::usage, "synthetic corpus: length " + std::to_string(length) + ", vocabulary " +
                          std::to_string(vocabulary) +
                          "; both must be at least 2, the vocabulary below 2^31");
  }
  constexpr std::array<uint64_t, 16> kFavourite{0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 3};
  const uint64_t favourites = key_of(seed, "corpus favourites");
  const uint64_t choices = key_of(seed, "corpus choices");
  const auto below = [&](uint64_t bits) {
    return static_cast<int32_t>(bits % static_cast<uint64_t>(vocabulary));
  };

  Corpus corpus;
  corpus.name_ = "synthetic";
  corpus.tokens_.reserve(static_cast<size_t>(length));
  int32_t token = below(random_bits(choices, 0));
  for (int64_t i = 0; i < length; ++i) {
    corpus.tokens_.push_back(token);
    const uint64_t choice = random_bits(choices, static_cast<uint64_t>(i) + 1);
    const bool surprise = (choice & 15U) == 0;
    const uint64_t favourite = static_cast<uint64_t>(token) * 4 + kFavourite[(choice >> 4) & 15U];
    token = below(surprise ? choice >> 8 : random_bits(favourites, favourite));
  }
  return corpus;
}

uint64_t Corpus::hash() const {
  uint64_t h = mix64(tokens_.size());
  for (const int32_t token : tokens_) h = mix64(h + static_cast<uint64_t>(token) + 0x9e3779b97f4a7c15ULL);
  return h;
}

MicroBatch Corpus::micro_batch(uint64_t seed, int step, int number, int64_t batch, int64_t sequence) const {
  require(batch > 0, "a micro-batch has at least one sequence");
  check_length("data " + name_, length(), sequence);
  const auto counter = (uint64_t{static_cast<uint32_t>(step)} << 32) | static_cast<uint32_t>(number);
  const uint64_t key = random_bits(key_of(seed, "micro-batch"), counter);
  const auto starts = static_cast<uint64_t>(length() - sequence);

  MicroBatch tokens;
  for (int64_t i = 0; i < batch; ++i) {
    const auto begin =
        tokens_.begin() + static_cast<int64_t>(random_bits(key, static_cast<uint64_t>(i)) % starts);
    tokens.inputs.insert(tokens.inputs.end(), begin, begin + sequence);
    tokens.targets.insert(tokens.targets.end(), begin + 1, begin + 1 + sequence);
  }
  return tokens;
}

}  // namespace zp
