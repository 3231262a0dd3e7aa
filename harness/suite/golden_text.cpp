// The seal of a golden file: its last two fields, checksums of the text before them.
#include "harness/suite/golden_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "harness/base/check.hpp"
#include "harness/report/environment.hpp"
#include "kernels/hash.hpp"

namespace zp {
namespace {

constexpr size_t kHashDigits = 32;
constexpr std::string_view kBegins = "{\n \"schema\": \"";
constexpr std::string_view kEnds = "\n}\n";
constexpr std::string_view kBeforeHashes = ",\n \"hashes_checksum\": \"";
constexpr std::string_view kBeforeRest = "\",\n \"checksum\": \"";
constexpr size_t kSealLength =
    kBeforeHashes.size() + kHashDigits + kBeforeRest.size() + kHashDigits + 1 + kEnds.size();

// Checksums of a text that is not yet sealed. `rest` covers whatever is no hash, and `hashes` with it, so
// that a change of the seal itself is damage too.
struct Seal {
  std::string hashes, rest;

  std::string text() const {
    return fmt::format("{}{}{}{}\"{}", kBeforeHashes, hashes, kBeforeRest, rest, kEnds);
  }
};

std::string rest_checksum(const HashSum& rest, const std::string& hashes) {
  return digest_of(to_string(rest) + hashes);
}

bool hash_stands_at(std::string_view text, size_t quote) {
  const size_t end = quote + 1 + kHashDigits;
  return text[quote] == '"' && end < text.size() && text[end] == '"' &&
         is_hash(text.substr(quote + 1, kHashDigits));
}

struct Sums {
  HashSum hashes, rest;
};

// Every byte is in one of them, with where it stands.
Sums sums_of(std::string_view text) {
  Sums sums;
  size_t hash_ends = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    (i < hash_ends ? sums.hashes : sums.rest) += hash_element(i, static_cast<unsigned char>(text[i]));
    if (i >= hash_ends && hash_stands_at(text, i)) hash_ends = i + 1 + kHashDigits;
  }
  return sums;
}

// Of a text that ends in a seal, or as if it did.
Seal seal_at_end(std::string_view text) {
  const std::string_view end = text.substr(text.size() - std::min(text.size(), kSealLength));
  const auto digits = [&](size_t at) {
    return std::string(end.substr(std::min(at, end.size()), kHashDigits));
  };
  return {.hashes = digits(kBeforeHashes.size()),
          .rest = digits(kBeforeHashes.size() + kHashDigits + kBeforeRest.size())};
}

// The value of the first field, in which only these characters stand; "" where the text begins otherwise.
std::string_view schema_of(std::string_view text) {
  if (!text.starts_with(kBegins)) return "";
  text.remove_prefix(kBegins.size());
  const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789/");
  return end != std::string_view::npos && text[end] == '"' ? text.substr(0, end) : "";
}

// `head`, `tail`: both ends of a file, or the whole of it.
void check_ends(const std::string& path, std::string_view head, std::string_view tail) {
  const std::string_view schema = schema_of(head);
  if (schema.empty())
    refuse_golden(path, "is no golden file: it does not begin as verify --write-golden begins one");
  if (schema != kGoldenSchema) {
    refuse_golden(
        path, fmt::format("schema is \"{}\" in the file; this version reads \"{}\"", schema, kGoldenSchema));
  }
  const Seal seal = seal_at_end(tail);
  if (!tail.ends_with(seal.text()) || !is_hash(seal.hashes) || !is_hash(seal.rest))
    refuse_golden(path, "was cut off, or changed at its end: the two checksums do not stand there");
}

std::string read_at(std::ifstream& in, const std::string& path, size_t from, size_t length) {
  std::string text(length, '\0');
  errno = 0;
  in.seekg(static_cast<std::streamoff>(from));
  in.read(text.data(), static_cast<std::streamsize>(length));
  if (!in) refuse_golden(path, errno != 0 ? std::strerror(errno) : "cannot be read");
  return text;
}

}  // namespace

void refuse_golden(const std::string& path, const std::string& why) {
  fail(Exit::usage, "--golden " + path + ": " + why);
}

bool is_hash(std::string_view text) {
  return text.size() == kHashDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string digest_of(std::string_view text) {
  HashSum sum;
  for (size_t i = 0; i < text.size(); ++i) sum += hash_element(i, static_cast<unsigned char>(text[i]));
  return to_string(sum);
}

std::string read_golden_text(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) refuse_golden(path, "there is no such file");
  if (!fs::is_regular_file(status)) refuse_golden(path, "is no regular file");
  const auto size = static_cast<size_t>(fs::file_size(path, error));
  std::ifstream in(path, std::ios::binary);
  if (error || !in.is_open()) refuse_golden(path, error ? error.message() : std::strerror(errno));
  constexpr size_t kHead = 80;
  const size_t tail = std::min(size, kSealLength);
  check_ends(path, read_at(in, path, 0, std::min(size, kHead)), read_at(in, path, size - tail, tail));
  if (const Bytes free = available_memory(); free.n > 0 && static_cast<int64_t>(size) > free.n)
    refuse_golden(path, fmt::format("is {} bytes long, and {} are free on this host", size, free.n));
  return read_at(in, path, 0, size);
}

std::string sealed(const std::string& json) {
  constexpr std::string_view kCloses = "\n}";
  require(json.ends_with(kCloses), "a golden file is an object, one field a line");
  const std::string body = json.substr(0, json.size() - kCloses.size());
  const Sums sums = sums_of(body);
  const std::string hashes = to_string(sums.hashes);
  return body + Seal{.hashes = hashes, .rest = rest_checksum(sums.rest, hashes)}.text();
}

Hashes check_seal(const std::string& path, std::string_view text) {
  check_ends(path, text, text);
  const Seal seal = seal_at_end(text);
  const Sums sums = sums_of(text.substr(0, text.size() - kSealLength));
  if (seal.rest != rest_checksum(sums.rest, seal.hashes))
    refuse_golden(path, "is damaged: its checksum, over everything but the hashes, does not hold");
  return seal.hashes == to_string(sums.hashes) ? Hashes::as_written : Hashes::changed;
}

}  // namespace zp
