// Host memory, 64-byte aligned, zero or poisoned.
#include <cstdlib>
#include <cstring>
#include <string>

#include "harness/device/device.hpp"

namespace zp {
namespace {

constexpr size_t kAlignment = 64;
constexpr int kNanByte = 0xff;  // every fp32 and bf16 made of this byte is a NaN

class HostDevice final : public Device {
 public:
  explicit HostDevice(Fill fill) : fill_(fill) {}

  void* allocate(Category category, Bytes bytes) override {
    if (bytes.n == 0) return nullptr;
    const size_t padded = (static_cast<size_t>(bytes.n) + kAlignment - 1) / kAlignment * kAlignment;
    void* data = std::aligned_alloc(kAlignment, padded);
    if (data == nullptr) {
      fail(Exit::unavailable, "host memory: cannot allocate " + std::to_string(bytes.n) + " bytes for " +
                                  std::string(name_of(category)));
    }
    std::memset(data, fill_ == Fill::nan ? kNanByte : 0, padded);
    return data;
  }

  void release(Category, void* data, Bytes bytes) noexcept override {
    if (data == nullptr) return;
    if (fill_ == Fill::nan) std::memset(data, kNanByte, static_cast<size_t>(bytes.n));
    std::free(data);
  }

  FarMemory* far_memory() override { return nullptr; }

 private:
  Fill fill_;
};

}  // namespace

std::unique_ptr<Device> make_host_device(Fill fill) { return std::make_unique<HostDevice>(fill); }

}  // namespace zp
