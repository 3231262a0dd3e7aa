// Memory, streams and events of one GPU. Memory comes from a pool, in the order of one stream, and is ready
// for every other stream when allocate() returns; or it is a buffer's of the same length that was given back,
// and a stream readies it behind what still uses it.
#include "harness/device/cuda_device.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "harness/device/cuda_check.hpp"
#include "harness/device/cuda_pool.hpp"
#include "harness/device/cuda_waits.hpp"
#include "harness/device/given_back.hpp"

namespace zp {

namespace {

constexpr int kNanByte = 0xff;  // every fp32 and bf16 made of this byte is a NaN
constexpr Bytes kStaging{1 << 20};

class EventMark final : public Mark {
 public:
  EventMark(std::shared_ptr<Waits> waits, const CudaStream& stream)
      : waits_(std::move(waits)), number_(waits_->work().events.take()), stream_(stream) {
    check(cudaEventRecord(event(), stream_.handle()));
  }
  ~EventMark() override { waits_->work().events.give_back(number_); }

  void wait() override {
    waits_->wait([this] { return cudaEventQuery(event()); });
  }
  bool done() override { return is_over(cudaEventQuery(event())); }
  const Stream* stream() const override { return &stream_; }
  cudaEvent_t event() const { return waits_->work().events[number_]; }

 private:
  std::shared_ptr<Waits> waits_;
  size_t number_;
  const CudaStream& stream_;
};

class PlainStream final : public CudaStream {
 public:
  explicit PlainStream(std::shared_ptr<Waits> waits) : waits_(std::move(waits)) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~PlainStream() override {
    if (ends()) static_cast<void>(cudaStreamDestroy(stream_));
  }

  cudaStream_t handle() const override { return stream_; }
  void finish() override {
    waits_->wait([this] { return cudaStreamQuery(stream_); });
  }
  // Whether what was put on it ends, at the latest when this returns.
  bool ends() noexcept {
    try {
      finish();
    } catch (const Error&) {
      // Whoever waited for its results was told.
    }
    return waits_->work().hung == nullptr;
  }
  std::shared_ptr<Mark> mark() override { return std::make_shared<EventMark>(waits_, *this); }
  void run_after(const Pending& pending) override {
    const auto* mark = dynamic_cast<const EventMark*>(&pending);
    require(mark != nullptr, "streams of one device wait for each other");
    check(cudaStreamWaitEvent(stream_, mark->event(), 0));
  }
  void copy(const View& from, const View& to) override {
    put(to.raw(), from.raw(), from.bytes(), cudaMemcpyDeviceToDevice);
  }
  void to_pinned(std::span<const std::byte> from, std::byte* to) override {
    put(to, from.data(), {std::ssize(from)}, cudaMemcpyDeviceToHost);
  }
  void from_pinned(const std::byte* from, std::span<std::byte> to) override {
    put(to.data(), from, {std::ssize(to)}, cudaMemcpyHostToDevice);
  }

 private:
  void put(void* to, const void* from, Bytes bytes, cudaMemcpyKind kind) {
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes.n), kind, stream_));
  }

  std::shared_ptr<Waits> waits_;
  cudaStream_t stream_ = nullptr;
};

class PooledDevice final : public CudaDevice, public FarMemory {
 public:
  PooledDevice(int index, Fill fill, double timeout_s)
      : index_(selected(index)),
        fill_(fill),
        work_(std::make_shared<CudaWork>(index, timeout_s)),
        waits_(std::make_shared<Waits>(work_)),
        pool_(index, *waits_),
        memory_(std::make_shared<Waits>(work_)),
        again_(waits_) {
    staging_ = pinned(kStaging);
  }
  ~PooledDevice() override {
    const bool over = again_.ends();
    if (over) give_to_pool();  // otherwise somebody may still use it
    if (memory_.ends() && over) static_cast<void>(cudaFreeHost(staging_));
  }

