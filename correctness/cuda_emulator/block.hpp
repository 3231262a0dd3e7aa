// The threads of one block, run by a stream's thread one after another. A thread that must wait for others is
// left on its stack and the next one starts on another, so kernels without barriers are plain loops.
#pragma once

#include <cstdint>
#include <vector>

#include "correctness/cuda_emulator/fiber.hpp"
#include "correctness/cuda_emulator/kernel.hpp"
#include "correctness/cuda_emulator/lock.hpp"

namespace zp::emulated {

struct AsyncCopy {
  void* shared;
  const void* global;
  std::size_t bytes;
  std::size_t zero_bytes;
  std::size_t group;
};

enum class Meeting { none, block, warp, vote, exchange };

struct CudaThread {
  unsigned number = 0;
  uint3 index{};
  Place place;
  Meeting meeting = Meeting::none;
  Site site;
  std::uint32_t mask = 0;    // of a warp's meeting
  std::uint64_t value = 0;   // what it brings
  unsigned source_lane = 0;  // whose value it wants
  std::uint64_t result = 0;  // what it takes away
  std::vector<AsyncCopy> copies;
  std::size_t groups = 0;  // committed
  // For the thread sanitizer, where it checks for races: a thread of every other block, and the stack that it
  // alone uses.
  struct Fiber {
    void* handle = nullptr;
    Place stack;
  } fibers[2];
};

struct Warp {
  std::uint32_t alive = 0;
  std::uint32_t waiting = 0;
  char order[32] = {};  // addresses of the edges that a meeting declares, one a lane
};

class Block {
 public:
  static Block& of_this_thread();
  ~Block();

  // Sets what the blocks of a launch have in common.
  void prepare(const KernelCall& call, const char* text, dim3 block, dim3 grid, std::uint64_t seed);
  void run(uint3 block);
  // What the launch did happened before what comes next on this thread.
  void finish();

  int meet(Site site, bool predicate);
  std::uint64_t meet_lanes(Meeting meeting, std::uint32_t mask, std::uint64_t value, unsigned source,
                           Site site);
  CudaThread& running() { return *running_; }
  const char* text() const { return text_; }

 private:
  static void first_on_a_stack();
  void start_threads();
  void start_on_a_new_stack();
  void resume(CudaThread& thread);
  void wait();
  CudaThread& take_ready();
  CudaThread& next_fresh();
  void make_ready(CudaThread& thread, std::uint64_t result);
  void enter(CudaThread& thread);
  void end(CudaThread& thread);
  void release_barrier();
  bool complete(unsigned warp, std::uint32_t mask);
  void hand_out(CudaThread* first_lane, std::uint32_t lanes);
  void number_threads(dim3 block);
  void reset();
  [[noreturn]] void say_stuck();

  const KernelCall* call_ = nullptr;
  const char* text_ = "";
  unsigned count_ = 0;
  dim3 numbered_{0, 0, 0};
  bool race_check_ = false;
  bool apart_ = false;  // blocks of a launch are in no order for the thread sanitizer
  unsigned set_ = 0;    // which of its threads' fibers the block has
  Random random_{0};
  bool shuffled_ = false;
  std::uint64_t factor_ = 1, offset_ = 0;  // of the order in which threads start

  std::vector<CudaThread> threads_;
  std::vector<Warp> warps_;
  std::vector<CudaThread*> ready_;
  std::vector<CudaThread*> at_barrier_;
  unsigned started_ = 0;
  unsigned alive_ = 0;
  unsigned true_at_barrier_ = 0;
  unsigned barriers_ = 0;
  CudaThread* running_ = nullptr;
  Place main_, entering_;
  Stacks stacks_;
  void* stream_fiber_ = nullptr;
  char began_ = 0, ended_ = 0, barrier_order_[2] = {};
};

}  // namespace zp::emulated
