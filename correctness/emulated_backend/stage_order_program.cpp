// stage_order_program ROUTE STAGE: a stage on two ranks with an emulated GPU each, two micro-steps a step,
// with units gathered ahead and transfers beside kernels, judged as the command judges it. Exit code 0:
// proved; 1: not. For the thread sanitizer, which sees the trainer's, the strategy's and the transport's work
// on the streams of both ranks. ROUTE, of messages: staged, gpu-aware (threads reach the memory of devices
// that are emulated) or nccl.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "correctness/mutants/trial.hpp"
#include "harness/trainer/backend.hpp"

extern "C" const zp::Backend* zeroproof_backend();

namespace zp {
namespace {

mutants::Outcome outcome_on(Route route, const std::string& stage) {
  VerifyOptions options;
  options.model = {.name = "least", .layers = 1, .width = 8, .heads = 2, .positions = 8, .vocabulary = 16};
  options.stages = {stage};
  options.steps = 2;
  options.micro_batches = 4;
  options.schedule = {.bucket = {256}, .prefetch = 1, .overlap = Overlap::on};
  options.threads = 1;
  Job job = resolve(options, 2, "threads");
  job.carried = route == Route::carried;
  mutants::Trial trial;
  trial.backend = zeroproof_backend();
  trial.route = route;
  return mutants::run(job, trial);
}

}  // namespace
}  // namespace zp

int main(int count, char** words) {
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", 0);  // as the backend does before ranks begin
  constexpr std::array kRoutes{zp::Route::staged, zp::Route::gpu_aware, zp::Route::carried};
  const std::string name = count == 3 ? words[1] : "";
  const auto* const route =
      std::ranges::find_if(kRoutes, [&](zp::Route r) { return zp::name_of(r) == name; });
  if (route == kRoutes.end()) return 2;
  const zp::mutants::Outcome outcome = zp::outcome_on(*route, words[2]);
  if (outcome.error) std::fprintf(stderr, "%s\n", outcome.error->what());
  for (const zp::Claim claim : zp::kClaims) std::fputs(outcome.evidence(claim).c_str(), stderr);
  return outcome.result && outcome.result->proved() ? 0 : 1;
}
