// CUDA threads, barriers and warps. See block.hpp. Nothing here is compiled with the thread sanitizer, and
// containers hold types of the emulator alone: code of the standard library for them cannot be shared with
// instrumented code.
#include "correctness/cuda_emulator/block.hpp"

#include <numeric>

#include "correctness/cuda_emulator/edges.hpp"
#include "correctness/cuda_emulator/fault.hpp"
#include "correctness/cuda_emulator/indices.hpp"
#include "correctness/cuda_emulator/settings.hpp"

namespace zp::emulated {

namespace {

constexpr unsigned kLanes = 32;

thread_local Block block_of_this_thread;
constinit thread_local Block* current = nullptr;

unsigned warp_of(const CudaThread& thread) { return thread.number / kLanes; }
std::uint32_t bit_of(const CudaThread& thread) { return std::uint32_t{1} << (thread.number % kLanes); }

}  // namespace

Block& Block::of_this_thread() {
  if (current == nullptr) current = &block_of_this_thread;
  return *current;
}

Block::~Block() {
  for (CudaThread& thread : threads_) {
    for (const CudaThread::Fiber& fiber : thread.fibers) {
      if (fiber.handle != nullptr) destroy_fiber(fiber.handle);
      if (fiber.stack.bottom != nullptr) stacks_.give_back(fiber.stack);
    }
  }
}

void Block::prepare(const KernelCall& call, const char* text, dim3 block, dim3 grid, std::uint64_t seed) {
  call_ = &call;
  text_ = text;
  blockDim = block;
  gridDim = grid;
  count_ = block.x * block.y * block.z;
  race_check_ = kEdges && settings().race_check != 0;
  apart_ = race_check_ && settings().race_check == 2;
  random_ = Random(seed);
  shuffled_ = settings().seed != 0;
  factor_ = shuffled_ ? random_.next() % count_ | 1U : 1;
  while (std::gcd(factor_, std::uint64_t{count_}) != 1) factor_ += 2;
  offset_ = shuffled_ ? random_.next() % count_ : 0;
  number_threads(block);
}

void Block::number_threads(dim3 block) {
  if (block.x == numbered_.x && block.y == numbered_.y && block.z == numbered_.z) return;
  numbered_ = block;
  if (threads_.size() < count_) threads_.resize(count_);
  warps_.resize((count_ + kLanes - 1) / kLanes);
  ready_.reserve(count_);
  at_barrier_.reserve(count_);
  for (unsigned i = 0; i < count_; ++i) {
    CudaThread& thread = threads_[i];
    thread.number = i;
    thread.index = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
    for (unsigned set = 0; set < (apart_ ? 2U : 1U); ++set) {
      void*& handle = thread.fibers[set].handle;
      if (race_check_ && handle == nullptr) handle = create_fiber();
    }
  }
}

void Block::reset() {
  started_ = true_at_barrier_ = 0;
  alive_ = count_;
  for (unsigned i = 0; i < count_; ++i) {
    threads_[i].meeting = Meeting::none;
    threads_[i].copies.clear();
    threads_[i].groups = 0;
  }
  for (unsigned w = 0; w < warps_.size(); ++w) {
    const unsigned lanes = std::min(kLanes, count_ - w * kLanes);
    warps_[w].alive = lanes == kLanes ? 0xffffffffU : (std::uint32_t{1} << lanes) - 1;
    warps_[w].waiting = 0;
  }
}

void Block::run(uint3 block) {
  blockIdx = block;
  reset();
  if (race_check_) {
    stream_fiber_ = current_fiber();
    if (apart_) set_ ^= 1U;
    release_edge(&began_);
  }
  while (alive_ > 0) {
    const bool fresh = started_ < count_;
    if (!ready_.empty() && !(fresh && shuffled_ && random_.one_in(4))) {
      resume(take_ready());
    } else if (fresh) {
      start_on_a_new_stack();
    } else {
      say_stuck();
    }
  }
  if (race_check_) {
    enter_fiber(stream_fiber_);
    if (!apart_) finish();
  }
}

void Block::finish() {
  if (race_check_) acquire_edge(&ended_);
}

// ---- Starting, leaving and resuming threads

void Block::start_on_a_new_stack() {
  if (race_check_) {
    CudaThread& thread = threads_[(factor_ * started_ + offset_) % count_];
    Place& own = thread.fibers[set_].stack;
    own = own.bottom == nullptr ? stacks_.take(&Block::first_on_a_stack)
                                : Stacks::anew(own, &Block::first_on_a_stack);
    entering_ = own;
  } else {
    entering_ = stacks_.take(&Block::first_on_a_stack);
  }
  switch_stack(main_, entering_);
}

void Block::first_on_a_stack() {
  Block& block = of_this_thread();
  entered_stack(block.main_);
  block.start_threads();
}

// Threads follow one another on this stack until one waits: it keeps the stack, and the rest of this function
// runs when it ends. The thread sanitizer is to see no stack that two threads use.
void Block::start_threads() {
  const Place mine = entering_;
  do {
    CudaThread& thread = next_fresh();
    thread.place = mine;
    enter(thread);
    if (race_check_) acquire_edge(&began_);
    call_->run_thread();
    end(*running_);
  } while (started_ < count_ && !race_check_);
  if (!race_check_) stacks_.give_back(mine);
  leave_stack(main_);
}

CudaThread& Block::next_fresh() { return threads_[(factor_ * started_++ + offset_) % count_]; }

void Block::enter(CudaThread& thread) {
  running_ = &thread;
  threadIdx = thread.index;
  if (race_check_) enter_fiber(thread.fibers[set_].handle);
}

void Block::resume(CudaThread& thread) {
  enter(thread);
  switch_stack(main_, thread.place);
}

void Block::wait() { switch_stack(running_->place, main_); }

CudaThread& Block::take_ready() {
  if (shuffled_) std::swap(ready_[random_.below(ready_.size())], ready_.back());
  CudaThread& thread = *ready_.back();
  ready_.pop_back();
  return thread;
}

void Block::make_ready(CudaThread& thread, std::uint64_t result) {
  thread.meeting = Meeting::none;
  thread.result = result;
  if (&thread != running_) ready_.push_back(&thread);
}

// Who has ended is waited for by nobody.
void Block::end(CudaThread& thread) {
  if (race_check_) release_edge(&ended_);
  --alive_;
  Warp& warp = warps_[warp_of(thread)];
  warp.alive &= ~bit_of(thread);
  if (!at_barrier_.empty() && at_barrier_.size() == alive_) release_barrier();
  for (unsigned i = 0; i < kLanes && warp.waiting != 0; ++i) {
    if ((warp.waiting >> i & 1U) != 0) {
      complete(warp_of(thread), threads_[warp_of(thread) * kLanes + i].mask);
    }
  }
}

// ---- The block's barrier

int Block::meet(Site site, bool predicate) {
  CudaThread& me = *running_;
  if (!at_barrier_.empty() && at_barrier_.front()->site.line != site.line) {
    const CudaThread& other = *at_barrier_.front();
    fault("%s: threads of a block wait at different barriers: thread %u at %s:%d, thread %u at %s:%d", text_,
          other.number, other.site.file, other.site.line, me.number, site.file, site.line);
  }
  char* const order = &barrier_order_[barriers_ & 1U];
  if (race_check_) release_edge(order);
  me.site = site;
  me.meeting = Meeting::block;
  true_at_barrier_ += predicate ? 1 : 0;
  at_barrier_.push_back(&me);
  if (at_barrier_.size() == alive_) {
    release_barrier();
  } else {
    wait();
  }
  if (race_check_) acquire_edge(order);
  return static_cast<int>(me.result);
}

void Block::release_barrier() {
  for (CudaThread* thread : at_barrier_) make_ready(*thread, true_at_barrier_);
  at_barrier_.clear();
  true_at_barrier_ = 0;
  ++barriers_;
}

// ---- Warps

std::uint64_t Block::meet_lanes(Meeting meeting, std::uint32_t mask, std::uint64_t value, unsigned source,
                                Site site) {
  CudaThread& me = *running_;
  Warp& warp = warps_[warp_of(me)];
  if ((mask & bit_of(me)) == 0) {
    fault("%s: %s:%d: lane %u is not in its own mask %08x", text_, site.file, site.line, me.number % kLanes,
          mask);
  }
  me.meeting = meeting;
  me.mask = mask;
  me.value = value;
  me.source_lane = source;
  me.site = site;
  if (race_check_ && meeting == Meeting::warp) release_edge(&warp.order[me.number % kLanes]);
  warp.waiting |= bit_of(me);
  if (!complete(warp_of(me), mask)) wait();
  if (race_check_ && meeting == Meeting::warp) {
    for (unsigned i = 0; i < kLanes; ++i) {
      if ((mask >> i & 1U) != 0) acquire_edge(&warp.order[i]);
    }
  }
  return me.result;
}

// Lets go all lanes of `mask` where those that have not ended wait for one another.
bool Block::complete(unsigned number, std::uint32_t mask) {
  Warp& warp = warps_[number];
  const std::uint32_t lanes = mask & warp.alive;
  if ((warp.waiting & lanes) != lanes) return false;
  CudaThread* const first_lane = &threads_[number * kLanes];
  const CudaThread* first = nullptr;
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1U) == 0) continue;
    const CudaThread& thread = first_lane[i];
    if (thread.mask != mask) return false;
    if (first == nullptr) first = &thread;
    if (thread.meeting != first->meeting) {
      fault("%s: lanes of a warp wait in different operations: thread %u at %s:%d, thread %u at %s:%d", text_,
            first->number, first->site.file, first->site.line, thread.number, thread.site.file,
            thread.site.line);
    }
  }
  hand_out(first_lane, lanes);
  warp.waiting &= ~lanes;
  return true;
}

