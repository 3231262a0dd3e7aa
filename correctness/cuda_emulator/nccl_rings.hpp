// Memory that the ranks of an emulated NCCL communicator share, be they threads or processes: a ring of bytes
// from each rank to each other one. Named by the communicator's unique id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "correctness/cuda_emulator/lock.hpp"

namespace zp::emulated {

constexpr std::size_t kRingBytes = std::size_t{1} << 16;

// One rank writes, one reads. Positions only grow.
struct Ring {
  std::atomic<std::uint64_t> written;
  std::atomic<std::uint64_t> consumed;
  alignas(64) unsigned char bytes[kRingBytes];

  std::size_t filled() const {
    return static_cast<std::size_t>(written.load(std::memory_order_acquire) -
                                    consumed.load(std::memory_order_acquire));
  }
  // As many of `length` bytes as fit, or are there; returns how many.
  std::size_t put(const void* from, std::size_t length);
  std::size_t get(void* to, std::size_t length);
};

struct Member {
  std::atomic<std::uint32_t> joined;
  std::atomic<std::uint32_t> left;
  std::atomic<std::int32_t> device, process;
  Word bell;  // rung for this rank when one of its rings changed
};

// What `world` ranks share. Ranks that are threads of one process share one mapping of it.
class Rings {
 public:
  // Joins as `rank`; what is wrong, or nothing.
  static std::string join(const std::string& name, int world, int rank, int device,
                          std::shared_ptr<Rings>& rings);
  // Whether all have joined; then the name is gone.
  bool complete();
  // The first rank before `rank` that has joined with the same device, or -1.
  int same_device(int rank);
  // Whether another rank that has joined is a thread of this rank's process.
  bool shares_process(int rank);
  void leave(int rank);
  void unlink();

  Rings(std::string name, int world);
  Rings(const Rings&) = delete;
  Rings& operator=(const Rings&) = delete;
  ~Rings();

  Ring& ring(int from, int to);
  Member& member(int rank);
  void wake(int rank);
  std::uint32_t heard(int rank) { return member(rank).bell.load(std::memory_order_acquire); }
  void listen(int rank, std::uint32_t heard, int most_us);

 private:
  std::string name_;
  int world_;
  std::size_t size_ = 0;
  unsigned char* memory_ = nullptr;
  bool linked_ = true;
};

}  // namespace zp::emulated
