// One line on a terminal that says how far a run is, gone at its end. Silent where standard error is no
// terminal, so that logs hold results only. Used by one thread.
#pragma once

#include <cstdio>
#include <string>

namespace zp {

class Progress {
 public:
  enum class Display { automatic, on, off };  // automatic: on where `stream` is a terminal

  explicit Progress(Display display = Display::automatic, std::FILE* stream = stderr);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  // Replaces the line; cut at 79 characters.
  void show(const std::string& text);
  void clear();

 private:
  std::FILE* stream_;
  bool on_;
  bool shown_ = false;
};

}  // namespace zp
