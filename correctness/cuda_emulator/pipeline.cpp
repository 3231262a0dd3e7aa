// The pipeline of pipeline.hpp: compute fills a bucket of gradients, communication takes it, the update
// consumes that.
#include "correctness/cuda_emulator/pipeline.hpp"

#include <ctime>

#include "correctness/cuda_emulator/checked.hpp"
#include "correctness/cuda_emulator/lab.hpp"

namespace zp::lab {

namespace {

constexpr long kLength = 2000;
constexpr std::size_t kBytes = kLength * sizeof(float);
constexpr int kSteps = 4;

void nap(void*) {
  const timespec time{0, 3000000};
  nanosleep(&time, nullptr);
}

struct Pipeline {
  explicit Pipeline(Bug bug) : bug(bug) {}

  bool is(Bug other) const { return bug == other; }

  void bring_input(int step) {
    if (step > 1 && !is(Bug::host_rewrites_input_before_it_was_copied)) must(cudaEventSynchronize(copied));
    for (long i = 0; i < kLength; ++i) host_input[i] = static_cast<float>(step);
    must(cudaMemcpyAsync(input, host_input, kBytes, cudaMemcpyHostToDevice, compute));
    must(cudaEventRecord(copied, compute));
  }

  void make_gradients(int step) {
    if (step > 1 && !is(Bug::gradient_is_refilled_too_early)) must(cudaStreamWaitEvent(compute, taken, 0));
    if (is(Bug::wait_is_issued_before_the_record)) must(cudaStreamWaitEvent(communication, made, 0));
    must(fill(gradient, 0, kLength, compute));
    if (is(Bug::event_is_recorded_before_the_kernel)) must(cudaEventRecord(made, compute));
    must(add_scaled(gradient, input, 2, kLength, compute));
    if (!is(Bug::event_is_recorded_before_the_kernel)) must(cudaEventRecord(made, compute));
  }

  void reduce(int step) {
    const bool forgets = is(Bug::reduction_waits_for_no_gradient) ||
                         is(Bug::wait_is_issued_before_the_record) ||
                         is(Bug::late_reduction_hides_a_missing_wait);
    if (is(Bug::late_reduction_hides_a_missing_wait)) must(cudaLaunchHostFunc(communication, nap, nullptr));
    if (!forgets) must(cudaStreamWaitEvent(communication, made, 0));
    if (step > 1 && !is(Bug::received_is_overwritten_before_its_use)) {
      must(cudaStreamWaitEvent(communication, consumed, 0));
    }
    must(cudaMemcpyAsync(received, gradient, kBytes, cudaMemcpyDeviceToDevice, communication));
    must(cudaEventRecord(taken, communication));
  }

  void update_weights() {
    if (!is(Bug::update_waits_for_no_reduction)) must(cudaStreamWaitEvent(update, taken, 0));
    must(add_scaled(weights, received, 1, kLength, update));
    must(cudaEventRecord(consumed, update));
  }

  int run() {
    must(fill(weights, 0, kLength, update));
    float expected = 0;
    for (int step = 1; step <= kSteps; ++step) {
      bring_input(step);
      make_gradients(step);
      reduce(step);
      update_weights();
      expected += 2 * static_cast<float>(step);
    }
    must(cudaMemcpyAsync(host_result, weights, kBytes, cudaMemcpyDeviceToHost, update));
    if (!is(Bug::host_reads_result_without_waiting)) update.wait();
    int wrong = 0;
    for (long i = 0; i < kLength; ++i) wrong += host_result[i] == expected ? 0 : 1;
    must(cudaDeviceSynchronize());
    return wrong;
  }

  const Bug bug;
  TestStream compute, communication, update;
  TestEvent made, taken, consumed, copied;
  OnDevice<float> weights{kLength}, gradient{kLength}, received{kLength}, input{kLength};
  OnHost<float> host_input{kLength}, host_result{kLength};
};

}  // namespace

int wrong_elements(Bug bug) { return Pipeline(bug).run(); }

}  // namespace zp::lab
