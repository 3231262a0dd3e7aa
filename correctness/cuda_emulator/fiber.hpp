// Stacks on which a stream's thread runs CUDA threads, and switching between them: x86-64, System V.
#pragma once

#include <cstddef>

namespace zp::emulated {

// Where a stack was left, and its bounds, which the address sanitizer wants to know.
struct Place {
  void* stack_pointer = nullptr;
  char* bottom = nullptr;
  std::size_t bytes = 0;
  void* fake_stack = nullptr;
};

// Leaves the running stack at `from` and goes on at `to`. Returns when something switches to `from`.
void switch_stack(Place& from, Place& to);

// As the last thing that a stack does: nothing returns to it.
[[noreturn]] void leave_stack(Place& to);

// The first thing that the body of a new stack calls: `from` is what it was entered from.
void entered_stack(Place& from);

// Memory for stacks, kept for the thread's next ones and returned to the system when the thread ends. Below
// each lies a page that no stack may reach.
class Stacks {
 public:
  Stacks() = default;
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks();

  // A stack on which switch_stack() will call `body`, which must not return.
  Place take(void (*body)());
  // The same stack from its top again.
  static Place anew(const Place& place, void (*body)());
  void give_back(const Place& place);

 private:
  char* free_ = nullptr;  // the first one; in its lowest word lies the next
};

}  // namespace zp::emulated
