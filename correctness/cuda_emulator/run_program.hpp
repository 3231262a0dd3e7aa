// Runs a program of uses (uses.hpp) and keeps what it said.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace zp::lab {

struct Outcome {
  int code = -1;
  std::string text;
  bool says(const std::string& words) const { return text.find(words) != std::string::npos; }
};

// `environment` as a shell takes it: NAME=value NAME=value. Uses of NCCL are a program of their own.
inline Outcome run_program(const std::string& arguments, const std::string& environment = "") {
  const std::string program = arguments.starts_with("nccl_") ? ZP_NCCL_PROGRAM : ZP_EMULATOR_PROGRAM;
  const std::string command = environment + " " + program + " " + arguments + " 2>&1";
  Outcome outcome;
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> part{};
  while (const std::size_t length = std::fread(part.data(), 1, part.size(), pipe)) {
    outcome.text.append(part.data(), length);
  }
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace zp::lab