  void* allocate(Category category, Bytes bytes) override {
    check(later_);
    readying_ = nullptr;
    if (bytes.n == 0) return nullptr;
    const auto length = static_cast<size_t>(bytes.n);
    void* data = given_back_.take(bytes);
    if (data != nullptr) {
      check(cudaMemsetAsync(data, fill_byte(), length, again_.handle()));
      readying_ = again_.mark();
      return data;
    }
    settle();
    const cudaError_t result = cudaMallocFromPoolAsync(&data, length, pool_.handle(), memory_.handle());
    if (result == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      fail(Exit::unavailable, "GPU " + std::to_string(index_) + ": cannot allocate " +
                                  std::to_string(bytes.n) + " bytes for " + std::string(name_of(category)) +
                                  " (" + cudaGetErrorString(result) + ")");
    }
    check(result);
    check(cudaMemsetAsync(data, fill_byte(), length, memory_.handle()));
    memory_.finish();
    return data;
  }

  // Whoever used it has ended, or comes before what is put on `again_` now.
  void release(Category, void* data, Bytes bytes) noexcept override {
    if (data == nullptr) return;
    if (fill_ == Fill::nan)
      note(cudaMemsetAsync(data, kNanByte, static_cast<size_t>(bytes.n), again_.handle()));
    given_back_.add(data, bytes);
  }
  void give_back_after(Pending& work) override {
    const auto* mark = dynamic_cast<const EventMark*>(&work);
    if (mark == nullptr) return work.wait();  // no stream of CUDA's
    note(cudaStreamWaitEvent(again_.handle(), mark->event(), 0));
  }
  std::shared_ptr<Pending> readying() override { return std::exchange(readying_, nullptr); }

  FarMemory* far_memory() override { return this; }

  void to_host(const View& from, std::byte* to) override {
    over_staging(from, [&](std::span<std::byte> part, size_t at, size_t length) {
      memory_.to_pinned(part, staging_);
      memory_.finish();
      std::memcpy(to + at, staging_, length);
    });
  }
  void to_device(const std::byte* from, const View& to) override {
    over_staging(to, [&](std::span<std::byte> part, size_t at, size_t length) {
      std::memcpy(staging_, from + at, length);
      memory_.from_pinned(staging_, part);
      memory_.finish();
    });
  }
  std::byte* pin(Bytes bytes) override {
    std::byte* memory = pinned(bytes);
    pins_[memory] = bytes;
    return memory;
  }
  void unpin(std::byte* memory) noexcept override {
    // CUDA waits for the device first.
    if (work_->hung == nullptr) static_cast<void>(cudaFreeHost(memory));
    pins_.erase(memory);
  }

  std::unique_ptr<CudaStream> make_stream() override { return std::make_unique<PlainStream>(waits_); }
  DeviceMemory memory() override {
    settle();
    DeviceMemory memory = pool_.memory();
    for (const auto& [data, bytes] : pins_) memory.pinned += bytes;
    return memory;
  }
  void begin_peak() override {
    settle();
    pool_.begin_peak();
  }
  void set_lookout(Lookout* lookout) override { waits_->set_lookout(lookout); }
  void spoil(const Error& reason) override { waits_->spoil(reason); }

 private:
  static int selected(int index) {
    check(cudaSetDevice(index));
    return index;
  }

  static std::byte* pinned(Bytes bytes) {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, static_cast<size_t>(bytes.n)));
    return static_cast<std::byte*>(memory);
  }

  // Memory given back has gone back to the pool, so that what the pool has in use depends on no clock.
  void settle() {
    if (given_back_.empty()) return;
    again_.finish();
    give_to_pool();
    memory_.finish();
  }
  void give_to_pool() {
    given_back_.empty_into([this](void* data) { note(cudaFreeAsync(data, memory_.handle())); });
  }
  int fill_byte() const { return fill_ == Fill::nan ? kNanByte : 0; }

  // What gives memory back cannot throw; the next allocation does.
  void note(cudaError_t result) {
    if (later_ == cudaSuccess) later_ = result;
  }

  // use(bytes of the view that fit the staging memory, where they begin, how many)
  template <class Use>
  static void over_staging(const View& view, const Use& use) {
    const std::span<std::byte> all(static_cast<std::byte*>(view.raw()), static_cast<size_t>(view.bytes().n));
    constexpr auto kMost = static_cast<size_t>(kStaging.n);
    for (size_t at = 0; at < all.size(); at += kMost) {
      const size_t length = std::min(kMost, all.size() - at);
      use(all.subspan(at, length), at, length);
    }
  }

  int index_;
  Fill fill_;
  std::shared_ptr<CudaWork> work_;
  std::shared_ptr<Waits> waits_;
  CudaPool pool_;
  PlainStream memory_;  // allocations, fills, and what the host reads and writes: never waits for another
  PlainStream again_;   // behind whoever used memory that was given back
  GivenBack given_back_;
  std::shared_ptr<Pending> readying_;
  std::byte* staging_ = nullptr;
  std::map<std::byte*, Bytes> pins_;  // all others
  cudaError_t later_ = cudaSuccess;
};

