// Numbers as users type them.
#include "harness/suite/number_text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "harness/base/check.hpp"

namespace zp {

namespace {

// The whole text must be the number.
template <class T>
bool read(const std::string& text, T& number) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  return result.ec == std::errc() && result.ptr == end;
}

}  // namespace

int64_t whole_number(const std::string& what, const std::string& text, int64_t least, int64_t most) {
  int64_t number = 0;
  if (!read(text, number) || number < least || number > most) {
    fail(Exit::usage, fmt::format("{} '{}': must be a whole number from {} to {}", what, text, least, most));
  }
  return number;
}

uint64_t seed_number(const std::string& what, const std::string& text) {
  uint64_t number = 0;
  if (!read(text, number)) {
    fail(Exit::usage, fmt::format("{} '{}': must be a whole number from 0 to 2^64 - 1", what, text));
  }
  return number;
}

double real_number(const std::string& what, const std::string& text, double least, double most, Least bound) {
  double number = 0;
  const bool fits = read(text, number) && std::isfinite(number) && number <= most &&
                    (bound == Least::included ? number >= least : number > least);
  if (!fits) {
    fail(Exit::usage, fmt::format("{} '{}': must be a number {} {} and at most {}", what, text,
                                  bound == Least::included ? "of at least" : "above", least, most));
  }
  return number;
}

}  // namespace zp
