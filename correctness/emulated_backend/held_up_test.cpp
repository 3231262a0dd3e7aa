// Who is named where a collective does not end: the peer whose message does not come, or this rank's own GPU
// where it has not come to what is to be sent.
#include <gtest/gtest.h>

#include <optional>

#include "correctness/emulated_backend/held.hpp"
#include "harness/transport/aware.hpp"
#include "harness/transport/staged.hpp"

namespace zp {
namespace {

// A peer to whom messages go, and from whom none come.
class SilentPeer final : public Link {
 public:
  class Message final : public Request {
   public:
    explicit Message(bool over) : over_(over) {}
    bool done() override { return over_; }

   private:
    bool over_;
  };
  int rank() const override { return 0; }
  int world() const override { return 2; }
  std::unique_ptr<Request> send(int, const Tag&, std::span<const std::byte>) override {
    return std::make_unique<Message>(true);
  }
  std::unique_ptr<Request> receive(int, const Tag&, std::span<std::byte>) override {
    return std::make_unique<Message>(false);
  }
};

class NoKernels final : public kernels::Table {
 public:
  void run(const kernels::Call&) override { ADD_FAILURE() << "a gather adds nothing"; }
};

enum class Way { staged, aware };
enum class Gpu { at_work, held_up };

std::string what_a_gather_says(Way way, Gpu gpu) {
  const auto device = make_cuda_device(0, Fill::zero);
  const auto stream = device->make_stream();
  SilentPeer peer;
  const auto link = way == Way::staged ? make_staged_link(peer, *device->far_memory(), *stream)
                                       : make_aware_link(peer, *stream);
  NoKernels none;
  const auto transport = make_collectives(*link, *device, none,
                                          {.algorithm = Algorithm::direct,
                                           .places = Places::in_rank_order(2),
                                           .timeout_s = 0.1,
                                           .stream = stream.get()});
  const Cuts cuts = Cuts::equal(2, {5});
  const Buffer whole = device->acquire(Category::activations, Type::f32, cuts.whole());
  std::optional<Held> held;
  if (gpu == Gpu::held_up) held.emplace(*stream);
  try {
    transport->all_gather({.mine = whole.part(cuts.of(0)), .whole = whole.all(), .cuts = cuts, .label = {}})
        .wait();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::timeout);
    return error.what();
  }
  return "";
}

TEST(Timeout, NamesThePeerOrTheOwnGpu) {
  for (const Way way : {Way::staged, Way::aware}) {
    EXPECT_EQ(what_a_gather_says(way, Gpu::at_work).find("rank 0 waited 0.1 s for rank 1 in"), 0U);
    EXPECT_EQ(what_a_gather_says(way, Gpu::held_up).find("rank 0 waited 0.1 s for its own GPU in"), 0U);
  }
}

}  // namespace
}  // namespace zp
