// Collectives as work of a stream: messages, additions and copies are put there when a collective is called,
// round by round, in the same order on every rank. The host comes in only where it waits for the device: then
// it sees what has ended, and gives up what does not.
#include <algorithm>
#include <exception>
#include <initializer_list>
#include <utility>

#include "harness/transport/additions.hpp"
#include "harness/transport/arguments.hpp"
#include "harness/transport/carrier.hpp"
#include "harness/transport/stream_watch.hpp"

namespace zp::transport {
namespace {

using Messages = std::vector<Carrier::Message>;

// Messages of a gather to one rank, or from it, that are put at once: as much as keeps a link busy.
constexpr size_t kGatheredAtOnce = 32;

Bytes bytes_in(const std::vector<Range>& ranges, Type type) {
  Bytes bytes;
  for (const Range& range : ranges) bytes += range.length() * size_of(type);
  return bytes;
}

std::span<std::byte> bytes_of(const View& view) {
  return {static_cast<std::byte*>(view.raw()), static_cast<size_t>(view.bytes().n)};
}

// Elements [from, from + count) of a list, as far as it goes.
std::span<const Range> some_of(const std::vector<Range>& list, size_t from, size_t count) {
  const size_t begin = std::min(from, list.size());
  return std::span(list).subspan(begin, std::min(count, list.size() - begin));
}

class Carried final : public Transport {
 public:
  Carried(Carrier& carrier, Device& device, kernels::Table& kernels, Control& control,
          const CollectiveOptions& options)
      : carrier_(carrier),
        kernels_(kernels),
        stream_(*options.stream),
        options_(options),
        place_(options.places.place_of(carrier.rank())),
        watch_(carrier, control, options.timeout_s, options.algorithm == Algorithm::native) {
    const int peers = is_native() ? 0 : peers_at_once(options.algorithm, carrier.world());
    const int64_t bytes = peers * kPiecesPerPeer * kPiece.n;
    if (bytes > 0) pieces_ = device.acquire(Category::transport, Type::f32, {bytes / size_of(Type::f32).n});
    if (pieces_.held()) pieces_.all().storage()->settle(&stream_);
    carrier_.set_lookout(&watch_);
  }

  ~Carried() override {
    try {
      // Without a mark where the stream took none: then its end is not known.
      const auto& all = watch_.under_way();
      const std::shared_ptr<Mark> last = all.empty() ? nullptr : all.back().ended;
      if (std::uncaught_exceptions() == 0 && last != nullptr) last->wait();
      watch_.see_ended();
    } catch (const Error&) {
      // Given up, and whoever waits for what it wrote is told.
    }
    if (!watch_.under_way().empty())
      watch_.abandon(Error(Exit::internal, "a collective was in flight when its transport ended"));
    keep_pieces();
    carrier_.set_lookout(nullptr);
  }

  int rank() const override { return carrier_.rank(); }
  int place() const override { return place_; }
  int world() const override { return carrier_.world(); }

  Handle reduce_scatter(const ReduceScatter& call) override {
    check(call.cuts, call.whole, call.mine);
    check_summable(call.whole, call.mine, call.fixed, call.cuts);
    const Uses uses{.written = {call.whole.storage(), call.mine.storage(), call.fixed.image.storage()}};
    return put({Operation::reduce_scatter, next_++, call.label, !call.cuts.within.empty()}, uses, [&] {
      reduce({call.whole, call.mine, call.cuts, call.divisor, call.fixed}, call.label.purpose);
    });
  }

  Handle all_gather(const AllGather& call) override {
    check(call.cuts, call.whole, call.mine);
    require(call.mine.empty() || call.mine.type() == call.whole.type(), "a gather moves one type");
    const View own = call.whole.part(call.cuts.of(place()));
    const bool apart = call.mine.storage() != call.whole.storage();
    const Uses uses{.written = {call.whole.storage()}, .read = apart ? call.mine.storage() : nullptr};
    return put({Operation::all_gather, next_++, call.label, !call.cuts.within.empty()}, uses, [&] {
      if (!own.empty() && own.raw() != call.mine.raw()) copy(call.mine, own, &stream_);
      gather(call.whole, call.cuts, call.label.purpose);
    });
  }

  Handle all_reduce(const AllReduce& call) override {
    const View summed = call.sums.storage() == nullptr ? call.whole : call.sums;
    require(call.cuts.world() == world(), "a collective's cuts name a slice for every place");
    const View mine = call.whole.part(call.cuts.of(place()));
    check(call.cuts, call.whole, mine);
    check(call.cuts, summed, mine);
    check_summable(summed, mine, call.fixed, call.cuts);
    const Uses uses{.written = {call.whole.storage(), summed.storage(), call.fixed.image.storage()}};
    return put({Operation::all_reduce, next_++, call.label, !call.cuts.within.empty()}, uses, [&] {
      if (is_native()) return all_reduce_by_library(call, summed);
      reduce({summed, mine, call.cuts, call.divisor, call.fixed}, call.label.purpose);
      gather(call.whole, call.cuts, call.label.purpose);
    });
  }

