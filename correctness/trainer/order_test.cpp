// Order by construction: with a device whose streams run as late as they may, every stage is proved; with any
// kind of wait left out, it is not.
#include "correctness/mutants/trial.hpp"
#include "correctness/trainer/late_backend.hpp"

#include <gtest/gtest.h>

namespace zp {
namespace {

using mutants::Outcome;
using mutants::Trial;

struct Schedules {
  std::string name;
  int world = 2;
  Algorithm algorithm = Algorithm::direct;
  Schedule schedule = {};
  GradientWire wire = GradientWire::as_stored;
  Route route = Route::staged;
};

const std::vector<Schedules>& schedules() {
  static const std::vector<Schedules> list{
      {.name = "alone", .world = 1},
      {.name = "halving", .world = 4, .algorithm = Algorithm::halving},
      {.name = "direct", .world = 3},
      {.name = "ring", .world = 3, .algorithm = Algorithm::ring},
      {.name = "buckets",
       .world = 2,
       .algorithm = Algorithm::halving,
       .schedule = {.bucket = {100'000}, .prefetch = 2, .overlap = Overlap::on}},
      {.name = "fixed",
       .world = 2,
       .schedule = {.bucket = {}, .prefetch = 1, .overlap = Overlap::on},
       .wire = GradientWire::i64},
      {.name = "aware", .world = 4, .algorithm = Algorithm::halving, .route = Route::gpu_aware},
      {.name = "aware_direct",
       .world = 3,
       .schedule = {.bucket = {100'000}, .prefetch = 1, .overlap = Overlap::on},
       .route = Route::gpu_aware},
  };
  return list;
}

const Schedules& schedule_named(const std::string& name) {
  return *std::ranges::find(schedules(), name, &Schedules::name);
}

Outcome outcome_of(const std::string& stage, const Schedules& of, const LateOptions& options) {
  const LateBackend backend(options);
  Trial trial;
  trial.name = "late";
  trial.stage = stage;
  trial.world = of.world;
  trial.algorithm = of.algorithm;
  trial.schedule = of.schedule;
  trial.wire = of.wire;
  trial.backend = &backend;
  trial.route = of.route;
  return mutants::run(trial);
}

bool proved(const Outcome& outcome) { return outcome.result.has_value() && outcome.result->proved(); }

std::string said(const Outcome& outcome) {
  if (outcome.error) return outcome.error->what();
  std::string text;
  for (const Claim claim : kClaims) text += outcome.evidence(claim);
  return text;
}

class Late : public testing::TestWithParam<Schedules> {};

TEST_P(Late, StreamsLeaveEveryStageProved) {
  for (const StageRow& row : stages()) {
    for (const uint64_t seed : {0, 1, 2}) {
      const Outcome outcome = outcome_of(std::string(row.name()), GetParam(), {.seed = seed});
      EXPECT_TRUE(proved(outcome)) << row.name() << ", seed " << seed << "\n" << said(outcome);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Order, Late, testing::ValuesIn(schedules()),
                         [](const auto& info) { return info.param.name; });

class Missing : public testing::TestWithParam<std::tuple<LeftOut, const char*>> {};

TEST_P(Missing, WaitsAreSeen) {
  for (const StageRow& row : stages()) {
    const auto& [left_out, schedule] = GetParam();
    const Outcome outcome =
        outcome_of(std::string(row.name()), schedule_named(schedule), {.seed = 0, .left_out = left_out});
    EXPECT_FALSE(proved(outcome)) << row.name();
  }
}

std::string name_of(LeftOut left_out) {
  switch (left_out) {
    case LeftOut::nothing: return "nothing";
    case LeftOut::compute_after_transport: return "compute_after_transport";
    case LeftOut::transport_after_compute: return "transport_after_compute";
    case LeftOut::host_waits: return "host_waits";
    case LeftOut::stream_before_messages: return "stream_before_messages";
  }
  return "?";
}

// Where messages arrive in the device's memory, no stream is behind with what the last of them brought.
INSTANTIATE_TEST_SUITE_P(Order, Missing,
                         testing::Values(std::tuple{LeftOut::compute_after_transport, "halving"},
                                         std::tuple{LeftOut::transport_after_compute, "halving"},
                                         std::tuple{LeftOut::host_waits, "halving"},
                                         std::tuple{LeftOut::stream_before_messages, "halving"},
                                         std::tuple{LeftOut::transport_after_compute, "aware"},
                                         std::tuple{LeftOut::stream_before_messages, "aware"}),
                         [](const auto& info) {
                           return name_of(std::get<LeftOut>(info.param)) + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace zp
