// The ledger writes down what passes through it: every byte held, sent and asked for, every kernel call, at
// every point.
#include "harness/ledger/ledger.hpp"

#include <gtest/gtest.h>

namespace zp {
namespace {

TEST(Ledger, CountsWhatIsHeldByCategoryAndGivesItBack) {
  Ledger ledger;
  const auto host = make_host_device(Fill::zero);
  const auto device = make_metered_device(*host, ledger);
  Buffer params = device->acquire(Category::params, Type::bf16, {7});
  ledger.mark(Point::after_init);
  ledger.begin_step(0);
  {
    const Buffer bucket = device->acquire(Category::bucket, Type::f32, {5});
    ledger.mark(Point::after_forward);
  }
  ledger.mark(Point::after_step);
  const StepEvidence evidence = ledger.end_step();
  const HeldMap alone{{Category::params, {14}}};
  const HeldMap both{{Category::params, {14}}, {Category::bucket, {20}}};
  EXPECT_EQ(evidence.held.at(Point::after_init), alone);
  EXPECT_EQ(evidence.held.at(Point::after_forward), both);
  EXPECT_EQ(evidence.held.at(Point::after_step), alone);
  EXPECT_EQ(evidence.held.at(Point::step_peak), both);
  EXPECT_FALSE(evidence.held.contains(Point::backward_peak));
}

TEST(Ledger, KeepsTheLargestMomentOfAllBackwardPassesOfAStep) {
  Ledger ledger;
  const auto host = make_host_device(Fill::zero);
  const auto device = make_metered_device(*host, ledger);
  ledger.begin_step(3);
  const Buffer early = device->acquire(Category::gathered, Type::f32, {100});  // larger, but not in backward
  Buffer big = device->acquire(Category::gathered, Type::f32, {1000});
  big.drop();
  ledger.enter_use(0, {.unit = 0, .pass = Pass::backward});
  { const Buffer first = device->acquire(Category::bucket, Type::f32, {30}); }
  ledger.leave_uses();
  ledger.enter_use(1, {.unit = 0, .pass = Pass::backward});
  { const Buffer second = device->acquire(Category::bucket, Type::f32, {20}); }
  ledger.leave_uses();
  const StepEvidence evidence = ledger.end_step();
  EXPECT_EQ(evidence.step, 3);
  EXPECT_EQ(evidence.held.at(Point::backward_peak).at(Category::bucket), Bytes{120});
  EXPECT_EQ(evidence.held.at(Point::backward_peak).at(Category::gathered), Bytes{400});
  EXPECT_EQ(evidence.held.at(Point::step_peak).at(Category::gathered), Bytes{4400});
}

TEST(Ledger, CountsWholeUnitsOfEveryBuffer) {
  Ledger ledger;
  const auto host = make_host_device(Fill::zero);
  const auto device = make_metered_device(*host, ledger);
  const Buffer uncounted = device->acquire(Category::params, Type::f32, {1});
  EXPECT_EQ(ledger.taken(), Bytes{0}) << "of no device";
  ledger.count_grains({512});
  const Buffer one = device->acquire(Category::params, Type::f32, {128});
  const Buffer none = device->acquire(Category::params, Type::f32, {0});
  ledger.begin_step(0);
  { const Buffer large = device->acquire(Category::bucket, Type::f32, {129}); }
  { const Buffer least = device->acquire(Category::gathered, Type::bf16, {1}); }
  EXPECT_EQ(ledger.taken(), Bytes{512});
  EXPECT_EQ(ledger.taken_most(), Bytes{512 + 1024});
  ledger.end_step();
  ledger.begin_step(1);
  EXPECT_EQ(ledger.taken_most(), Bytes{512});
}

TEST(Ledger, APeakOfAnEarlierStepIsNotThisSteps) {
  Ledger ledger;
  const auto host = make_host_device(Fill::zero);
  const auto device = make_metered_device(*host, ledger);
  ledger.begin_step(0);
  { const Buffer big = device->acquire(Category::grads, Type::f32, {1000}); }
  ledger.end_step();
  ledger.begin_step(1);
  const Buffer little = device->acquire(Category::grads, Type::f32, {1});
  EXPECT_EQ(ledger.end_step().held.at(Point::step_peak).at(Category::grads), Bytes{4});
}

// 10 floats of params stand; each stretch then has its own largest of a category, below the step's peak.
TEST(Ledger, KeepsTheMostOfEveryCategoryInEveryUseAndInTheRest) {
  Ledger ledger;
  const auto host = make_host_device(Fill::zero);
  const auto device = make_metered_device(*host, ledger);
  const auto take = [&](Category category, int64_t floats) {
    return device->acquire(category, Type::f32, {floats});
  };
  const Buffer params = take(Category::params, 10);
  ledger.begin_step(0);
  { const Buffer early = take(Category::bucket, 7); }
  ledger.enter_use(4, {.unit = 0, .pass = Pass::forward});
  Buffer kept = take(Category::gathered, 20);
  { const Buffer beside = take(Category::bucket, 5); }
  ledger.enter_use(4, {.unit = 1, .pass = Pass::forward});
  kept.drop();
  { const Buffer after_it = take(Category::gathered, 3); }
  ledger.enter_use(4, {.unit = 1, .pass = Pass::backward});
  Buffer running = take(Category::bucket, 6);
  { const Buffer large = take(Category::workspace, 1000); }
  ledger.leave_uses();
  running.drop();
  { const Buffer late = take(Category::gathered, 2); }
  const StepEvidence step = ledger.end_step();

  const auto held = [](int64_t gathered, int64_t bucket, int64_t workspace) {
    HeldMap map{{Category::params, {40}}};
    if (gathered > 0) map[Category::gathered] = {gathered * 4};
    if (bucket > 0) map[Category::bucket] = {bucket * 4};
    if (workspace > 0) map[Category::workspace] = {workspace * 4};
    return map;
  };
  EXPECT_EQ(step.held.at(Point::forward_most), held(20, 5, 0));
  EXPECT_EQ(step.held.at(Point::backward_most), held(0, 6, 1000));
  EXPECT_EQ(step.held.at(Point::rest_most), held(2, 7, 0));
  ASSERT_EQ(step.held_in_use.size(), 3U);
  EXPECT_EQ(step.held_in_use[0].most, held(20, 5, 0));
  EXPECT_EQ(step.held_in_use[0].after, held(20, 0, 0));
  EXPECT_EQ(step.held_in_use[1].most, held(20, 0, 0));
  EXPECT_EQ(step.held_in_use[1].after, held(0, 0, 0));
  EXPECT_EQ(step.held_in_use[2].most, held(0, 6, 1000));
  EXPECT_EQ(step.held_in_use[2].after, held(0, 6, 0));
  EXPECT_EQ(step.held_in_use[2].micro_step, 4);
  EXPECT_EQ(step.held_in_use[2].unit, 1);
  EXPECT_TRUE(step.held_in_use[2].backward);
  EXPECT_FALSE(step.held_in_use[1].backward);
}

TEST(Ledger, CountsWhatAStepAcquiresHoweverBriefly) {
  Ledger ledger;
  const auto host = make_host_device(Fill::zero);
  const auto device = make_metered_device(*host, ledger);
  const Buffer before = device->acquire(Category::params, Type::f32, {10});
  ledger.begin_step(0);
  for (int i = 1; i <= 3; ++i) device->acquire(Category::bucket, Type::bf16, {i});
  const StepEvidence first = ledger.end_step();
  EXPECT_EQ(first.acquired, (std::map<Category, Acquired>{{Category::bucket, {3, {12}}}}));
  ledger.begin_step(1);
  EXPECT_TRUE(ledger.end_step().acquired.empty());
}

TEST(Ledger, CountsKernelCallsAndTheirElements) {
  class Idle final : public kernels::Table {
   public:
    int calls = 0;
    void run(const kernels::Call&) override { ++calls; }
  };
  Idle idle;
  Ledger ledger;
  const auto table = make_metered_table(idle, ledger);
  const auto host = make_host_device(Fill::zero);
  const Buffer x = host->acquire(Category::scalars, Type::f32, {9});
  ledger.begin_step(0);
  table->run(kernels::Add{.a = x.all(), .b = x.all(), .y = x.all()});
  table->run(kernels::Fold{.inputs = {x.all()}, .out = x.all(), .divisor = 3.0F});
  table->run(kernels::Fold{.inputs = {x.all(), x.all(), x.all()}, .out = x.all(), .divisor = 1.0F});
  const StepEvidence evidence = ledger.end_step();
  EXPECT_EQ(idle.calls, 3);
  EXPECT_EQ(evidence.work.at("add"), (Work{.calls = 1, .elements = {9}}));
  EXPECT_EQ(evidence.work.at("divide"), (Work{.calls = 1, .elements = {9}}));
  EXPECT_EQ(evidence.work.at("fold"), (Work{.calls = 1, .elements = {18}}));
}

TEST(Ledger, HidesNotThatALinkYields) {
  class Idle final : public Link {
   public:
    explicit Idle(bool yields) : yields_(yields) {}
    int rank() const override { return 0; }
    int world() const override { return 2; }
    std::unique_ptr<Request> send(int, const Tag&, std::span<const std::byte>) override { return nullptr; }
    std::unique_ptr<Request> receive(int, const Tag&, std::span<std::byte>) override { return nullptr; }
    bool yields() const override { return yields_; }

   private:
    bool yields_;
  };
  for (const bool yields : {false, true}) {
    Idle idle(yields);
    Ledger ledger;
    EXPECT_EQ(make_metered_link(idle, ledger)->yields(), yields);
  }
}

TEST(Ledger, LogsCollectivesInOrderOverTheWholeRun) {
  Ledger ledger;
  const Label unit{.purpose = Purpose::reduce_grads, .tensor = 2, .name = "block.1"};
  ledger.begin_step(0);
  ledger.ask(Operation::reduce_scatter, unit, Type::bf16, {640});
  const StepEvidence first = ledger.end_step();
  ledger.begin_step(1);
  ledger.ask(Operation::reduce_scatter, unit, Type::bf16, {640});
  ledger.ask(Operation::all_gather, {.purpose = Purpose::loss, .tensor = -1, .name = "losses"}, Type::f32,
             {8});
  const StepEvidence second = ledger.end_step();
  EXPECT_EQ(first.asked.at(Purpose::reduce_grads).at(Operation::reduce_scatter),
            (Asked{.calls = 1, .whole = {1280}}));
  ASSERT_EQ(second.log.size(), 2U);
  EXPECT_EQ(second.log[0].sequence, 1);
  EXPECT_EQ(second.log[1].sequence, 2);
  EXPECT_EQ(second.log[1].type, Type::f32);
  EXPECT_EQ(ledger.recent_log().size(), 3U);
}

}  // namespace
}  // namespace zp
