// Three streams as data-parallel training uses them, with every wait that one could forget.
#pragma once

namespace zp::lab {

// What is missing, or in the wrong place.
enum class Bug {
  none,
  reduction_waits_for_no_gradient,
  update_waits_for_no_reduction,
  gradient_is_refilled_too_early,
  host_rewrites_input_before_it_was_copied,
  host_reads_result_without_waiting,
  received_is_overwritten_before_its_use,
  event_is_recorded_before_the_kernel,
  wait_is_issued_before_the_record,
  late_reduction_hides_a_missing_wait,  // right values, by luck of time
};
constexpr int kBugs = 9;

// Runs a few steps and returns how many elements of the result are wrong.
int wrong_elements(Bug bug);

}  // namespace zp::lab
