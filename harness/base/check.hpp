// Failure in one place: broken rules, failed calls and bad input all become an Error that carries its exit
// code. Checks stay on in every build. A false claim is not an error: it is a Verdict (harness/claim).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace zp {

// What a process returns, the same on every rank (README lists the meanings).
enum class Exit : int {
  pass = 0,
  internal = 1,
  cuda = 2,
  transport = 3,
  timeout = 4,
  unavailable = 5,
  usage = 6,
  bits = 7,
  bytes = 8,
  memory = 9,
  regression = 10,
  slow = 11,
  work = 12,
};

class Error : public std::runtime_error {
 public:
  Error(Exit code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Exit code() const { return code_; }

 private:
  Exit code_;
};

// Where a rule stands. Default arguments capture the caller (clang 14 has no std::source_location; members
// with these as initializers end nvcc 13).
struct Where {
  const char* file;
  int line;
  constexpr Where(const char* at_file = __builtin_FILE(), int at_line = __builtin_LINE())
      : file(at_file), line(at_line) {}
};

// Throws Error(code, message). `message` is one line: what, where, what would be right.
[[noreturn]] void fail(Exit code, const std::string& message);

// Throws Error(Exit::internal): "file:line: rule".
[[noreturn]] void fail_rule(std::string_view rule, Where where);

// A rule the caller must keep. Breaking it is a bug in the program, never a result.
inline void require(bool holds, std::string_view rule, Where where = {}) {
  if (!holds) fail_rule(rule, where);
}

}  // namespace zp
