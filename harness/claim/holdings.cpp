// The claims "memory" and "work": each rank held, by category and point, and computed, by kernel, exactly
// what the closed forms say.
#include <fmt/format.h>

#include <set>

#include "harness/claim/findings.hpp"
#include "harness/theory/memory.hpp"
#include "harness/theory/work.hpp"

namespace zp {
namespace {

Bytes held(const std::map<Category, Bytes>& lines, Category category) {
  const auto found = lines.find(category);
  return found == lines.end() ? Bytes{} : found->second;
}

void judge_point(Point point, const HeldMap& got, const theory::HeldLines& expected, int step, int rank,
                 Findings& findings) {
  for (const Category category : kCategories) {
    const int64_t have = held(got, category).n;
    const int64_t want = held(expected, category).n;
    if (have == want) continue;
    findings.add(step, rank,
                 fmt::format("{}, {}: got {} B, expected {} B, difference {} B", name_of(point),
                             name_of(category), have, want, signed_text(have - want)));
  }
}

void judge_kernels(const std::map<std::string, Work>& got, const theory::WorkLines& expected, int step,
                   int rank, Findings& findings) {
  std::set<std::string> kernels;
  for (const auto& [kernel, work] : got) kernels.insert(kernel);
  for (const auto& [kernel, work] : expected) kernels.insert(kernel);
  for (const std::string& kernel : kernels) {
    const Work have = got.contains(kernel) ? got.at(kernel) : Work{};
    const theory::Work want = expected.contains(kernel) ? expected.at(kernel) : theory::Work{};
    if (have.calls == want.calls && have.elements == want.elements) continue;
    findings.add(
        step, rank,
        fmt::format("{}: got {} calls of {} elements, expected {} of {}, difference {} of {}", kernel,
                    have.calls, have.elements.n, want.calls, want.elements.n,
                    signed_text(have.calls - want.calls), signed_text(have.elements.n - want.elements.n)));
  }
}

}  // namespace

Verdict judge_memory(const RunFacts& facts, const std::vector<StepEvidence>& ranks) {
  check_facts(facts, ranks);
  Findings findings(Claim::memory, facts);
  const theory::HeldPoints expected =
      theory::held_per_step(facts.stage, *facts.layout, facts.training, facts.algorithm, facts.constant);
  for (const Point point : kPoints) {
    findings.begin_kind();
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const StepEvidence& step = ranks[rank];
      const auto found = step.held.find(point);
      if (found == step.held.end()) {
        findings.add(step.step, static_cast<int>(rank), fmt::format("{}: not recorded", name_of(point)));
      } else {
        judge_point(point, found->second, expected.at(point), step.step, static_cast<int>(rank), findings);
      }
    }
  }
  return std::move(findings).verdict();
}

Verdict judge_work(const RunFacts& facts, const std::vector<StepEvidence>& ranks) {
  check_facts(facts, ranks);
  Findings findings(Claim::work, facts);
  theory::WorkLines micro_batch;
  for (const auto& [kernel, work] : facts.work_per_micro_batch)
    micro_batch[kernel] = {work.calls, work.elements};
  for (size_t at = 0; at < ranks.size(); ++at) {
    const int rank = static_cast<int>(at);
    const theory::WorkLines expected =
        theory::work_per_step(facts.stage, *facts.layout, facts.training, facts.algorithm, rank, micro_batch);
    findings.begin_kind();
    judge_kernels(ranks[at].work, expected, ranks[at].step, rank, findings);
  }
  return std::move(findings).verdict();
}

}  // namespace zp
