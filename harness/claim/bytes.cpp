// The claim "bytes": each rank sent to each peer, across nodes, and asked for, exactly what the closed forms
// say, and all ranks made the same collectives in the same order.
#include <fmt/format.h>

#include <algorithm>

#include "harness/claim/findings.hpp"
#include "harness/theory/traffic.hpp"

namespace zp {
namespace {

template <class Map, class Key>
auto value_or_zero(const Map& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? typename Map::mapped_type{} : found->second;
}

void judge_sent(const RunFacts& facts, int rank, const StepEvidence& step, Findings& findings) {
  const theory::SentLines expected =
      theory::sent_per_step(facts.stage, *facts.layout, facts.training, facts.algorithm, rank);
  for (const Purpose purpose : kPurposes) {
    const auto theirs = value_or_zero(expected, purpose);
    const auto ours = value_or_zero(step.sent, purpose);
    std::map<int, Sent> peers = ours;
    for (const auto& [peer, sent] : theirs) peers.try_emplace(peer);
    for (const auto& [peer, got] : peers) {
      const theory::Sent want = value_or_zero(theirs, peer);
      if (got.messages == want.messages && got.bytes == want.bytes) continue;
      findings.add(
          step.step, rank,
          fmt::format(
              "{} sent to rank {}: got {} B in {} messages, expected {} B in {}, difference {} B in {}",
              name_of(purpose), peer, got.bytes.n, got.messages, want.bytes.n, want.messages,
              signed_text(got.bytes.n - want.bytes.n), signed_text(got.messages - want.messages)));
    }
  }
}

void judge_asked(const RunFacts& facts, int rank, const StepEvidence& step, Findings& findings) {
  const theory::AskedLines expected = theory::asked_per_step(facts.stage, *facts.layout, facts.training);
  for (const Purpose purpose : kPurposes) {
    const auto theirs = value_or_zero(expected, purpose);
    const auto ours = value_or_zero(step.asked, purpose);
    for (const Operation operation :
         {Operation::reduce_scatter, Operation::all_gather, Operation::all_reduce}) {
      const theory::Asked want = value_or_zero(theirs, operation);
      const Asked got = value_or_zero(ours, operation);
      if (got.calls == want.calls && got.whole == want.whole) continue;
      findings.add(
          step.step, rank,
          fmt::format("{} asked for by {}: got {} calls of {} B, expected {} of {} B, difference {} of {} B",
                      name_of(purpose), name_of(operation), got.calls, got.whole.n, want.calls, want.whole.n,
                      signed_text(got.calls - want.calls), signed_text(got.whole.n - want.whole.n)));
    }
  }
}

// Where nodes hold unequal numbers of ranks there is no closed form; peers are judged one by one all the
// same.
void judge_crossing(const RunFacts& facts, int rank, const StepEvidence& step, Findings& findings) {
  if (facts.layout->places().ranks_per_node() == 0) return;
  const Bytes want = theory::crossing_per_step(facts.stage, *facts.layout, facts.training, facts.algorithm);
  const Bytes got = crossing_bytes(step, facts.layout->places(), rank);
  if (got == want) return;
  findings.add(step.step, rank,
               fmt::format("sent to ranks on other nodes: got {} B, expected {} B, difference {} B", got.n,
                           want.n, signed_text(got.n - want.n)));
}

std::string text_of(const RunFacts& facts, const LogEntry& entry) {
  const bool is_unit = entry.tensor >= 0 && entry.tensor < facts.layout->unit_count();
  const std::string tensor =
      is_unit ? facts.layout->unit(entry.tensor).name : fmt::format("{}", entry.tensor);
  return fmt::format("#{} {} {} {} {}x{}", entry.sequence, name_of(entry.operation), name_of(entry.purpose),
                     tensor, entry.count.n, name_of(entry.type));
}

std::string text_at(const RunFacts& facts, const std::vector<LogEntry>& log, size_t at) {
  return at < log.size() ? text_of(facts, log[at]) : "nothing";
}

// The first place where a rank's log differs from `expected`.
void judge_log(const RunFacts& facts, int rank, const StepEvidence& step,
               const std::vector<LogEntry>& expected, std::string_view whose, Findings& findings) {
  for (size_t at = 0; at < std::max(step.log.size(), expected.size()); ++at) {
    if (at < step.log.size() && at < expected.size() && step.log[at] == expected[at]) continue;
    findings.add(step.step, rank,
                 fmt::format("collective {} of the step: got {}, expected {} {}", at,
                             text_at(facts, step.log, at), text_at(facts, expected, at), whose));
    return;
  }
}

std::vector<LogEntry> expected_log(const RunFacts& facts, int step) {
  const auto collectives = theory::collectives_of_step(facts.stage, *facts.layout, facts.training);
  std::vector<LogEntry> log;
  int64_t sequence = static_cast<int64_t>(collectives.size()) * step;
  for (const theory::Collective& c : collectives) {
    log.push_back({.sequence = sequence++,
                   .operation = c.operation,
                   .purpose = c.purpose,
                   .type = c.type,
                   .count = c.count,
                   .tensor = c.tensor});
  }
  return log;
}

}  // namespace

Bytes crossing_bytes(const StepEvidence& step, const Places& places, int rank) {
  Bytes crossing;
  for (const auto& [purpose, peers] : step.sent) {
    for (const auto& [peer, sent] : peers) {
      const bool known = peer >= 0 && peer < static_cast<int>(places.rank_at.size());
      if (known && !places.on_one_node(rank, peer)) crossing += sent.bytes;
    }
  }
  return crossing;
}

Verdict judge_bytes(const RunFacts& facts, const std::vector<StepEvidence>& ranks) {
  check_facts(facts, ranks);
  Findings findings(Claim::bytes, facts);
  const auto each_rank = [&](const auto& judge) {
    findings.begin_kind();
    for (size_t rank = 0; rank < ranks.size(); ++rank) judge(static_cast<int>(rank), ranks[rank]);
  };
  const bool measured = facts.algorithm != Algorithm::native;
  if (measured) {
    each_rank([&](int rank, const StepEvidence& step) { judge_sent(facts, rank, step, findings); });
    each_rank([&](int rank, const StepEvidence& step) { judge_crossing(facts, rank, step, findings); });
  }
  each_rank([&](int rank, const StepEvidence& step) { judge_asked(facts, rank, step, findings); });
  each_rank([&](int rank, const StepEvidence& step) {
    judge_log(facts, rank, step, ranks.front().log, "as rank 0", findings);
  });
  each_rank([&](int rank, const StepEvidence& step) {
    judge_log(facts, rank, step, expected_log(facts, step.step), "by the stage's closed form", findings);
  });
  Verdict verdict = std::move(findings).verdict();
  if (!measured && verdict.holds()) verdict.finding = Finding::not_measured;
  return verdict;
}

}  // namespace zp