[[noreturn]] void refuse(cudaError_t result) {
  static_cast<void>(cudaGetLastError());
  fail(Exit::unavailable,
       std::string("no GPU can be used: ") + cudaGetErrorName(result) + ": " + cudaGetErrorString(result));
}

// 0 where CUDA does not say.
int told(cudaDeviceAttr attribute, int index) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, attribute, index) == cudaSuccess) return value;
  static_cast<void>(cudaGetLastError());
  return 0;
}

DeviceLimits limits_of(int index) {
  return {.processors = told(cudaDevAttrMultiProcessorCount, index),
          .clock_khz = told(cudaDevAttrClockRate, index),
          .memory_clock_khz = told(cudaDevAttrMemoryClockRate, index),
          .memory_bus_bits = told(cudaDevAttrGlobalMemoryBusWidth, index),
          .l2 = {told(cudaDevAttrL2CacheSize, index)},
          .shared_of_block = {told(cudaDevAttrMaxSharedMemoryPerBlockOptin, index)}};
}

PeerAccess access_between(int from, int to) {
  PeerAccess access;
  int there = 0;
  if (from == to) return access;
  if (cudaDeviceGetP2PAttribute(&there, cudaDevP2PAttrAccessSupported, from, to) != cudaSuccess ||
      cudaDeviceGetP2PAttribute(&access.order, cudaDevP2PAttrPerformanceRank, from, to) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return {};
  }
  access.there = there != 0;
  return access;
}

std::string text_of(const cudaUUID_t& uuid) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : uuid.bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

CudaGpu gpu_of(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index));
  std::array<char, 32> pci{};
  check(cudaDeviceGetPCIBusId(pci.data(), static_cast<int>(pci.size()), index));
  return {.index = index,
          .name = properties.name,
          .pci = pci.data(),
          .uuid = text_of(properties.uuid),
          .memory = {static_cast<int64_t>(properties.totalGlobalMem)},
          .major = properties.major,
          .minor = properties.minor,
          .limits = limits_of(index),
          .peers = {}};
}

// The first driver that takes kernels with more than 4 KiB of parameters (kernels/cuda/fold.cu), as CUDA
// numbers it.
constexpr int kLeastDriver = 12010;

void require_driver(int driver) {
  if (driver >= kLeastDriver) return;
  fail(Exit::unavailable, "no GPU can be used: the driver is of CUDA " + std::to_string(driver / 1000) + "." +
                              std::to_string(driver % 1000 / 10) + ", and kernels need one of 12.1 or later");
}

// The first of the targets that kernels are compiled for (ZP_CUDA_TARGETS).
constexpr int kLeastMajor = 8;

void require_capability(const CudaGpu& gpu) {
  if (gpu.major >= kLeastMajor) return;
  fail(Exit::unavailable, "GPU " + std::to_string(gpu.index) + ", " + gpu.name + ", has compute capability " +
                              std::to_string(gpu.major) + "." + std::to_string(gpu.minor) +
                              ", and kernels need " + std::to_string(kLeastMajor) +
                              ".0 or later; CUDA_VISIBLE_DEVICES selects other GPUs, where there are any");
}

}  // namespace

std::unique_ptr<CudaDevice> make_cuda_device(int index, Fill fill, double timeout_s) {
  return std::make_unique<PooledDevice>(index, fill, timeout_s);
}

CudaHere find_gpus() {
  CudaHere here;
  int count = 0;  // left alone where there is no driver
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess) refuse(result);
  if (count == 0) refuse(cudaErrorNoDevice);
  check(cudaRuntimeGetVersion(&here.runtime));
  check(cudaDriverGetVersion(&here.driver));
  require_driver(here.driver);
  for (int index = 0; index < count; ++index) {
    CudaGpu& gpu = here.gpus.emplace_back(gpu_of(index));
    require_capability(gpu);
    for (int other = 0; other < count; ++other) gpu.peers.push_back(access_between(index, other));
  }
  return here;
}

}  // namespace zp
