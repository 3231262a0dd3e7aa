// The happens-before edges of CUDA, declared by hand to the thread sanitizer. The runtime itself is compiled
// without the sanitizer, so its own locks add none: what CUDA does not order is reported, whatever the
// schedule was.
#pragma once

#if ZP_EMULATED_EDGES
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void __tsan_read_range(void* address, unsigned long bytes);
void __tsan_write_range(void* address, unsigned long bytes);
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}
#endif

namespace zp::emulated {

#if ZP_EMULATED_EDGES

constexpr bool kEdges = true;
inline void release_edge(void* from) { __tsan_release(from); }
inline void acquire_edge(void* to) { __tsan_acquire(to); }

// Accesses to a program's memory by code that the sanitizer does not see.
inline void note_read(const void* address, unsigned long bytes) {
  __tsan_read_range(const_cast<void*>(address), bytes);
}
inline void note_write(void* address, unsigned long bytes) { __tsan_write_range(address, bytes); }

// A thread of the sanitizer without one of the system. Switching to it orders nothing.
inline void* current_fiber() { return __tsan_get_current_fiber(); }
inline void* create_fiber() { return __tsan_create_fiber(0); }
inline void destroy_fiber(void* fiber) { __tsan_destroy_fiber(fiber); }
inline void enter_fiber(void* fiber) { __tsan_switch_to_fiber(fiber, 1); }

#else

constexpr bool kEdges = false;
inline void release_edge(void*) {}
inline void acquire_edge(void*) {}
inline void note_read(const void*, unsigned long) {}
inline void note_write(void*, unsigned long) {}
inline void* current_fiber() { return nullptr; }
inline void* create_fiber() { return nullptr; }
inline void destroy_fiber(void*) {}
inline void enter_fiber(void*) {}

#endif

}  // namespace zp::emulated