  void poll() override { watch_.see_ended(); }

 private:
  struct Uses {
    std::vector<Storage*> written;
    Storage* read = nullptr;
  };

  bool is_native() const { return options_.algorithm == Algorithm::native; }
  int rank_at(int place) const { return options_.places.rank_at[static_cast<size_t>(place)]; }

  void check(const Cuts& cuts, const View& whole, const View& mine) const {
    check_lengths(cuts, whole, mine, world(), place());
    const bool regular = cuts.within.empty() && cuts.at == Cuts::equal(world(), cuts.of(0).length()).at;
    if (is_native() && !regular)
      fail(Exit::unavailable, "algorithm native: moves whole slices of one length");
  }

  // Until the stream has done with them. A device that takes no mark does nothing more.
  void keep_pieces() {
    if (!pieces_.held()) return;
    try {
      pieces_.all().storage()->written_by(stream_.mark());
    } catch (const Error&) {
      return;
    }
  }

  // ---- What is put on the stream

  // What used these buffers before comes first, and what uses them later comes after `work`.
  template <class Work>
  Handle put(const Caption& caption, const Uses& uses, const Work& work) {
    watch_.see_ended();
    watch_.hear_carrier();
    throw_failure();
    for (Storage* storage : uses.written) {
      if (storage != nullptr) storage->settle(&stream_);
    }
    if (uses.read != nullptr) uses.read->settle_writers(&stream_);
    std::shared_ptr<Mark> ended;
    watch_.attempt(caption, [&] {
      watch_.under_way().push_back({.caption = caption, .begun = stream_.mark(), .steps = {}, .ended = {}});
      work();
    });
    watch_.attempt(caption, [&] { ended = stream_.mark(); });
    // Nobody would know when it is over.
    if (ended == nullptr) throw_failure();
    if (!watch_.under_way().empty()) watch_.under_way().back().ended = ended;
    for (Storage* storage : uses.written) {
      if (storage != nullptr) storage->written_by(ended);
    }
    if (uses.read != nullptr) uses.read->read_by(ended);
    throw_failure();
    return Handle(ended);
  }
  void throw_failure() const {
    if (watch_.failure() != nullptr) throw Error(*watch_.failure());
  }

  // Where a collective stands is known by the ends of its steps.
  void end_round(Round round, Type type) {
    auto text = [this, type, round = std::move(round)] {
      std::string all;
      const auto add = [&](const std::vector<Range>& ranges, const char* way, int place) {
        if (ranges.empty()) return;
        all += (all.empty() ? "" : ", ") + std::to_string(bytes_in(ranges, type).n) + way +
               std::to_string(rank_at(place));
      };
      for (const Exchange& one : round) {
        add(one.sent, " bytes to rank ", one.place);
        add(one.received, " bytes from rank ", one.place);
      }
      return all;
    };
    watch_.under_way().back().steps.push_back({std::move(text), stream_.mark()});
  }
  void end_library_call(Bytes bytes) {
    auto text = [this, bytes] {
      return std::to_string(bytes.n) + " bytes of all " + std::to_string(world()) +
             " ranks; for whom it waits the library does not say";
    };
    watch_.under_way().back().steps.push_back({std::move(text), stream_.mark()});
  }

  void reduce(const Sum& sum, Purpose purpose) {
    if (is_native()) return reduce_by_library(sum);
    Additions additions(kernels_, place_, sum);
    std::vector<Round> rounds = reduce_rounds(options_.algorithm, additions.cuts(), place_);
    additions.begin(rounds.empty());
    for (size_t i = 0; i < rounds.size(); ++i) {
      reduce_round(additions, rounds[i], purpose, i + 1 == rounds.size());
      end_round(std::move(rounds[i]), additions.whole().type());
    }
  }

  // As many pieces at once as there is room for; then they are added, and their room is used again.
  void reduce_round(Additions& additions, const Round& round, Purpose purpose, bool last) {
    const View whole = additions.whole();
    std::vector<Range> received;  // the same from every place that sends anything
    std::vector<std::vector<Range>> sent;
    std::vector<int> senders;
    size_t most = 0;
    for (const Exchange& exchange : round) {
      sent.push_back(parts_of(exchange.sent, whole.type(), kPiece));
      most = std::max(most, sent.back().size());
      if (exchange.received.empty()) continue;
      received = parts_of(exchange.received, whole.type(), kPiece);
      senders.push_back(exchange.place);
    }
    most = std::max(most, received.size());
    constexpr size_t kTogether = kPiecesPerPeer;
    std::vector<Storage> slots = slots_of(whole.type(), senders.size() * kTogether);
    for (size_t at = 0; at < most; at += kTogether) {
      Messages out, in;
      for (size_t i = 0; i < round.size(); ++i) {
        for (const Range& part : some_of(sent[i], at, kTogether))
          out.push_back({rank_at(round[i].place), bytes_of(whole.part(part))});
      }
      const std::span<const Range> here = some_of(received, at, kTogether);
      const auto slot = [&](size_t sender, size_t piece) {
        return View(&slots[sender * kTogether + piece], {{0}, here[piece].length()});
      };
      for (size_t s = 0; s < senders.size(); ++s) {
        for (size_t piece = 0; piece < here.size(); ++piece)
          in.push_back({rank_at(senders[s]), bytes_of(slot(s, piece))});
      }
      exchange(purpose, out, in);
      for (size_t piece = 0; piece < here.size(); ++piece) {
        std::vector<std::pair<int, View>> pieces;
        for (size_t s = 0; s < senders.size(); ++s) pieces.emplace_back(senders[s], slot(s, piece));
        additions.add(std::move(pieces), here[piece], last);
      }
    }
  }

