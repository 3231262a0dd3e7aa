// Do kernels over rows and elements of activations run at the speed of memory? One thread, shapes of the
// model `small` (4 sequences a micro-batch), each beside a copy of as many bytes.
#include "bench/kernel_rows.hpp"

int main(int argc, char** argv) {
  zp::bench::add_kernel_rows(zp::bench::Question::rows, zp::bench::parse(&argc, argv));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
