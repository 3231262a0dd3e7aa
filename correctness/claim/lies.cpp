// Lies that a claim must refute.
#include "correctness/claim/lies.hpp"

namespace zp {
namespace {

std::vector<Lie> lies_about_bits() {
  std::vector<Lie> lies{
      {"StaleWeightsInForward", Claim::bits, [](auto& s) { flip(s.used[1].hash); },
       "weights of second in forward of micro-step 0: got"},
      {"StaleWeightsInBackward", Claim::bits, [](auto& s) { flip(s.used.back().hash); },
       "weights of first in backward of micro-step"},
      {"UseLeftOut", Claim::bits, [](auto& s) { s.used.pop_back(); }, "never used"},
      {"UseTooMany", Claim::bits, [](auto& s) { s.used.push_back(s.used.front()); }, "used once more"},
      {"UseOfNoUnit", Claim::bits, [](auto& s) { s.used[0].unit = s.used[0].read = 99; },
       "weights of unit 99 in"},
      {"UseOfAnotherUnit", Claim::bits, [](auto& s) { s.used[0].read = 1; },
       "weights of second, which first borrows, in forward of micro-step 0: used once more"},
      {"OtherLoss", Claim::bits, [](auto& s) { s.loss_bits += 3; }, "loss: got"},
      {"OtherMicroBatchGradient", Claim::bits, [](auto& s) { flip(s.micro_batch_grads[1]); },
       "own gradient of micro-batch"},
      {"MicroBatchesSwapped", Claim::bits,
       [](auto& s) { std::swap(s.micro_batch_grads[0], s.micro_batch_grads[1]); },
       "own gradient of micro-batch"},
      {"MicroBatchLeftOut", Claim::bits, [](auto& s) { s.micro_batch_grads.pop_back(); },
       "got 1 micro-batches, expected 2, difference -1"},
      {"OtherReducedGradient", Claim::bits, [](auto& s) { flip(s.grads[0].hash); },
       "averaged gradient of first.weight: got"},
      {"ReducedGradientLeftOut", Claim::bits, [](auto& s) { s.grads.clear(); },
       "averaged gradient of first.weight: got"},
      {"GradientOfNoTensor", Claim::bits, [](auto& s) { s.grads[0].tensor = 5; }, "does not exist"},
      {"OtherNorm", Claim::bits, [](auto& s) { s.norm_bits -= 1; }, "gradient norm: got"},
      {"PaddingWritten", Claim::bits,
       [](auto& s) { s.padding.push_back({.kind = HashKind::m, .unit = 1, .elements = {3}}); },
       "rank 1 (place 0): padding of first moments of unit second: 3 elements are not zero"},
      {"PaddingOfNoUnit", Claim::bits,
       [](auto& s) { s.padding.push_back({.kind = HashKind::param, .unit = 8, .elements = {1}}); },
       "padding of parameters of unit 8: 1 elements"},
      {"NotANumber", Claim::bits, [](auto& s) { s.state[0].hash.finite = false; }, "NaN or Inf"},
      {"NotANumberUsed", Claim::bits, [](auto& s) { s.used[0].hash.finite = false; }, "NaN or Inf"},
  };
  const std::vector<std::pair<HashKind, std::string>> kinds{{HashKind::param, "parameters"},
                                                            {HashKind::master, "masters"},
                                                            {HashKind::m, "first moments"},
                                                            {HashKind::v, "second moments"}};
  for (const auto& each : kinds) {
    const HashKind kind = each.first;
    const std::string& text = each.second;
    std::string name = text;
    std::erase(name, ' ');
    lies.push_back({"Other_" + name, Claim::bits, [kind](auto& s) { flip(of_kind(s.state, kind).hash); },
                    text + " of first.weight: got"});
    lies.push_back({"LeftOut_" + name, Claim::bits,
                    [kind](auto& s) { std::erase_if(s.state, [&](auto& h) { return h.kind == kind; }); },
                    text + " of first.weight: got"});
  }
  return lies;
}

std::vector<Lie> lies_about_bytes() {
  return {
      {"ByteTooMany", Claim::bytes,
       [](auto& s) { s.sent[Purpose::reduce_grads].begin()->second.bytes += {1}; }, "difference +1 B in 0"},
      {"MessageTooMany", Claim::bytes, [](auto& s) { ++s.sent[Purpose::loss].begin()->second.messages; },
       "difference 0 B in +1"},
      {"SentToNoOne", Claim::bytes,
       [](auto& s) {
         s.sent[Purpose::loss][17] = {1, {4}};
       },
       "loss sent to rank 17"},
      {"NothingSent", Claim::bytes, [](auto& s) { s.sent.clear(); }, "got 0 B in 0 messages"},
      {"AskedOnceMore", Claim::bytes,
       [](auto& s) { ++s.asked[Purpose::grad_norm][Operation::all_gather].calls; },
       "grad norm asked for by all-gather: got 2 calls"},
      {"AskedForMore", Claim::bytes,
       [](auto& s) { s.asked[Purpose::loss][Operation::all_gather].whole += {8}; }, "difference 0 of +8 B"},
      {"AskedForAnotherOperation", Claim::bytes,
       [](auto& s) {
         s.asked[Purpose::loss][Operation::all_reduce] = {1, {4}};
       },
       "loss asked for by all-reduce"},
      {"OtherTensorInLog", Claim::bytes, [](auto& s) { s.log[0].tensor ^= 1; },
       "collective 0 of the step: got"},
      {"LogsSwapped", Claim::bytes, [](auto& s) { std::swap(s.log[0], s.log[1]); },
       "collective 0 of the step: got"},
      {"LogTooShort", Claim::bytes, [](auto& s) { s.log.pop_back(); }, "got nothing, expected"},
      {"LogTooLong", Claim::bytes, [](auto& s) { s.log.push_back(s.log.back()); }, "expected nothing"},
      {"OtherSequence", Claim::bytes, [](auto& s) { ++s.log[2].sequence; }, "collective 2 of the step"},
      {"OtherTypeInLog", Claim::bytes, [](auto& s) { s.log[1].type = Type::i32; },
       "collective 1 of the step"},
      {"OtherCountInLog", Claim::bytes, [](auto& s) { s.log[1].count += {1}; }, "collective 1 of the step"},
  };
}

std::vector<Lie> lies_about_memory_and_work() {
  std::vector<Lie> lies{
      {"CategoryOfNoUse", Claim::memory, [](auto& s) { s.held[Point::after_step][Category::bucket] = {8}; },
       "after step, bucket: got 8 B, expected 0 B, difference +8 B"},
      {"NothingHeld", Claim::memory, [](auto& s) { s.held[Point::after_init].clear(); },
       "after init, params: got 0 B"},
      {"MostInForward", Claim::memory, [](auto& s) { s.held_in_use[1].most[Category::gathered] += {2}; },
       "most in forward of second, micro-step 0, gathered: got"},
      {"LeftAfterForward", Claim::memory, [](auto& s) { s.held_in_use[2].after[Category::bucket] += {6}; },
       "after forward of third, micro-step 0, bucket: got 6 B, expected 0 B, difference +6 B"},
      {"LessInBackwardOfALaterMicroStep", Claim::memory,
       [](auto& s) { s.held_in_use[11].most[Category::params] += {-1}; },
       "most in backward of first, micro-step 1, params: got"},
      {"UseHeldLeftOut", Claim::memory, [](auto& s) { s.held_in_use.pop_back(); },
       "backward of first, micro-step 1: never used, expected once"},
      {"UseHeldTwice", Claim::memory, [](auto& s) { s.held_in_use.push_back(s.held_in_use[3]); },
       "backward of third, micro-step 0: used once more than expected"},
      {"UseHeldOfNoUnit", Claim::memory, [](auto& s) { s.held_in_use[0].unit = 77; },
       "forward of unit 77, micro-step 0: used once more"},
      {"AcquiredOnceMore", Claim::memory, [](auto& s) { ++s.acquired[Category::gathered].calls; },
       "gathered: acquired"},
      {"AcquiredMore", Claim::memory, [](auto& s) { s.acquired[Category::bucket].bytes += {4}; },
       "difference 0 of +4 B"},
      {"AcquiredForNothing", Claim::memory,
       [](auto& s) {
         s.acquired[Category::workspace] = {1, {64}};
       },
       "workspace: acquired 1 buffers of 64 B in the step, expected 0 of 0 B, difference +1 of +64 B"},
      {"TakenBesideTheLedger", Claim::memory, [](auto& s) { s.device->used_most += {512}; },
       "most in the step: the device's pool: got 2560 B in use, expected 2048 B, the ledger's buffers in "
       "grains of 512 B, difference +512 B"},
      {"TakenFromElsewhere", Claim::memory, [](auto& s) { s.device->used_most += {-512}; },
       "difference -512 B"},
      {"NeverGivenBack", Claim::memory, [](auto& s) { s.device->used += {512}; },
       "after the step: the device's pool: got 1536 B in use, expected 1024 B"},
      {"NothingPinnedForStagedMessages", Claim::memory, [](auto& s) { s.device->pinned = {}; },
       "pinned memory of the host for messages, which are staged: got 0 B, expected some"},
      {"KernelUnknown", Claim::work,
       [](auto& s) {
         s.work["prayer"] = {1, {64}};
       },
       "prayer: got 1 calls of 64 elements, expected 0 of 0, difference +1 of +64"},
      {"KernelLeftOut", Claim::work, [](auto& s) { s.work.erase("adamw"); },
       "adamw: got 0 calls of 0 elements"},
      {"CallTooMany", Claim::work, [](auto& s) { ++s.work["gemm"].calls; }, "difference +1 of 0"},
      {"ElementTooFew", Claim::work, [](auto& s) { s.work["square sum"].elements += {-1}; },
       "difference 0 of -1"},
  };
  for (const Point point : kPoints) {
    std::string name(name_of(point));
    std::ranges::replace(name, ' ', '_');
    lies.push_back({"ByteHeld_" + name, Claim::memory,
                    [point](auto& s) { s.held[point][Category::optimizer] += {1}; },
                    std::string(name_of(point)) + ", optimizer: got"});
    lies.push_back({"NotRecorded_" + name, Claim::memory, [point](auto& s) { s.held.erase(point); },
                    std::string(name_of(point)) + ": not recorded"});
  }
  return lies;
}

}  // namespace

std::vector<Lie> all_lies() {
  std::vector<Lie> lies = lies_about_bits();
  std::ranges::copy(lies_about_bytes(), std::back_inserter(lies));
  std::ranges::copy(lies_about_memory_and_work(), std::back_inserter(lies));
  return lies;
}

}  // namespace zp
