// The claims "memory" and "work": each rank held, by category, point and use, acquired, and computed, by
// kernel, exactly what the closed forms say.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "harness/claim/findings.hpp"
#include "harness/layout/uses.hpp"
#include "harness/theory/memory.hpp"
#include "harness/theory/work.hpp"

namespace zp {
namespace {

Bytes held(const std::map<Category, Bytes>& lines, Category category) {
  const auto found = lines.find(category);
  return found == lines.end() ? Bytes{} : found->second;
}

void judge_held(std::string_view when, const HeldMap& got, const theory::HeldLines& expected, int step,
                int rank, Findings& findings) {
  for (const Category category : kCategories) {
    const int64_t have = held(got, category).n;
    const int64_t want = held(expected, category).n;
    if (have == want) continue;
    findings.add(step, rank,
                 fmt::format("{}, {}: got {} B, expected {} B, difference {} B", when, name_of(category),
                             have, want, signed_text(have - want)));
  }
}

// Every use of every micro-step, once: what was held while it lasted, and what it left.
void judge_uses(const RunFacts& facts, const std::vector<theory::HeldInUse>& expected,
                const StepEvidence& step, int rank, Findings& findings) {
  const Layout& layout = *facts.layout;
  const std::vector<Use> list = uses(layout);
  std::set<std::pair<int, size_t>> missing;
  for (int micro_step = 0; micro_step < facts.training.batching.micro_steps(); ++micro_step) {
    for (size_t use = 0; use < list.size(); ++use) missing.emplace(micro_step, use);
  }
  const auto text = [&](std::string_view when, int micro_step, const Use& use) {
    const bool known = use.unit >= 0 && use.unit < layout.unit_count();
    return fmt::format("{}{} of {}, micro-step {}", when, use.pass == Pass::backward ? "backward" : "forward",
                       known ? layout.unit(use.unit).name : fmt::format("unit {}", use.unit), micro_step);
  };
  for (const UseHeld& held : step.held_in_use) {
    const Use use{.unit = held.unit, .pass = held.backward ? Pass::backward : Pass::forward};
    const auto at = static_cast<size_t>(std::ranges::find(list, use) - list.begin());
    if (missing.erase({held.micro_step, at}) == 0) {
      findings.add(step.step, rank, text("", held.micro_step, use) + ": used once more than expected");
      continue;
    }
    judge_held(text("most in ", held.micro_step, use), held.most, expected[at].most, step.step, rank,
               findings);
    judge_held(text("after ", held.micro_step, use), held.after, expected[at].after, step.step, rank,
               findings);
  }
  for (const auto& [micro_step, use] : missing) {
    findings.add(step.step, rank, text("", micro_step, list[use]) + ": never used, expected once");
  }
}

void judge_acquired(const std::map<Category, Acquired>& got,
                    const std::map<Category, theory::Acquired>& expected, int step, int rank,
                    Findings& findings) {
  for (const Category category : kCategories) {
    const Acquired have = got.contains(category) ? got.at(category) : Acquired{};
    const theory::Acquired want = expected.contains(category) ? expected.at(category) : theory::Acquired{};
    if (have.calls == want.calls && have.bytes == want.bytes) continue;
    findings.add(
        step, rank,
        fmt::format("{}: acquired {} buffers of {} B in the step, expected {} of {} B, difference {} "
                    "of {} B",
                    name_of(category), have.calls, have.bytes.n, want.calls, want.bytes.n,
                    signed_text(have.calls - want.calls), signed_text(have.bytes.n - want.bytes.n)));
  }
}

// Messages went on the route that the run names: pinned memory shows which.
void judge_route(const RunFacts& facts, Bytes pinned, int step, int rank, Findings& findings) {
  const std::optional<Bytes> expected = theory::pinned_for_messages(facts.route, facts.layout->world());
  if (expected ? pinned == *expected : pinned.n > 0) return;
  findings.add(
      step, rank,
      fmt::format("pinned memory of the host for messages, which are {}: got {} B, expected {}",
                  name_of(facts.route), pinned.n, expected ? fmt::format("{} B", expected->n) : "some"));
}

// Whether the device's own numbers can be compared with the ledger's.
bool pool_is_measured(const StepEvidence& step) { return !step.device || step.device->grain.n > 0; }

// The device's own numbers are those of the ledger's buffers: nothing was taken beside the ledger, and what
// was given back is back.
void judge_pool(const DeviceEvidence& device, int step, int rank, Findings& findings) {
  if (device.grain.n == 0) return;
  const auto compare = [&](std::string_view when, Bytes used, Bytes taken) {
    if (used == taken) return;
    findings.add(step, rank,
                 fmt::format("{}: the device's pool: got {} B in use, expected {} B, the ledger's buffers in "
                             "grains of {} B, difference {} B",
                             when, used.n, taken.n, device.grain.n, signed_text(used.n - taken.n)));
  };
  compare("most in the step", device.used_most, device.taken_most);
  compare("after the step", device.used, device.taken);
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
        judge_held(name_of(point), found->second, expected.at(point), step.step, static_cast<int>(rank),
                   findings);
      }
    }
  }
  const auto in_uses =
      theory::held_in_uses(facts.stage, *facts.layout, facts.training, facts.algorithm, facts.constant);
  const auto acquired = theory::acquired_per_step(facts.stage, *facts.layout, facts.training);
  findings.begin_kind();
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    judge_acquired(ranks[rank].acquired, acquired, ranks[rank].step, static_cast<int>(rank), findings);
  }
  findings.begin_kind();
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    judge_uses(facts, in_uses, ranks[rank], static_cast<int>(rank), findings);
  }
  findings.begin_kind();
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const StepEvidence& step = ranks[rank];
    if (!step.device) continue;
    judge_pool(*step.device, step.step, static_cast<int>(rank), findings);
    judge_route(facts, step.device->pinned, step.step, static_cast<int>(rank), findings);
  }
  Verdict verdict = std::move(findings).verdict();
  if (verdict.holds() && !std::ranges::all_of(ranks, pool_is_measured))
    verdict.finding = Finding::not_measured;
  return verdict;
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
