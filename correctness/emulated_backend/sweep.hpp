// What programs have in common whose waits are left out one after another:
//   PROGRAM                          lists its uses, a line each
//   PROGRAM USE                      runs one
//   PROGRAM USE needed               prints which of its waits, numbered from 1, the order of things needs,
//                                    and of how many
//   PROGRAM USE without NUMBER…      leaves some out
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "correctness/cuda_emulator/waits.hpp"

namespace zp {

class Sweep {
 public:
  Sweep(int count, char** words) : use_(count > 1 ? words[1] : ""), how_(count > 2 ? words[2] : "") {
    for (int i = 3; i < count; ++i) left_out_.push_back(std::atoi(words[i]));
  }
  const std::string& use() const { return use_; }
  const std::string& how() const { return how_; }

  bool leaves_out() const { return how_ == "without"; }

  // Of this thread, from here on.
  void watch() const {
    if (is_watched()) emulated::watch_waits(left_out_.data(), static_cast<int>(left_out_.size()));
  }
  void watch_no_more() const {
    if (is_watched()) emulated::watch_no_more();
  }
  void print_needed() const {
    if (how_ != "needed") return;
    const int count = emulated::waits_asked_for();
    for (int wait = 1; wait <= count; ++wait) {
      if (emulated::is_needed(wait)) std::printf("%d ", wait);
    }
    std::printf("of %d\n", count);
  }

 private:
  bool is_watched() const { return how_ == "needed" || leaves_out(); }

  std::string use_, how_;
  std::vector<int> left_out_;
};

}  // namespace zp
