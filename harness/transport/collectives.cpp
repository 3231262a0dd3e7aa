// Collectives over a link: each is a short list of steps, and all that are in flight advance while any is
// waited for. After the first failure nothing touches a buffer again, and every wait throws that failure.
#include <algorithm>
#include <array>
#include <exception>
#include <initializer_list>
#include <utility>

#include "harness/transport/arguments.hpp"
#include "harness/transport/caption.hpp"
#include "harness/transport/patience.hpp"
#include "harness/transport/steps.hpp"

namespace zp::transport {
namespace {

class Collectives;

std::string text_of(const std::vector<int>& ranks) {
  if (ranks.empty()) return "no rank";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

// One collective in flight. Buffers and handles may outlive the transport; then it is complete or has failed.
class Flight final : public Pending {
 public:
  Flight(Collectives* transport, Caption caption) : transport_(transport), caption_(std::move(caption)) {
    storages_.reserve(3);  // a collective writes no more
  }

  void wait() override;

  void add(std::unique_ptr<Step> step) { steps_[count_++] = std::move(step); }
  bool uses_pieces() const { return !complete() && step().uses_pieces(); }
  std::vector<int> waits_for() const { return complete() ? std::vector<int>{} : step().waits_for(); }
  bool complete() const { return at_ == count_; }
  const Caption& caption() const { return caption_; }
  bool is_bucket() const { return caption_.bucket; }

  bool advance() {
    bool moved = false;
    while (!complete()) {
      moved |= step().advance();
      if (!step().complete()) break;
      steps_[at_++].reset();
      moved = true;
    }
    return moved;
  }

  // The buffers are alive until unregister(): they wait for whatever is registered before they end.
  static void register_writer(Storage* storage, const std::shared_ptr<Flight>& self) {
    if (storage == nullptr) return;
    storage->writers.push_back(self);
    self->storages_.push_back(storage);
  }
  // Its work on a stream stays registered.
  void unregister(const std::shared_ptr<Pending>& work) {
    for (Storage* storage : storages_)
      std::erase_if(storage->writers, [this](const auto& writer) { return writer.get() == this; });
    leave_behind(work);
  }

  // Withdraws its messages. It stays registered, for whoever is to be told, and so does its work on a stream.
  void abandon(const Error& reason, const std::shared_ptr<Pending>& work) {
    if (complete()) return;
    failure_ = std::make_unique<Error>(reason);
    for (auto& step : steps_) step.reset();
    at_ = count_ = 0;
    leave_behind(work);
  }

 private:
  void leave_behind(const std::shared_ptr<Pending>& work) {
    for (Storage* storage : storages_) {
      if (work != nullptr) storage->also_written_by(work);
    }
    storages_.clear();
  }

  Step& step() const { return *steps_[at_]; }

  Collectives* transport_;
  Caption caption_;
  std::array<std::unique_ptr<Step>, 2> steps_;
  size_t count_ = 0, at_ = 0;  // of steps; the one under way
  std::vector<Storage*> storages_;
  std::unique_ptr<Error> failure_;
};

class Collectives final : public Transport {
 public:
  Collectives(Link& link, Device& device, kernels::Table& kernels, const CollectiveOptions& options)
      : link_(link),
        stream_(options.stream),
        timeout_s_(options.timeout_s),
        clock_(options.clock),
        group_{.place = options.places.place_of(link.rank()),
               .places = options.places,
               .algorithm = options.algorithm,
               .kernels = kernels,
               .pieces = {}} {
    const int64_t bytes = peers_at_once(options.algorithm, link.world()) * kPiecesPerPeer * kPiece.n;
    if (bytes > 0) pieces_ = device.acquire(Category::transport, Type::f32, {bytes / size_of(Type::f32).n});
    if (pieces_.held()) pieces_.all().storage()->settle(stream_);
    group_.pieces = pieces_.all();
  }
  ~Collectives() override {
    abandon_all(Error(Exit::internal, "a collective was in flight when its transport ended"));
    const std::shared_ptr<Pending> work = mark_unless_failed();
    if (work != nullptr && pieces_.held()) pieces_.all().storage()->written_by(work);
  }

  int rank() const override { return link_.rank(); }
  int place() const override { return group_.place; }
  int world() const override { return link_.world(); }

  Handle reduce_scatter(const ReduceScatter& call) override {
    const TransportClock::Inside inside(clock_);
    check(call.cuts, call.whole, call.mine);
    check_summable(call.whole, call.mine, call.fixed, call.cuts);
    const auto flight = begin(Operation::reduce_scatter, call.label, call.cuts);
    flight->add(
        make_reduction(group_, wire(*flight), {call.whole, call.mine, call.cuts, call.divisor, call.fixed}));
    return launch(flight, {call.whole.storage(), call.mine.storage(), call.fixed.image.storage()}, call.cuts);
  }

  Handle all_gather(const AllGather& call) override {
    const TransportClock::Inside inside(clock_);
    check(call.cuts, call.whole, call.mine);
    require(call.mine.empty() || call.mine.type() == call.whole.type(), "a gather moves one type");
    const auto flight = begin(Operation::all_gather, call.label, call.cuts);
    settle(call.whole.storage());
    const View own = call.whole.part(call.cuts.of(place()));
    if (!own.empty() && own.raw() != call.mine.raw()) {
      const bool apart = call.mine.storage() != call.whole.storage();
      if (apart) call.mine.storage()->settle_writers(stream_);
      copy(call.mine, own, stream_);
      if (apart && stream_ != nullptr) call.mine.storage()->read_by(stream_->mark());
    }
    flight->add(make_gather(group_, wire(*flight), call.whole, call.cuts));
    return launch(flight, {call.whole.storage()}, call.cuts);
  }

  Handle all_reduce(const AllReduce& call) override {
    const TransportClock::Inside inside(clock_);
    require(call.cuts.world() == world(), "a collective's cuts name a slice for every place");
    const View mine = call.whole.part(call.cuts.of(place()));
    const View summed = call.sums.storage() == nullptr ? call.whole : call.sums;
    check(call.cuts, call.whole, mine);
    check(call.cuts, summed, mine);
    check_summable(summed, mine, call.fixed, call.cuts);
    const auto flight = begin(Operation::all_reduce, call.label, call.cuts);
    flight->add(make_reduction(group_, wire(*flight), {summed, mine, call.cuts, call.divisor, call.fixed}));
    flight->add(make_gather(group_, wire(*flight), call.whole, call.cuts));
    return launch(flight, {call.whole.storage(), summed.storage(), call.fixed.image.storage()}, call.cuts);
  }

  void poll() override {
    if (flights_.empty() || failure_) return;
    const TransportClock::Inside inside(clock_);
    progress();
  }

  void wait_for(Flight& flight) {
    const TransportClock::Inside inside(clock_);
    if (std::uncaught_exceptions() > 0) {
      abandon_all(Error(Exit::internal,
                        "a collective was in flight when an error passed: " + text_of(flight.caption())));
    }
    Patience patience(timeout_s_, kLongestSleepInCollectives, link_.yields());
    while (!flight.complete() && !failure_) {
      if (progress()) {
        patience.restart();
      } else if (patience.expired()) {
        give_up(flight);
      } else {
        patience.pause();
      }
    }
    if (!flight.complete()) throw Error(*failure_);
  }

 private:
  Wire wire(const Flight& flight) {
    const Caption& caption = flight.caption();
    return {
        .link = &link_,
        .tag = {
            .sequence = caption.sequence, .tensor = caption.label.tensor, .purpose = caption.label.purpose}};
  }

  void check(const Cuts& cuts, const View& whole, const View& mine) const {
    check_lengths(cuts, whole, mine, world(), place());
  }

  std::shared_ptr<Flight> begin(Operation operation, const Label& label, const Cuts& cuts) {
    if (failure_) throw Error(*failure_);
    return std::make_shared<Flight>(this, Caption{operation, next_sequence_++, label, !cuts.within.empty()});
  }

  bool written_by_own_buckets(const Storage* storage) const {
    if (storage == nullptr || !storage->readers.empty()) return false;
    return std::all_of(storage->writers.begin(), storage->writers.end(), [this](const auto& writer) {
      if (stream_ != nullptr && writer->stream() == stream_) return true;
      const auto own = [&](const auto& flight) {
        return flight.get() == writer.get() && flight->is_bucket();
      };
      return std::any_of(flights_.begin(), flights_.end(), own);
    });
  }

  // Whoever used the buffer before comes first: on the host, or in the order of the stream.
  void settle(Storage* storage) {
    if (storage == nullptr) return;
    storage->settle(stream_);
    if (stream_ != nullptr) storage->written_by(stream_->mark());
  }

  // Starts a collective that writes these buffers. Buckets of one buffer write apart and need not wait for
  // each other; everything else waits for whoever uses the buffer.
  Handle launch(const std::shared_ptr<Flight>& flight, std::initializer_list<Storage*> writes,
                const Cuts& cuts) {
    for (Storage* storage : writes) {
      if (cuts.within.empty() || !written_by_own_buckets(storage)) settle(storage);
    }
    flights_.push_back(flight);
    for (Storage* storage : writes) Flight::register_writer(storage, flight);
    tell_clock();
    progress();
    return Handle(flight);
  }

  std::shared_ptr<Pending> mark() const { return stream_ == nullptr ? nullptr : stream_->mark(); }

  // Advances every collective in flight, oldest first. Reductions use the pieces one at a time.
  bool progress() {
    // Additions run kernels, and kernels poll.
    if (std::exchange(progressing_, true)) return false;
    bool moved = false;
    try {
      bool pieces_free = true;
      for (const auto& flight : flights_) {
        if (flight->uses_pieces() && !std::exchange(pieces_free, false)) continue;
        moved |= flight->advance();
      }
    } catch (const Error& error) {
      abandon_all(error);
      throw;
    } catch (const std::exception& error) {
      abandon_all(Error(Exit::internal, error.what()));
      throw;
    }
    std::erase_if(flights_, [this](const auto& flight) {
      if (flight->complete()) flight->unregister(mark());
      return flight->complete();
    });
    tell_clock();
    progressing_ = false;
    return moved;
  }

  [[noreturn]] void give_up(const Flight& waited) {
    // A reduction that has not begun waits for the one that holds the pieces.
    const Flight* stuck = &waited;
    for (auto at = flights_.begin(); at != flights_.end() && stuck->waits_for().empty(); ++at)
      stuck = at->get();
    const std::string whom = is_held_up() ? "its own GPU" : text_of(stuck->waits_for());
    const Error error(Exit::timeout, "rank " + std::to_string(rank()) + " waited " +
                                         seconds_text(timeout_s_) + " for " + whom + " in " +
                                         text_of(stuck->caption()));
    abandon_all(error);
    throw Error(error);
  }

  // A device that failed holds up whatever waits for it.
  bool is_held_up() const {
    try {
      return link_.is_held_up();
    } catch (const Error&) {
      return true;
    }
  }

  void abandon_all(const Error& reason) {
    if (!failure_) failure_ = std::make_unique<Error>(reason);
    const std::shared_ptr<Pending> work = mark_unless_failed();
    for (const auto& flight : flights_) flight->abandon(*failure_, work);
    flights_.clear();
  }

  // A device that failed has said so to whoever waited for its results, and does nothing more.
  std::shared_ptr<Pending> mark_unless_failed() const {
    try {
      return mark();
    } catch (const Error&) {
      return nullptr;
    }
  }

  void tell_clock() const {
    if (clock_ != nullptr) clock_->under_way(flights_.size());
  }

  Link& link_;
  Stream* stream_;
  double timeout_s_;
  TransportClock* clock_;
  Buffer pieces_;
  Group group_;
  int64_t next_sequence_ = 0;
  std::vector<std::shared_ptr<Flight>> flights_;  // in order of start
  std::unique_ptr<Error> failure_;
  bool progressing_ = false;
};

void Flight::wait() {
  if (failure_) throw Error(*failure_);
  if (!complete()) transport_->wait_for(*this);
}

}  // namespace
}  // namespace zp::transport

namespace zp {

std::unique_ptr<Transport> make_collectives(Link& link, Device& device, kernels::Table& kernels,
                                            const CollectiveOptions& options) {
  require(options.algorithm != Algorithm::native, "native collectives use no link");
  transport::check_places(options, link.world());
  return std::make_unique<transport::Collectives>(link, device, kernels, options);
}

}  // namespace zp
