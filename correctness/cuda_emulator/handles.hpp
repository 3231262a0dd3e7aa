// The objects behind CUDA's opaque handles that are alive, so that a handle which was destroyed, or never
// made, is refused instead of followed.
#pragma once

#include <map>

#include "correctness/cuda_emulator/lock.hpp"

namespace zp::emulated {

template <class T>
class Handles {
 public:
  // Takes over one use of the object.
  T* add(T* object) {
    const Held held(spin_);
    objects_.emplace(object, Entry{object});
    return object;
  }

  Shared<T> find(T* handle) {
    const Held held(spin_);
    return objects_.contains(handle) ? Shared<T>::of(handle) : Shared<T>();
  }

  // Empty where there is no such object.
  Shared<T> take(T* handle) {
    const Held held(spin_);
    if (objects_.erase(handle) == 0) return {};
    return Shared<T>::adopt(handle);
  }

  template <class Visit>
  void each(Visit visit) {
    const Held held(spin_);
    for (const auto& [handle, entry] : objects_) visit(entry.object);
  }

 private:
  struct Entry {  // a type of the emulator's own, so that the map's code is as well
    T* object;
  };
  Spin spin_;
  std::map<T*, Entry> objects_;
};

// Never destroyed: threads of streams may outlive main.
template <class T>
Handles<T>& handles() {
  static Handles<T>* const all = new Handles<T>;
  return *all;
}

}  // namespace zp::emulated
