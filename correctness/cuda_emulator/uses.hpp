// A program that is one use of CUDA, right or wrong: `program NAME [ARGUMENT]`, with the settings of the
// environment. Exit code 0: ended, values right; 1: values wrong; 2: no such name.
#pragma once

#include <cstdlib>
#include <span>
#include <string_view>

namespace zp::lab {

struct Use {
  std::string_view name;
  int (*run)(int argument);
};

inline int run_use(std::span<const Use> uses, int argc, char** argv) {
  for (const Use& use : uses) {
    if (argc > 1 && use.name == argv[1]) return use.run(argc > 2 ? std::atoi(argv[2]) : 0);
  }
  return 2;
}

}  // namespace zp::lab
