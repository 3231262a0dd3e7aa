// What ranks agree on after one of them failed: the same error everywhere.
#pragma once

#include <string>
#include <vector>

#include "harness/base/check.hpp"
#include "harness/ledger/evidence.hpp"
#include "harness/transport/transport.hpp"

namespace zp {

// A rank's account of its failure.
struct LastWords {
  int rank = 0, place = 0;
  Exit code = Exit::internal;
  std::string text;
  std::vector<LogEntry> log;
};

template <class A>
void archive(A& a, LastWords& w) {
  a(w.rank, w.place, w.code, w.text, w.log);
}

// The one error that all accounts amount to: differing logs (transport), else the first account that is not a
// mere timeout, else the first. `context` ("stage zero2") opens the message.
Error settle(const std::vector<LastWords>& accounts, const std::string& context);

// Announces `mine`, hears the other ranks, and throws what they amount to.
[[noreturn]] void fail_together(const LastWords& mine, Control& control, const std::string& context);

}  // namespace zp
