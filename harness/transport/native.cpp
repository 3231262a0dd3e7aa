// Collectives of a library: gradients are converted before it sums them, and divided afterwards. A collective
// is under way from its call on; all ranks make the same calls in the same order.
#include <algorithm>
#include <exception>
#include <functional>
#include <initializer_list>
#include <utility>

#include "harness/transport/additions.hpp"
#include "harness/transport/caption.hpp"
#include "harness/transport/patience.hpp"

namespace zp::transport {
namespace {

class NativeTransport;

// One collective under way.
class NativeFlight final : public Pending {
 public:
  NativeFlight(NativeTransport* transport, Caption caption)
      : transport_(transport), caption_(std::move(caption)) {}

  void wait() override;

  // `finish` runs once the library is done.
  void start(std::unique_ptr<Request> request, std::function<void()> finish) {
    request_ = std::move(request);
    finish_ = std::move(finish);
  }
  bool complete() const { return complete_; }
  std::string text() const { return "native " + text_of(caption_); }

  bool advance() {
    if (!request_->done()) return false;
    request_.reset();
    if (finish_) finish_();
    complete_ = true;
    return true;
  }

  void register_writer(Storage* storage, const std::shared_ptr<NativeFlight>& self) {
    if (storage == nullptr) return;
    storage->writers.push_back(self);
    storages_.push_back(storage);
  }
  void unregister() {
    for (Storage* storage : storages_)
      std::erase_if(storage->writers, [this](const auto& writer) { return writer.get() == this; });
    storages_.clear();
  }
  void abandon(const Error& reason) {
    if (complete_) return;
    failure_ = std::make_unique<Error>(reason);
    request_.reset();
  }

 private:
  NativeTransport* transport_;
  Caption caption_;
  std::unique_ptr<Request> request_;
  std::function<void()> finish_;
  std::vector<Storage*> storages_;
  std::unique_ptr<Error> failure_;
  bool complete_ = false;
};

std::vector<Elements> lengths_of(const Cuts& cuts) {
  std::vector<Elements> lengths;
  for (int place = 0; place < cuts.world(); ++place) lengths.push_back(cuts.of(place).length());
  return lengths;
}

class NativeTransport final : public Transport {
 public:
  NativeTransport(Native& native, kernels::Table& kernels, const CollectiveOptions& options)
      : native_(native), kernels_(kernels), timeout_s_(options.timeout_s), clock_(options.clock) {
    if (options.places.rank_at != Places::in_rank_order(native.world()).rank_at)
      fail(Exit::unavailable, "algorithm native: a library's collectives know places in rank order only");
    if (options.stream != nullptr)
      fail(Exit::unavailable, "algorithm native: this library's collectives use memory of the host only");
  }
  ~NativeTransport() override {
    abandon_all(Error(Exit::internal, "a collective was under way when its transport ended"));
  }

  int rank() const override { return native_.rank(); }
  int place() const override { return native_.rank(); }
  int world() const override { return native_.world(); }

  Handle reduce_scatter(const ReduceScatter& call) override {
    const TransportClock::Inside inside(clock_);
    check(call.cuts);
    const auto flight = begin(Operation::reduce_scatter, call.label);
    settle({call.whole, call.mine, call.fixed.image});
    const auto data = std::make_shared<Alias>(summed(call.whole, call.fixed));
    const auto mine = std::make_shared<Alias>(call.mine);
    flight->start(native_.reduce_scatter(data->view(), lengths_of(call.cuts)),
                  [this, data, mine, divisor = call.divisor] {
                    const View sum = data->view().part({{0}, mine->view().length()});
                    deliver(sum, mine->view(), divisor);
                  });
    return launch(flight, {call.whole, call.mine, call.fixed.image});
  }

  Handle all_gather(const AllGather& call) override {
    const TransportClock::Inside inside(clock_);
    check(call.cuts);
    const auto flight = begin(Operation::all_gather, call.label);
    settle({call.whole});
    const View own = call.whole.part(call.cuts.of(place()));
    if (!own.empty() && own.raw() != call.mine.raw()) {
      if (call.mine.storage() != call.whole.storage()) call.mine.storage()->settle_writers();
      copy(call.mine, own, nullptr);
    }
    flight->start(native_.all_gather(call.whole, lengths_of(call.cuts)), {});
    return launch(flight, {call.whole});
  }

