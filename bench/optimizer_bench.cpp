// Do the optimizer, casts, folds, norms and hashes run at the speed of memory? One thread, 4 Mi elements of a
// state, each beside a copy of as many bytes.
#include "bench/kernel_rows.hpp"

int main(int argc, char** argv) {
  zp::bench::add_kernel_rows(zp::bench::Question::states, zp::bench::parse(&argc, argv));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
