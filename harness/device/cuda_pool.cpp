// Pools, and in which grains they count.
#include "harness/device/cuda_pool.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <mutex>

#include "harness/device/cuda_check.hpp"
#include "harness/device/cuda_waits.hpp"

namespace zp {
namespace {

// Lengths that show whether one grain explains what buffers take: they lie below and above what pools take
// from a device at once, and are multiples of no grain.
constexpr std::array kProbes{Bytes{1}, Bytes{(3 << 20) + 1}, Bytes{(33 << 20) + 1}};

cudaMemPool_t make_pool(int index) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = index;
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &properties));
  return pool;
}

Bytes number(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  uint64_t bytes = 0;
  check(cudaMemPoolGetAttribute(pool, attribute, &bytes));
  return {static_cast<int64_t>(bytes)};
}

void begin_peak_of(cudaMemPool_t pool) {
  uint64_t nothing = 0;  // CUDA sets it to what is in use
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &nothing));
}

// What a buffer of `bytes` takes of the pool; 0 where there is no such memory. Asked as a device's numbers
// are, without a call of CUDA's that waits.
Bytes taken_by(Bytes bytes, cudaMemPool_t pool, cudaStream_t stream, Waits& waits) {
  void* data = nullptr;
  const cudaError_t result = cudaMallocFromPoolAsync(&data, static_cast<size_t>(bytes.n), pool, stream);
  if (result == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    return {};
  }
  check(result);
  const Bytes taken = number(pool, cudaMemPoolAttrUsedMemCurrent);
  check(cudaFreeAsync(data, stream));
  waits.wait([stream] { return cudaStreamQuery(stream); });
  return taken;
}

// Whether the pool counts at once what was given back, and begins a peak anew: no number of it can be
// compared where it does not.
bool counts_at_once(cudaMemPool_t pool) {
  begin_peak_of(pool);
  return number(pool, cudaMemPoolAttrUsedMemCurrent).n == 0 &&
         number(pool, cudaMemPoolAttrUsedMemHigh).n == 0;
}

// Of a pool that is made for this, so that no other's peaks know of it. 0: there is none.
Bytes found_grain(int index, Waits& waits) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaMemPool_t pool = make_pool(index);
  Bytes grain = taken_by(kProbes.front(), pool, stream, waits);
  for (const Bytes probe : kProbes) {
    if (grain.n > 0 && taken_by(probe, pool, stream, waits) != whole_grains(probe, grain)) grain = {};
    if (!counts_at_once(pool)) grain = {};
  }
  check(cudaMemPoolDestroy(pool));
  check(cudaStreamDestroy(stream));
  return grain;
}

// CUDA does not say in which grains a pool counts: it is asked, once a process and GPU.
Bytes grain_of_pools(int index, Waits& waits) {
  static std::mutex mutex;
  static std::map<int, Bytes> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(index);
  return found != known.end() ? found->second : known[index] = found_grain(index, waits);
}

}  // namespace

CudaPool::CudaPool(int index, Waits& waits) : pool_(make_pool(index)), grain_(grain_of_pools(index, waits)) {
  uint64_t everything = UINT64_MAX;
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &everything));
}

DeviceMemory CudaPool::memory() const {
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  return {.grain = grain_,
          .used = number(pool_, cudaMemPoolAttrUsedMemCurrent),
          .used_most = number(pool_, cudaMemPoolAttrUsedMemHigh),
          .reserved = number(pool_, cudaMemPoolAttrReservedMemCurrent),
          .reserved_most = number(pool_, cudaMemPoolAttrReservedMemHigh),
          .free = {static_cast<int64_t>(free)},
          .total = {static_cast<int64_t>(total)},
          .pinned = {}};
}

void CudaPool::begin_peak() { begin_peak_of(pool_); }

}  // namespace zp
