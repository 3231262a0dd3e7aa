// Launches: what is refused, the order of blocks, and what CUDA threads ask of the runtime while they run.
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstring>
#include <map>
#include <numeric>

#include "correctness/cuda_emulator/barriers.hpp"
#include "correctness/cuda_emulator/block.hpp"
#include "correctness/cuda_emulator/edges.hpp"
#include "correctness/cuda_emulator/enqueue.hpp"
#include "correctness/cuda_emulator/fault.hpp"
#include "correctness/cuda_emulator/indices.hpp"
#include "correctness/cuda_emulator/kernel.hpp"
#include "correctness/cuda_emulator/settings.hpp"

constinit thread_local uint3 threadIdx{};
constinit thread_local uint3 blockIdx{};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace zp {

alignas(128) constinit thread_local unsigned char dynamic_shared[emulated::kMostDynamicShared]{};

}  // namespace zp

namespace zp::emulated {

namespace {

constexpr std::size_t kUsualDynamicShared = 48 * 1024;  // more must be asked for, kernel by kernel
constexpr std::size_t kGuard = 256;                     // bytes behind it that a block must leave alone

struct Attributes {
  std::size_t most_dynamic_shared = kUsualDynamicShared;
};

constinit Spin attributes_lock;

std::map<const void*, Attributes>& attributes() {
  static constinit std::map<const void*, Attributes>* table = nullptr;
  if (table == nullptr) table = new std::map<const void*, Attributes>;
  return *table;
}

// Of the kernel that is launched now: whether it is the one that is told never to end.
bool stalls(int device) {
  static constinit std::atomic<int> launched{0};
  return settings().stall_at >= 0 && device == settings().stall_device &&
         launched.fetch_add(1) == settings().stall_at;
}

class Launch final : public Operation {
 public:
  Launch(const cudaLaunchConfig_t& config, const char* text, KernelCall* call, std::uint64_t seed)
      : Operation(text),
        config_(config),
        call_(call),
        random_(seed),
        stalls_(stalls(config.stream->device())) {
    blocks_ = std::uint64_t{config.gridDim.x} * config.gridDim.y * config.gridDim.z;
    if (settings().seed == 0) return;
    offset_ = random_.below(blocks_);
    factor_ = random_.below(blocks_) | 1U;
    while (std::gcd(factor_, blocks_) != 1) factor_ += 2;
  }
  ~Launch() override { delete call_; }