// A value of a lane that brings none is undefined: all bits set, not a number.
void Block::hand_out(CudaThread* first_lane, std::uint32_t lanes) {
  std::uint64_t votes = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1U) != 0 && first_lane[i].value != 0) votes |= std::uint64_t{1} << i;
  }
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1U) == 0) continue;
    CudaThread& thread = first_lane[i];
    std::uint64_t result = votes;
    if (thread.meeting == Meeting::exchange) {
      const bool brought = (lanes >> thread.source_lane & 1U) != 0;
      result = brought ? first_lane[thread.source_lane].value : ~std::uint64_t{0};
    }
    make_ready(thread, result);
  }
}

void Block::say_stuck() {
  for (unsigned i = 0; i < count_; ++i) {
    const CudaThread& thread = threads_[i];
    if (thread.meeting == Meeting::none) continue;
    const bool told =
        i > 0 && threads_[i - 1].meeting == thread.meeting && threads_[i - 1].site.line == thread.site.line;
    if (!told) {
      note("  thread %u and those after it wait at %s:%d%s", i, thread.site.file, thread.site.line,
           thread.meeting == Meeting::block ? " for the block" : " for lanes of their warp");
    }
  }
  fault("%s: a barrier that can never complete in block (%u, %u, %u): %u threads wait", text_, blockIdx.x,
        blockIdx.y, blockIdx.z, alive_);
}

}  // namespace zp::emulated
