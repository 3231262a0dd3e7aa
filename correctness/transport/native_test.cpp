// A library's collectives: gathers of every type, sums of floats where no order changes them, bf16 added as
// the contract says, and a rank that comes too late.
#include <chrono>
#include <thread>

#include "correctness/transport/conformance.hpp"

namespace zp {
namespace {

constexpr std::array kFloats{Type::f32, Type::bf16};

void put_number(const View& view, int64_t i, float x) {
  if (view.type() == Type::bf16) {
    view.write<bf16>()[i] = round_to_bf16(x);
  } else {
    view.write<float>()[i] = x;
  }
}

float number(const View& view, int64_t i) {
  return view.type() == Type::bf16 ? widen(view.read<bf16>()[i]) : view.read<float>()[i];
}

// Whole numbers whose sums over at most 8 places need no more than the 8 bits that bf16 has.
float term(int place, int64_t i) { return static_cast<float>((place + 1) * (i % 13 - 6)); }
float sum_of_terms(int world, int64_t i) {
  return static_cast<float>(world * (world + 1) / 2 * (i % 13 - 6));
}

float rounded(Type type, float x) { return type == Type::bf16 ? widen(round_to_bf16(x)) : x; }

TEST(NativeCollectives, GatherEveryType) {
  on_native([](TestRig& rig, const Places& places) {
    for (const Cuts& cuts : library_cuts_of(rig.transport->world())) {
      for (const Type type : {Type::f32, Type::bf16, Type::i32, Type::i64}) {
        const Check check{rig, Algorithm::native, places, cuts, type};
        Fenced whole(*rig.device, type, cuts.whole());
        Fenced mine(*rig.device, type, check.own().length());
        plain::fill(mine.view, check.place(), check.own().begin.n);
        rig.transport->all_gather({mine.view, whole.view, cuts, {Purpose::gather_params, 5, "head"}}).wait();
        check.expect_slices(whole.view);
        whole.expect_untouched();
      }
    }
  });
}

// Of every length, apart from what is summed; the quotient is rounded.
TEST(NativeCollectives, SumFloatsThatAddExactlyOverEveryCut) {
  on_native([](TestRig& rig, const Places& places) {
    const int world = rig.transport->world(), place = rig.transport->place();
    for (const Cuts& cuts : library_cuts_of(world)) {
      for (const Type type : kFloats) {
        const Check check{rig, Algorithm::native, places, cuts, type};
        const auto expect = [&](const View& got, Range range) {
          const std::vector<float> numbers = plain::floats_of(got);
          for (int64_t i = range.begin.n; i < range.end.n; ++i) {
            ASSERT_EQ(numbers[static_cast<size_t>(i - range.begin.n)],
                      rounded(type, sum_of_terms(world, i) / 3.0F))
                << check.text() << ", element " << i;
          }
        };
        Fenced scattered(*rig.device, type, cuts.whole()), reduced(*rig.device, type, cuts.whole());
        Fenced mine(*rig.device, type, check.own().length());
        for (int64_t i = 0; i < cuts.whole().n; ++i) {
          put_number(scattered.view, i, term(place, i));
          put_number(reduced.view, i, term(place, i));
        }
        const Label label{Purpose::reduce_grads, 0, "unit"};
        rig.transport->reduce_scatter({scattered.view, mine.view, cuts, 3.0F, label}).wait();
        expect(mine.view, check.own());
        rig.transport->all_reduce({reduced.view, cuts, 3.0F, label}).wait();
        expect(reduced.view, {{0}, cuts.whole()});
        for (Fenced* fenced : {&scattered, &reduced, &mine}) fenced->expect_untouched();
      }
    }
  });
}

// In place and apart, several under way.
TEST(NativeCollectives, SumFloatsThatAddExactly) {
  on_native([](TestRig& rig, const Places&) {
    const int world = rig.transport->world(), place = rig.transport->place();
    const Cuts cuts = Cuts::equal(world, {67});
    constexpr int kTensors = 6;  // of either type: all-reduced, scattered and divided, scattered
    std::vector<Buffer> wholes;
    std::vector<Handle> handles;
    for (int tensor = 0; tensor < kTensors; ++tensor) {
      wholes.push_back(rig.device->acquire(Category::grads, kFloats.at(tensor % 2), cuts.whole()));
      const View whole = wholes.back().all();
      for (int64_t i = 0; i < whole.length().n; ++i)
        put_number(whole, i, term(place, i) + static_cast<float>(tensor));
      const Label label{Purpose::reduce_grads, tensor, "unit"};
      if (tensor < 2) {
        handles.push_back(rig.transport->all_reduce({whole, cuts, 2.0F, label}));
      } else {
        const float divisor = tensor < 4 ? 2.0F : 1.0F;
        handles.push_back(
            rig.transport->reduce_scatter({whole, whole.part(cuts.of(place)), cuts, divisor, label}));
      }
    }
    for (Handle& handle : handles) handle.wait();
    for (int tensor = 0; tensor < kTensors; ++tensor) {
      const Range range = tensor < 2 ? Range{{0}, cuts.whole()} : cuts.of(place);
      for (int64_t i = range.begin.n; i < range.end.n; ++i) {
        const float sum = sum_of_terms(world, i) + static_cast<float>(world * tensor);
        ASSERT_EQ(number(wholes[static_cast<size_t>(tensor)].all(), i), tensor < 4 ? sum / 2.0F : sum)
            << tensor << " " << i;
      }
    }
  });
}

// Two terms of any size, and zeros of the other places, which no order can let change their sum.
TEST(NativeCollectives, RoundASumOfTwoBf16ToNearestEven) {
  on_native([](TestRig& rig, const Places&) {
    const int world = rig.transport->world(), place = rig.transport->place();
    const Cuts cuts = Cuts::equal(world, {2048});
    const auto own_term = [](int of, int64_t i) { return rounded(Type::bf16, plain::value(of, i)); };
    Buffer whole = rig.device->acquire(Category::grads, Type::bf16, cuts.whole());
    for (int64_t i = 0; i < cuts.whole().n; ++i)
      put_number(whole.all(), i, place < 2 ? own_term(place, i) : 0.0F);
    rig.transport->all_reduce({whole.all(), cuts, 1.0F, {Purpose::reduce_grads, 0, "unit"}}).wait();
    int64_t ties = 0, rounds = 0;
    for (int64_t i = 0; i < cuts.whole().n; ++i) {
      const float sum = own_term(0, i) + (world > 1 ? own_term(1, i) : 0.0F);
      ties += (std::bit_cast<uint32_t>(sum) & 0xffffU) == 0x8000U;
      rounds += sum != rounded(Type::bf16, sum);
      ASSERT_EQ(number(whole.all(), i), rounded(Type::bf16, sum)) << i;
    }
    EXPECT_TRUE(world == 1 || (ties > 0 && rounds > ties)) << ties << " " << rounds;
  });
}

TEST(NativeCollectives, RefuseBuckets) {
  on_native([](TestRig& rig, const Places&) {
    Cuts cuts = Cuts::equal(rig.transport->world(), {8});
    cuts.within = {{0}, {4}};
    Buffer whole = rig.device->acquire(Category::grads, Type::f32, cuts.whole());
    EXPECT_THROW(rig.transport->all_reduce({whole.all(), cuts, 1.0F, {Purpose::reduce_grads, 0, "a"}}),
                 Error);
  });
}

// The ranks that come wait no longer than they may, and say in what. The late one still comes before they
// have given MPI up (correctness/suite/native_test.cpp has one that never does), and the next run finds MPI
// whole.
TEST(NativeCollectives, ALateRankIsATimeoutThatNamesCollectiveAndTensor) {
  using namespace std::chrono_literals;
  constexpr double kShort = 0.3;
  const Label label{Purpose::reduce_grads, 3, "block.3"};
  for (const RowAndWorld& on : rows_and_worlds(2)) {
    if (on.row->name == "threads") continue;
    const auto sum_with_one_late = [&](std::chrono::milliseconds late) {
      on.row->run(on.world, kTimeout, [&](Endpoint& endpoint) {
        TestRig rig(endpoint, options_of(Algorithm::native, on.world, late > 0ms ? kShort : kTimeout));
        const Cuts cuts = Cuts::equal(on.world, {70000});
        Buffer whole = rig.device->acquire(Category::grads, Type::bf16, cuts.whole());
        for (int64_t i = 0; i < cuts.whole().n; ++i)
          put_number(whole.all(), i, term(rig.transport->place(), i));
        endpoint.control->barrier();
        if (endpoint.link->rank() == on.world - 1) std::this_thread::sleep_for(late);
        rig.transport->all_reduce({whole.all(), cuts, 1.0F, label}).wait();
        endpoint.control->barrier();
        for (int64_t i = 0; i < cuts.whole().n; ++i)
          ASSERT_EQ(number(whole.all(), i), sum_of_terms(on.world, i)) << i;
      });
    };
    try {
      sum_with_one_late(700ms);
      ADD_FAILURE() << "nobody minded";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_EQ(error.code(), Exit::timeout) << text;
      for (const char* word :
           {"waited 0.3 s in native all-reduce number 0", "reduce grads", "of block.3", "[tensor 3]"}) {
        EXPECT_NE(text.find(word), std::string::npos) << "no '" << word << "' in: " << text;
      }
    }
    sum_with_one_late(0ms);
  }
}

}  // namespace
}  // namespace zp
