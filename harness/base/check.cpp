// Failure in one place.
#include "harness/base/check.hpp"

namespace zp {

void fail(Exit code, const std::string& message) { throw Error(code, message); }

void fail_rule(std::string_view rule, Where where) {
  throw Error(Exit::internal,
              std::string(where.file) + ":" + std::to_string(where.line) + ": " + std::string(rule));
}

}  // namespace zp
