// Stack switching. See fiber.hpp.
#include "correctness/cuda_emulator/fiber.hpp"

#include <sys/mman.h>

#include <cstdint>

#include "correctness/cuda_emulator/fault.hpp"
#include "correctness/cuda_emulator/sanitized.hpp"

#if ZP_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// What the calling convention lets a function keep: the callee-saved registers, on the stack that is left.
extern "C" void zp_emulated_switch(void** save, void* load);
asm(R"(
.text
.globl zp_emulated_switch
.hidden zp_emulated_switch
.type zp_emulated_switch,@function
zp_emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size zp_emulated_switch, .-zp_emulated_switch
)");

namespace zp::emulated {

namespace {

constexpr std::size_t kPage = 4096;
#if ZP_ADDRESS_SANITIZER
constexpr std::size_t kStackBytes = 256 * 1024;
#else
constexpr std::size_t kStackBytes = 128 * 1024;
#endif
constexpr std::size_t kSavedRegisters = 6;

// Stacks begin at different places in their pages: else all of a block's would compete for the same lines of
// cache.
std::size_t colour_of(const char* bottom) {
  return reinterpret_cast<std::uintptr_t>(bottom) / (kStackBytes + kPage) % 61 * 192;
}

}  // namespace

void switch_stack(Place& from, Place& to) {
#if ZP_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.bytes);
#endif
  zp_emulated_switch(&from.stack_pointer, to.stack_pointer);
#if ZP_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

void leave_stack(Place& to) {
#if ZP_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(nullptr, to.bottom, to.bytes);
#endif
  void* nowhere = nullptr;
  zp_emulated_switch(&nowhere, to.stack_pointer);
  fault("a stack was entered after its end");
}

void entered_stack([[maybe_unused]] Place& from) {
#if ZP_ADDRESS_SANITIZER
  const void* bottom = nullptr;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &from.bytes);
  from.bottom = static_cast<char*>(const_cast<void*>(bottom));
#endif
}

namespace {

// What is left on a stack never returns, so that the address sanitizer still guards its frames.
void forget_frames([[maybe_unused]] char* bottom) {
#if ZP_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(bottom, kStackBytes);
#endif
}

char*& next_of(char* bottom) { return *reinterpret_cast<char**>(bottom); }

}  // namespace

Stacks::~Stacks() {
  while (free_ != nullptr) {
    char* const bottom = free_;
    free_ = next_of(bottom);
    forget_frames(bottom);
    munmap(bottom - kPage, kStackBytes + kPage);
  }
}

void Stacks::give_back(const Place& place) {
  next_of(place.bottom) = free_;
  free_ = place.bottom;
}

Place Stacks::take(void (*body)()) {
  Place place;
  place.bytes = kStackBytes;
  if (free_ != nullptr) {
    place.bottom = free_;
    free_ = next_of(free_);
  } else {
    void* const memory = mmap(nullptr, kStackBytes + kPage, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) fault("no memory for the stack of another CUDA thread");
    mprotect(memory, kPage, PROT_NONE);
    place.bottom = static_cast<char*>(memory) + kPage;
  }
  return anew(place, body);
}

Place Stacks::anew(const Place& place, void (*body)()) {
  forget_frames(place.bottom);
  // From the top: a word that keeps the stack aligned, where the first switch returns to, the registers it
  // restores.
  auto** top = reinterpret_cast<void**>(place.bottom + kStackBytes - colour_of(place.bottom));
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(body);
  for (std::size_t i = 0; i < kSavedRegisters; ++i) *--top = nullptr;
  Place fresh = place;
  fresh.stack_pointer = top;
  return fresh;
}

}  // namespace zp::emulated
