// Buffers and views: waiting for whoever uses them, on the host or on a stream, and giving memory back.
#include "harness/device/device.hpp"

#include <algorithm>
#include <cstring>

namespace zp {
namespace {

// Takes the last one out and waits for it: it may touch this buffer again, and may leave work behind.
void settle_last(Pendings& list) {
  const auto one = std::move(list.back());
  list.pop_back();
  one->wait();
}

// The same where the memory is about to be given back: behind work of a stream, for which nobody waits then.
void part_with_last(Pendings& list, FarMemory* far) {
  if (far == nullptr || list.back()->stream() == nullptr) return settle_last(list);
  const auto one = std::move(list.back());
  list.pop_back();
  far->give_back_after(*one);
}

// Where one throws, those that it did not come to stay registered.
void wait_for(Pendings& list) {
  while (!list.empty()) settle_last(list);
}

void run_after(Pendings& list, Stream& stream) {
  const auto of_no_stream = [](const auto& one) { return one->stream() == nullptr; };
  for (auto at = std::ranges::find_if(list, of_no_stream); at != list.end();
       at = std::ranges::find_if(list, of_no_stream)) {
    const auto transfer = *at;
    list.erase(at);
    transfer->wait();
  }
  for (const auto& one : list) {
    if (one->stream() != &stream) stream.run_after(*one);
  }
}

}  // namespace

void Storage::settle_writers(Stream* stream) {
  if (stream == nullptr) return wait_for(writers);
  run_after(writers, *stream);
}

void Storage::settle(Stream* stream) {
  settle_writers(stream);
  if (stream == nullptr) return wait_for(readers);
  run_after(readers, *stream);
}

void Storage::read_by(const std::shared_ptr<Pending>& work) {
  std::erase_if(readers, [&](const auto& reader) { return reader->stream() == work->stream(); });
  readers.push_back(work);
}

void Storage::written_by(const std::shared_ptr<Pending>& work) {
  readers.clear();
  writers.assign(1, work);
}

void Storage::also_written_by(const std::shared_ptr<Pending>& work) {
  std::erase_if(writers, [&](const auto& writer) { return writer->stream() == work->stream(); });
  writers.push_back(work);
}

void* View::raw() const {
  if (storage_ == nullptr || storage_->data == nullptr) return nullptr;
  return static_cast<char*>(storage_->data) + (range_.begin * size_of(storage_->type)).n;
}

const void* View::read_bytes(Type type) const {
  if (empty()) return nullptr;
  require(type == storage_->type, "a view is read as the type it holds");
  require(storage_->far == nullptr, "the host reads memory of its own");
  storage_->settle_writers();
  return raw();
}

void* View::write_bytes(Type type) const {
  if (empty()) return nullptr;
  require(type == storage_->type, "a view is written as the type it holds");
  require(storage_->far == nullptr, "the host writes memory of its own");
  storage_->settle();
  return raw();
}

void copy(const View& from, const View& to, Stream* stream) {
  require(from.length() == to.length() && from.type() == to.type(), "a copy is as long as what it copies");
  if (from.empty()) return;
  if (stream != nullptr) return stream->copy(from, to);
  require(from.storage()->far == nullptr && to.storage()->far == nullptr,
          "the host copies memory of its own");
  std::memmove(to.raw(), from.raw(), static_cast<size_t>(from.bytes().n));
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
  // While an error unwinds, transfers may never complete; their owner has abandoned them. What follows the
  // first that failed is still waited for: it may be work of another stream.
  for (Pendings* list : {&storage_->writers, &storage_->readers}) {
    while (!list->empty()) {
      try {
        part_with_last(*list, storage_->far);
      } catch (const Error&) {
        continue;
      }
    }
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
  storage->far = far_memory();
  storage->data = allocate(category, storage->bytes());
  const auto readying = storage->far == nullptr ? nullptr : storage->far->readying();
  if (readying != nullptr) storage->written_by(readying);
  return Buffer(std::move(storage));
}

}  // namespace zp