  Handle all_reduce(const AllReduce& call) override {
    const TransportClock::Inside inside(clock_);
    check(call.cuts);
    const auto flight = begin(Operation::all_reduce, call.label);
    const View source = call.sums.storage() == nullptr ? call.whole : call.sums;
    settle({call.whole, source, call.fixed.image});
    const auto data = std::make_shared<Alias>(summed(source, call.fixed));
    const auto whole = std::make_shared<Alias>(call.whole);
    flight->start(native_.all_reduce(data->view()), [this, data, whole, divisor = call.divisor] {
      deliver(data->view(), whole->view(), divisor);
    });
    return launch(flight, {call.whole, source, call.fixed.image});
  }

  void poll() override {
    if (flights_.empty() || failure_) return;
    const TransportClock::Inside inside(clock_);
    progress();
  }

  void wait_for(const NativeFlight& flight) {
    const TransportClock::Inside inside(clock_);
    if (std::uncaught_exceptions() > 0)
      abandon_all(
          Error(Exit::internal, "an error passed while a collective was under way: " + flight.text()));
    Patience patience(timeout_s_, kLongestSleepInCollectives);
    while (!flight.complete() && !failure_) {
      if (progress()) {
        patience.restart();
      } else if (patience.expired()) {
        abandon_all(Error(Exit::timeout, "rank " + std::to_string(rank()) + " waited " +
                                             seconds_text(timeout_s_) + " in " + flight.text()));
      } else {
        patience.pause();
      }
    }
    if (!flight.complete()) throw Error(*failure_);
  }

 private:
  void check(const Cuts& cuts) const {
    require(cuts.world() == world(), "a collective's cuts name a slice for every place");
    if (!cuts.within.empty())
      fail(Exit::unavailable, "algorithm native: moves whole slices, not buckets of them");
  }

  View summed(const View& whole, const FixedPoint& fixed) {
    return summed_by_library(kernels_, whole, fixed);
  }
  void deliver(const View& sum, const View& into, float divisor) {
    transport::deliver(kernels_, sum, into, divisor, nullptr);
  }

  static void settle(std::initializer_list<View> views) {
    for (const View& view : views) {
      if (view.storage() != nullptr) view.storage()->settle();
    }
  }

  std::shared_ptr<NativeFlight> begin(Operation operation, const Label& label) {
    if (failure_) throw Error(*failure_);
    return std::make_shared<NativeFlight>(this, Caption{operation, next_++, label});
  }

  Handle launch(const std::shared_ptr<NativeFlight>& flight, std::initializer_list<View> writes) {
    for (const View& view : writes) flight->register_writer(view.storage(), flight);
    flights_.push_back(flight);
    tell_clock();
    progress();
    return Handle(flight);
  }

  bool progress() {
    // A division runs a kernel, and kernels poll.
    if (std::exchange(progressing_, true)) return false;
    bool moved = false;
    try {
      for (const auto& flight : flights_) moved |= flight->advance();
    } catch (const Error& error) {
      abandon_all(error);
      throw;
    }
    std::erase_if(flights_, [](const auto& flight) {
      if (flight->complete()) flight->unregister();
      return flight->complete();
    });
    tell_clock();
    progressing_ = false;
    return moved;
  }

  void abandon_all(const Error& reason) {
    if (!failure_) failure_ = std::make_unique<Error>(reason);
    for (const auto& flight : flights_) flight->abandon(*failure_);
    flights_.clear();
  }

  void tell_clock() const {
    if (clock_ != nullptr) clock_->under_way(flights_.size());
  }

  Native& native_;
  kernels::Table& kernels_;
  double timeout_s_;
  TransportClock* clock_;
  int64_t next_ = 0;  // number of the next collective
  std::vector<std::shared_ptr<NativeFlight>> flights_;
  std::unique_ptr<Error> failure_;
  bool progressing_ = false;
};

void NativeFlight::wait() {
  if (failure_) throw Error(*failure_);
  if (!complete_) transport_->wait_for(*this);
}

}  // namespace
}  // namespace zp::transport

namespace zp {

std::unique_ptr<Transport> make_native(Native& native, kernels::Table& kernels,
                                       const CollectiveOptions& options) {
  return std::make_unique<transport::NativeTransport>(native, kernels, options);
}

}  // namespace zp
