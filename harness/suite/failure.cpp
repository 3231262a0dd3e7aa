// What ranks agree on after one of them failed.
#include "harness/suite/failure.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "harness/base/archive.hpp"

namespace zp {
namespace {

constexpr double kLastWordsTimeout =
    5.0;  // seconds; a rank that is stuck in a kernel is not waited for longer

std::string describe(const LogEntry& entry) {
  return fmt::format("{} ({}) of {} {} of tensor {}", name_of(entry.operation), name_of(entry.purpose),
                     entry.count.n, name_of(entry.type), entry.tensor);
}

// The first collective, by number, that two ranks log differently.
std::optional<std::string> first_difference(const std::vector<LastWords>& accounts) {
  std::map<int64_t, std::pair<const LastWords*, const LogEntry*>> seen;
  const LogEntry* worst = nullptr;
  std::string text;
  for (const LastWords& words : accounts) {
    for (const LogEntry& entry : words.log) {
      const auto [at, fresh] = seen.try_emplace(entry.sequence, &words, &entry);
      if (fresh || *at->second.second == entry) continue;
      if (worst != nullptr && worst->sequence <= entry.sequence) continue;
      worst = &entry;
      const LastWords& other = *at->second.first;
      text = fmt::format(
          "collective logs differ at number {}: rank {} (place {}) has {}, rank {} (place {}) has {}",
          entry.sequence, other.rank, other.place, describe(*at->second.second), words.rank, words.place,
          describe(entry));
    }
  }
  if (worst == nullptr) return std::nullopt;
  return text;
}

}  // namespace

Error settle(const std::vector<LastWords>& accounts, const std::string& context) {
  if (const auto difference = first_difference(accounts)) {
    return {Exit::transport, context + ": " + *difference};
  }
  const LastWords* chosen = &accounts.front();
  for (const LastWords& words : accounts) {
    if (chosen->code == Exit::timeout && words.code != Exit::timeout) chosen = &words;
  }
  return {chosen->code, context + ": " + chosen->text};
}

void fail_together(const LastWords& mine, Control& control, const std::string& context) {
  control.announce_failure(mine.code, mine.text);
  std::vector<LastWords> accounts;
  for (const auto& text : control.last_words(to_bytes(mine), kLastWordsTimeout)) {
    if (text) accounts.push_back(from_bytes<LastWords>(*text));
  }
  if (accounts.empty()) accounts.push_back(mine);
  throw settle(accounts, context);
}

}  // namespace zp
