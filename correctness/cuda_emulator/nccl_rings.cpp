// Shared rings. See nccl_rings.hpp.
#include "correctness/cuda_emulator/nccl_rings.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <map>

#include "correctness/cuda_emulator/edges.hpp"
#include "correctness/cuda_emulator/fault.hpp"

namespace zp::emulated {

namespace {

struct Header {
  std::atomic<std::int32_t> world;  // 0 until the first rank joined
};

constexpr std::size_t kHeaderBytes = 4096;

struct Mapped {
  std::weak_ptr<Rings> rings;
};

// Joining is collective: what ranks that are threads did before, happened before what they do with the
// communicator.
class InOrder {
 public:
  explicit InOrder(Spin& spin) : held_(spin), spin_(spin) { acquire_edge(&spin_); }
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;
  ~InOrder() { release_edge(&spin_); }

 private:
  Held held_;
  Spin& spin_;
};

Spin mapped_lock;

std::map<std::string, Mapped>& mapped() {
  static auto* const all = new std::map<std::string, Mapped>;
  return *all;
}

// Not memcpy, which the thread sanitizer watches: it would take a ring for memory that ranks race for.
void move_bytes(void* to, const void* from, std::size_t length) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
}

std::size_t size_for(int world) {
  const auto ranks = static_cast<std::size_t>(world);
  return kHeaderBytes + ranks * ranks * sizeof(Ring);
}

}  // namespace

std::size_t Ring::put(const void* from, std::size_t length) {
  const std::uint64_t begin = written.load(std::memory_order_relaxed);
  const std::size_t fits = std::min(length, kRingBytes - filled());
  if (fits == 0) return 0;
  const std::size_t at = begin % kRingBytes;
  const std::size_t first = std::min(fits, kRingBytes - at);
  note_read(from, fits);
  move_bytes(bytes + at, from, first);
  move_bytes(bytes, static_cast<const unsigned char*>(from) + first, fits - first);
  release_edge(&written);
  written.store(begin + fits, std::memory_order_release);
  return fits;
}

std::size_t Ring::get(void* to, std::size_t length) {
  const std::uint64_t begin = consumed.load(std::memory_order_relaxed);
  const std::size_t there = std::min(length, filled());
  if (there == 0) return 0;
  acquire_edge(&written);
  const std::size_t at = begin % kRingBytes;
  const std::size_t first = std::min(there, kRingBytes - at);
  note_write(to, there);
  move_bytes(to, bytes + at, first);
  move_bytes(static_cast<unsigned char*>(to) + first, bytes, there - first);
  consumed.store(begin + there, std::memory_order_release);
  return there;
}

Rings::Rings(std::string name, int world) : name_(std::move(name)), world_(world), size_(size_for(world)) {
  const int file = shm_open(name_.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size_)) != 0)
    fault("no shared memory for %s", name_.c_str());
  void* const memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) fault("no shared memory for %s", name_.c_str());
  memory_ = static_cast<unsigned char*>(memory);  // zero: nobody has joined, every ring is empty
}

Rings::~Rings() {
  munmap(memory_, size_);
  unlink();
}

void Rings::unlink() {
  if (linked_) shm_unlink(name_.c_str());
  linked_ = false;
}

std::string Rings::join(const std::string& name, int world, int rank, int device,
                        std::shared_ptr<Rings>& rings) {
  const InOrder order(mapped_lock);
  Mapped& mapping = mapped()[name];
  rings = mapping.rings.lock();
  if (rings == nullptr) {
    rings = std::make_shared<Rings>(name, world);
    mapping.rings = rings;
  }
  std::int32_t agreed = 0;
  auto& header = *reinterpret_cast<Header*>(rings->memory_);
  if (!header.world.compare_exchange_strong(agreed, world) && agreed != world) {
    return "ranks disagree on how many they are: " + std::to_string(agreed) + " and " + std::to_string(world);
  }
  Member& member = rings->member(rank);
  member.device.store(device);
  member.process.store(getpid());
  if (member.joined.exchange(1) != 0) return "rank " + std::to_string(rank) + " joined twice";
  for (int other = 0; other < world; ++other) rings->wake(other);
  return "";
}

bool Rings::complete() {
  for (int rank = 0; rank < world_; ++rank) {
    if (member(rank).joined.load() == 0) return false;
  }
  unlink();
  return true;
}

bool Rings::shares_process(int rank) {
  for (int other = 0; other < world_; ++other) {
    if (other != rank && member(other).process.load() == member(rank).process.load()) return true;
  }
  return false;
}

int Rings::same_device(int rank) {
  for (int other = 0; other < world_; ++other) {
    if (other != rank && member(other).device.load() == member(rank).device.load()) return other;
  }
  return -1;
}

void Rings::leave(int rank) { member(rank).left.store(1); }

Ring& Rings::ring(int from, int to) {
  auto* const first = reinterpret_cast<Ring*>(memory_ + kHeaderBytes);
  return first[from * world_ + to];
}

Member& Rings::member(int rank) { return reinterpret_cast<Member*>(memory_ + 64)[rank]; }

// Futexes of all processes that map the memory, unlike those of lock.hpp.
void Rings::wake(int rank) {
  Word& bell = member(rank).bell;
  bell.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Rings::listen(int rank, std::uint32_t heard, int most_us) {
  const timespec most{most_us / 1000000, (most_us % 1000000) * 1000L};
  syscall(SYS_futex, &member(rank).bell, FUTEX_WAIT, heard, &most, nullptr, 0);
}

}  // namespace zp::emulated
