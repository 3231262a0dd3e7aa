// The rule of exact sums, and the algorithms that a job can have.
#include "harness/suite/exact_sums.hpp"

#include <fmt/format.h>

#include <bit>

namespace zp {
namespace {

void check_sums_of_a_library(const Job& job) {
  if (job.training.fixed_point() || sums_are_exact(job)) return;
  if (job.model.architecture != Architecture::synthetic) {
    fail(Exit::usage,
         fmt::format("--algorithm native: adds in an order of its own, in which sums of model {} have other "
                     "bits; take --wire i64 (with fp32 gradients) or --model synthetic",
                     job.model.name));
  }
  const Type grads = job.training.recipe.grads;
  fail(Exit::usage,
       fmt::format("--algorithm native: adds in an order of its own, in which sums of {} gradients of the "
                   "synthetic model are exact up to {} micro-batches, not {}",
                   name_of(grads), most_exact_terms(grads), job.training.batching.micro_batches));
}

}  // namespace

bool sums_are_exact(const Job& job) {
  return job.model.architecture == Architecture::synthetic &&
         job.training.batching.micro_batches <= most_exact_terms(job.training.recipe.grads);
}

void check_algorithm(const Job& job, std::string_view transport) {
  if (job.algorithm == Algorithm::halving && !std::has_single_bit(static_cast<unsigned>(job.world))) {
    fail(Exit::unavailable,
         fmt::format("--algorithm halving needs a power of two of ranks, not {}; direct runs with "
                     "any number",
                     job.world));
  }
  if (job.algorithm != Algorithm::native) return;
  if (job.backend != &cpu_backend() && !job.carried) {
    fail(Exit::unavailable,
         fmt::format("--algorithm native: MPI's collectives add on the host, and --device is {}; "
                     "--transport nccl has NCCL's",
                     job.backend->name()));
  }
  if (transport != "mpi" && !job.carried) {
    fail(Exit::unavailable,
         fmt::format("--algorithm native: is of a message library, and transport {} has none; mpi has, under "
                     "a launcher, and nccl",
                     transport));
  }
  check_sums_of_a_library(job);
  if (job.training.schedule.bucket.n > 0)
    fail(Exit::usage, "--algorithm native: moves whole units; leave --bucket-mb out");
}

}  // namespace zp
