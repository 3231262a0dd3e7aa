// Host memory, 64-byte aligned, zero or poisoned.
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>

#include "harness/device/device.hpp"

namespace zp {
namespace {

constexpr size_t kAlignment = 64;
constexpr int kNanByte = 0xff;  // every fp32 and bf16 made of this byte is a NaN

// Memory that was given back, by its length, for the next buffer of that length. Gathered units, gradients
// and activations come and go in every step: from the system, each would cost a page fault for every 4 KiB.
class Spare {
 public:
  Spare() = default;
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;
  ~Spare() { drop(); }

  void* take(size_t length) {
    void*& first = first_[length];
    void* const data = first;
    if (data != nullptr) std::memcpy(&first, data, sizeof first);
    return data;
  }
  // Of a length that was asked for before.
  void keep(size_t length, void* data) noexcept {
    void*& first = first_.find(length)->second;
    std::memcpy(data, &first, sizeof first);
    first = data;
  }
  void drop() noexcept {
    for (auto& [length, first] : first_) {
      while (first != nullptr) {
        void* const data = first;
        std::memcpy(&first, data, sizeof first);
        std::free(data);
      }
    }
  }

 private:
  std::unordered_map<size_t, void*> first_;  // each block begins with the address of the next one
};

class HostDevice final : public Device {
 public:
  explicit HostDevice(Fill fill) : fill_(fill) {}

  void* allocate(Category category, Bytes bytes) override {
    if (bytes.n == 0) return nullptr;
    const size_t padded = padded_length(bytes);
    void* data = spare_.take(padded);
    if (data == nullptr) data = std::aligned_alloc(kAlignment, padded);
    if (data == nullptr) {
      spare_.drop();
      data = std::aligned_alloc(kAlignment, padded);
    }
    if (data == nullptr) {
      fail(Exit::unavailable, "host memory: cannot allocate " + std::to_string(bytes.n) + " bytes for " +
                                  std::string(name_of(category)));
    }
    std::memset(data, fill_ == Fill::nan ? kNanByte : 0, padded);
    return data;
  }

  void release(Category, void* data, Bytes bytes) noexcept override {
    if (data == nullptr) return;
    // Poisoned memory is given back at once, so that a sanitizer sees who still uses it.
    if (fill_ == Fill::nan) {
      std::memset(data, kNanByte, static_cast<size_t>(bytes.n));
      std::free(data);
    } else {
      spare_.keep(padded_length(bytes), data);
    }
  }

  FarMemory* far_memory() override { return nullptr; }

 private:
  static size_t padded_length(Bytes bytes) {
    return (static_cast<size_t>(bytes.n) + kAlignment - 1) / kAlignment * kAlignment;
  }

  Fill fill_;
  Spare spare_;
};

}  // namespace

std::unique_ptr<Device> make_host_device(Fill fill) { return std::make_unique<HostDevice>(fill); }

}  // namespace zp