  // Received pieces, in the memory that is held for them.
  std::vector<Storage> slots_of(Type type, size_t count) const {
    std::vector<Storage> slots(count);
    auto* data = static_cast<std::byte*>(pieces_.all().raw());
    for (Storage& slot : slots) {
      slot.type = type;
      slot.category = Category::transport;
      slot.length = {kPiece.n / size_of(type).n};
      slot.data = data;
      slot.far = pieces_.all().storage()->far;
      data += kPiece.n;
    }
    return slots;
  }

  void gather(const View& whole, const Cuts& cuts, Purpose purpose) {
    if (is_native()) {
      if (whole.empty()) return;
      carrier_.all_gather(whole);
      end_library_call(whole.bytes());
      return;
    }
    for (Round& round : gather_rounds(options_.algorithm, cuts, place_)) {
      gather_round(whole, round, purpose);
      end_round(std::move(round), whole.type());
    }
  }

  void gather_round(const View& whole, const Round& round, Purpose purpose) {
    std::vector<std::vector<Range>> sent, received;
    size_t most = 0;
    for (const Exchange& exchange : round) {
      sent.push_back(parts_of(exchange.sent, whole.type(), kLongestMessage));
      received.push_back(parts_of(exchange.received, whole.type(), kLongestMessage));
      most = std::max({most, sent.back().size(), received.back().size()});
    }
    for (size_t at = 0; at < most; at += kGatheredAtOnce) {
      Messages out, in;
      for (size_t i = 0; i < round.size(); ++i) {
        const int rank = rank_at(round[i].place);
        for (const Range& part : some_of(sent[i], at, kGatheredAtOnce))
          out.push_back({rank, bytes_of(whole.part(part))});
        for (const Range& part : some_of(received[i], at, kGatheredAtOnce))
          in.push_back({rank, bytes_of(whole.part(part))});
      }
      exchange(purpose, out, in);
    }
  }

  void exchange(Purpose purpose, const Messages& sent, const Messages& received) {
    if (!sent.empty() || !received.empty()) carrier_.exchange(purpose, sent, received);
  }

  // ---- The library's own collectives

  static FixedPoint within(const FixedPoint& fixed, Alias& image) {
    return {fixed.image.storage() == nullptr ? View() : image.view(), fixed.terms};
  }

  void reduce_by_library(const Sum& sum) {
    Alias whole(sum.whole), mine(sum.mine), image(sum.fixed.image);
    if (whole.view().empty()) return;
    const View data = summed_by_library(kernels_, whole.view(), within(sum.fixed, image));
    carrier_.reduce_scatter(data);
    end_library_call(data.bytes());
    deliver(kernels_, data.part(sum.cuts.of(place_)), mine.view(), sum.divisor, &stream_);
  }

  void all_reduce_by_library(const AllReduce& call, const View& summed) {
    Alias source(summed), whole(call.whole), image(call.fixed.image);
    if (whole.view().empty()) return;
    const View data = summed_by_library(kernels_, source.view(), within(call.fixed, image));
    carrier_.all_reduce(data);
    end_library_call(data.bytes());
    deliver(kernels_, data, whole.view(), call.divisor, &stream_);
  }

  Carrier& carrier_;
  kernels::Table& kernels_;
  Stream& stream_;
  CollectiveOptions options_;
  int place_;
  StreamWatch watch_;
  Buffer pieces_;
  int64_t next_ = 0;  // number of the next collective
};

}  // namespace
}  // namespace zp::transport

namespace zp {

std::unique_ptr<Transport> make_carried(Carrier& carrier, Device& device, kernels::Table& kernels,
                                        Control& control, const CollectiveOptions& options) {
  require(options.stream != nullptr, "a carrier works on a stream");
  transport::check_places(options, carrier.world());
  const bool native = options.algorithm == Algorithm::native;
  if (native && options.places.rank_at != Places::in_rank_order(carrier.world()).rank_at)
    fail(Exit::unavailable, "algorithm native: a library's collectives know places in rank order only");
  return std::make_unique<transport::Carried>(carrier, device, kernels, control, options);
}

}  // namespace zp