  bool ready() override { return !stalls_; }
  void await() override { sleep_us(20'000); }

  bool step() override {
    Block& block = Block::of_this_thread();
    block.prepare(*call_, name(), config_.blockDim, config_.gridDim, random_.next());
    for (std::uint64_t left = part_of(blocks_); left > 0 && done_ < blocks_; --left) run_block(block);
    block.finish();
    return done_ == blocks_;
  }

 private:
  void run_block(Block& block) {
    const std::uint64_t k = (factor_ * done_++ + offset_) % blocks_;
    const std::uint64_t x = config_.gridDim.x;
    const std::uint64_t y = config_.gridDim.y;
    const std::size_t shared = config_.dynamicSmemBytes;
    if (shared > 0) std::memset(dynamic_shared, 0xff, std::min(shared + kGuard, sizeof dynamic_shared));
    block.run(
        {static_cast<unsigned>(k % x), static_cast<unsigned>(k / x % y), static_cast<unsigned>(k / x / y)});
    if (shared == 0) return;
    for (std::size_t i = shared; i < std::min(shared + kGuard, sizeof dynamic_shared); ++i) {
      if (dynamic_shared[i] != 0xff) {
        fault("%s: byte %zu of %zu bytes of dynamic shared memory was written", name(), i, shared);
      }
    }
  }

  cudaLaunchConfig_t config_;
  KernelCall* call_;
  Random random_;
  bool stalls_;
  std::uint64_t blocks_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t factor_ = 1, offset_ = 0;
};

cudaError_t check_shape(const cudaLaunchConfig_t& config, const char* text, std::size_t most_shared) {
  const dim3 block = config.blockDim;
  const dim3 grid = config.gridDim;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
      grid.x > 0x7fffffffU || grid.y > 65535 || grid.z > 65535) {
    return refuse(cudaErrorInvalidConfiguration, "%s: no device has grid (%u, %u, %u) of blocks (%u, %u, %u)",
                  text, grid.x, grid.y, grid.z, block.x, block.y, block.z);
  }
  if (config.dynamicSmemBytes > most_shared) {
    return refuse(cudaErrorInvalidValue, "%s: %zu bytes of dynamic shared memory, %zu are allowed", text,
                  config.dynamicSmemBytes, most_shared);
  }
  if (config.numAttrs != 0) return refuse(cudaErrorNotSupported, "%s: launch attributes", text);
  return cudaSuccess;
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t* config, const char* text, const void* kernel, KernelCall* call) {
  std::size_t most_shared = kUsualDynamicShared;
  {
    const Held held(attributes_lock);
    const auto found = attributes().find(kernel);
    if (found != attributes().end()) most_shared = found->second.most_dynamic_shared;
  }
  cudaError_t code = check_shape(*config, text, most_shared);
  if (code == cudaSuccess) code = must_be_current(config->stream, text);
  if (code != cudaSuccess) {
    delete call;
    return code;
  }
  return enqueue(config->stream, new Launch(*config, text, call, config->stream->random.next()));
}

int meet_block(Site site, bool predicate) {
  if (barrier_left_out(site)) return predicate ? 1 : 0;
  return Block::of_this_thread().meet(site, predicate);
}

void meet_warp(std::uint32_t mask, Site site) {
  if (barrier_left_out(site)) return;
  Block::of_this_thread().meet_lanes(Meeting::warp, mask, 0, 0, site);
}

std::uint32_t vote_warp(std::uint32_t mask, bool predicate, Site site) {
  Block& block = Block::of_this_thread();
  return static_cast<std::uint32_t>(block.meet_lanes(Meeting::vote, mask, predicate ? 1 : 0, 0, site));
}

std::uint64_t exchange_warp(std::uint32_t mask, std::uint64_t value, unsigned source_lane, Site site) {
  return Block::of_this_thread().meet_lanes(Meeting::exchange, mask, value, source_lane, site);
}

unsigned lane() { return Block::of_this_thread().running().number % 32; }

void copy_later(void* shared, const void* global, std::size_t bytes, std::size_t zero_bytes) {
  CudaThread& thread = Block::of_this_thread().running();
  note_write(shared, bytes + zero_bytes);  // from now on: a compiler need not have made it visible
  thread.copies.push_back({shared, global, bytes, zero_bytes, thread.groups});
}

void commit_copies() { ++Block::of_this_thread().running().groups; }

void wait_copies(std::size_t groups_left, Site site) {
  if (barrier_left_out(site)) return;
  CudaThread& thread = Block::of_this_thread().running();
  const std::size_t arrived = thread.groups - std::min(groups_left, thread.groups);
  std::size_t i = 0;
  for (; i < thread.copies.size() && thread.copies[i].group < arrived; ++i) {
    const AsyncCopy& copy = thread.copies[i];
    std::memcpy(copy.shared, copy.global, copy.bytes);
    std::memset(static_cast<char*>(copy.shared) + copy.bytes, 0, copy.zero_bytes);
  }
  thread.copies.erase(thread.copies.begin(), thread.copies.begin() + static_cast<std::ptrdiff_t>(i));
}

void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

void trap(Site site) { fault("%s: trap at %s:%d", Block::of_this_thread().text(), site.file, site.line); }

}  // namespace zp::emulated

extern "C" cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  using namespace zp::emulated;
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;  // a hint
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) {
    return refuse(cudaErrorNotSupported, "cudaFuncSetAttribute: attribute %d", static_cast<int>(attribute));
  }
  if (value < 0 || static_cast<std::size_t>(value) > kMostDynamicShared) {
    return refuse(cudaErrorInvalidValue,
                  "cudaFuncSetAttribute: %d bytes of dynamic shared memory, %zu are there", value,
                  kMostDynamicShared);
  }
  const Held held(attributes_lock);
  attributes()[kernel].most_dynamic_shared = static_cast<std::size_t>(value);
  return cudaSuccess;
}
