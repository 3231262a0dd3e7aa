// Runs a program under the emulated CUDA runtime, in a seed and a schedule, and keeps how it ended.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace zp {

constexpr int kRaceExit = 66;  // of the thread sanitizer, at the first race

struct Ended {
  int code = -1;
  std::string text;  // its standard output
};

struct Setting {
  std::string schedule;
  int seed = 1;
  // Of a device. With less than 4 the grain of its pools, which is of no interest here, is not found, and
  // with less than 34 after a shorter search: it would take most of a program's time.
  int memory_mb = 1024;
  std::string more = "";  // NAME=value
};

inline Ended run_ordered(const std::string& program, const std::string& arguments, const Setting& setting) {
  const std::string command =
      "TSAN_OPTIONS=halt_on_error=1:atexit_sleep_ms=0:symbolize=0:exitcode=" + std::to_string(kRaceExit) +
      " ZP_EMULATED_CUDA_SEED=" + std::to_string(setting.seed) +
      " ZP_EMULATED_CUDA_SCHEDULE=" + setting.schedule +
      " ZP_EMULATED_CUDA_MEMORY_MB=" + std::to_string(setting.memory_mb) + " " + setting.more + " " +
      program + " " + arguments + " 2>/dev/null";
  Ended ended;
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return ended;
  std::array<char, 4096> part{};
  while (const std::size_t length = std::fread(part.data(), 1, part.size(), pipe))
    ended.text.append(part.data(), length);
  const int status = pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

}  // namespace zp
