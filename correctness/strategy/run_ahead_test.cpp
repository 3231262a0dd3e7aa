// Where transfers are work of streams, the host starts kernels that use their results without waiting for
// them: it runs ahead, by so many transfers and no more. Without overlap it waits for each where it begins.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>

#include "correctness/mutants/trial.hpp"

namespace zp {
namespace {

struct Seen {
  std::mutex mutex;
  std::map<Purpose, std::set<int64_t>>
      later;  // transfers that had begun after one, when the host waited for it
};

// A stream's, as strategies see it; results are waited for by whoever reads the buffers.
class OfAStream final : public Pending {
 public:
  OfAStream(Handle inner, Purpose purpose, const int64_t& begun, Seen& seen)
      : inner_(std::move(inner)), purpose_(purpose), begun_(begun), number_(begun), seen_(seen) {}
  void wait() override {
    {
      const std::lock_guard lock(seen_.mutex);
      seen_.later[purpose_].insert(begun_ - number_);
    }
    inner_.wait();
  }
  const Stream* stream() const override { return reinterpret_cast<const Stream*>(this); }  // its address only

 private:
  Handle inner_;
  Purpose purpose_;
  const int64_t& begun_;
  int64_t number_;
  Seen& seen_;
};

class StreamTransport final : public Transport {
 public:
  StreamTransport(Transport& inner, Seen& seen) : inner_(inner), seen_(seen) {}
  int rank() const override { return inner_.rank(); }
  int place() const override { return inner_.place(); }
  int world() const override { return inner_.world(); }
  Handle reduce_scatter(const ReduceScatter& call) override {
    return of_a_stream(inner_.reduce_scatter(call), call.label.purpose);
  }
  Handle all_gather(const AllGather& call) override {
    return of_a_stream(inner_.all_gather(call), call.label.purpose);
  }
  Handle all_reduce(const AllReduce& call) override {
    return of_a_stream(inner_.all_reduce(call), call.label.purpose);
  }
  void poll() override { inner_.poll(); }

 private:
  Handle of_a_stream(Handle handle, Purpose purpose) {
    int64_t& begun = begun_[purpose];
    ++begun;
    return Handle(std::make_shared<OfAStream>(std::move(handle), purpose, begun, seen_));
  }

  Transport& inner_;
  Seen& seen_;
  std::map<Purpose, int64_t> begun_;
};

std::map<Purpose, std::set<int64_t>> seen_in(const std::string& stage, Overlap overlap, int prefetch = 0) {
  Seen seen;
  mutants::Trial trial;
  trial.stage = stage;
  trial.micro_batches = 4;
  trial.schedule = {.bucket = {}, .prefetch = prefetch, .overlap = overlap};
  trial.faults = [&](int) {
    Faults faults;
    faults.transport = [&](Transport& inner) { return std::make_unique<StreamTransport>(inner, seen); };
    return faults;
  };
  const mutants::Outcome outcome = mutants::run(trial);
  EXPECT_TRUE(outcome.result && outcome.result->proved()) << stage;
  seen.later.erase(Purpose::loss);  // results that the host needs
  seen.later.erase(Purpose::grad_norm);
  return seen.later;
}

using Later = std::map<Purpose, std::set<int64_t>>;

TEST(RunAhead, IsByTwoUsesOfGatheredUnitsAndAReduction) {
  EXPECT_EQ(seen_in("zero3", Overlap::on),
            (Later{{Purpose::gather_params, {2}}, {Purpose::reduce_grads, {1}}}));
  EXPECT_EQ(seen_in("zero3", Overlap::on, 1),
            (Later{{Purpose::gather_params, {2, 3}}, {Purpose::reduce_grads, {1}}}));
  EXPECT_EQ(seen_in("ddp", Overlap::on), (Later{{Purpose::reduce_grads, {1}}}));
}

TEST(RunAhead, IsByAGatherOfUpdatedParametersAndOverWithTheStep) {
  EXPECT_EQ(seen_in("zero1", Overlap::on),
            (Later{{Purpose::gather_params, {0, 1}}, {Purpose::reduce_grads, {1}}}));
  // The last reduction of a micro-step is waited for within the next one's forward, before another begins.
  EXPECT_EQ(seen_in("zero2", Overlap::on),
            (Later{{Purpose::gather_params, {0, 1}}, {Purpose::reduce_grads, {0, 1}}}));
}

TEST(RunAhead, IsByNothingWithoutOverlap) {
  EXPECT_EQ(seen_in("zero3", Overlap::off),
            (Later{{Purpose::gather_params, {0}}, {Purpose::reduce_grads, {0}}}));
  EXPECT_EQ(seen_in("zero2", Overlap::off),
            (Later{{Purpose::gather_params, {0}}, {Purpose::reduce_grads, {0}}}));
}

}  // namespace
}  // namespace zp
