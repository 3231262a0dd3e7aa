// Buffers and views: waiting for transfers, and giving memory back.
#include "harness/device/device.hpp"

namespace zp {

void Storage::settle_writers() {
  // Moved out first: wait() may touch this buffer again.
  const auto pending = std::move(writers);
  writers.clear();
  for (const auto& writer : pending) writer->wait();
}

void Storage::settle() {
  settle_writers();
  const auto pending = std::move(readers);
  readers.clear();
  for (const auto& reader : pending) reader->wait();
}

void* View::raw() const {
  if (storage_ == nullptr || storage_->data == nullptr) return nullptr;
  return static_cast<char*>(storage_->data) + (range_.begin * size_of(storage_->type)).n;
}

const void* View::read_bytes(Type type) const {
  if (empty()) return nullptr;
  require(type == storage_->type, "a view is read as the type it holds");
  storage_->settle_writers();
  return raw();
}

void* View::write_bytes(Type type) const {
  if (empty()) return nullptr;
  require(type == storage_->type, "a view is written as the type it holds");
  storage_->settle();
  return raw();
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    drop();
    storage_ = std::move(other.storage_);
  }
  return *this;
}

Buffer::~Buffer() { drop(); }

void Buffer::drop() {
  if (!storage_) return;
  // While an error unwinds, transfers may never complete; their owner has abandoned them.
  try {
    storage_->settle();
  } catch (const Error&) {
    storage_->writers.clear();
  }
  storage_->owner->release(storage_->category, storage_->data, storage_->bytes());
  storage_.reset();
}

Buffer Device::acquire(Category category, Type type, Elements length) {
  require(length.n >= 0, "a buffer has no negative length");
  auto storage = std::make_unique<Storage>();
  storage->owner = this;
  storage->category = category;
  storage->type = type;
  storage->length = length;
  storage->data = allocate(category, storage->bytes());
  return Buffer(std::move(storage));
}

}  // namespace zp
