// MPI's own collectives as requests that are polled.
#include "harness/transport/mpi_native.hpp"

#include <climits>

namespace zp::transport {
namespace {

class CollectiveRequest final : public Request {
 public:
  CollectiveRequest(Job& job, Posted posted) : job_(job), posted_(std::move(posted)) {}
  ~CollectiveRequest() override {
    if (!ended_) job_.outlast(posted_);
  }
  bool done() override {
    if (!ended_) ended_ = posted_.test().state == Posted::State::complete;
    if (!ended_) job_.check_failure();
    return ended_;
  }

 private:
  Job& job_;
  Posted posted_;
  bool ended_ = false;
};

int whole_number(int64_t n) {
  require(n <= INT_MAX, "an MPI collective counts up to 2^31 - 1");
  return static_cast<int>(n);
}

std::vector<int> counts_of(const std::vector<Elements>& lengths, Bytes each) {
  std::vector<int> counts;
  for (const Elements& length : lengths) counts.push_back(whole_number((length * each).n));
  return counts;
}

class MpiNative final : public Native {
 public:
  explicit MpiNative(Job& job) : job_(job) {}
  int rank() const override { return job_.rank(); }
  int world() const override { return job_.world(); }

  std::unique_ptr<Request> reduce_scatter(const View& data, const std::vector<Elements>& lengths) override {
    return request(job_.collectives.reduce_scatter(data.raw(), counts_of(lengths, {1}), data.type()));
  }
  std::unique_ptr<Request> all_reduce(const View& data) override {
    return request(job_.collectives.all_reduce(data.raw(), whole_number(data.length().n), data.type()));
  }
  std::unique_ptr<Request> all_gather(const View& data, const std::vector<Elements>& lengths) override {
    return request(job_.collectives.all_gather(data.raw(), counts_of(lengths, size_of(data.type()))));
  }

 private:
  std::unique_ptr<Request> request(Posted posted) {
    return std::make_unique<CollectiveRequest>(job_, std::move(posted));
  }

  Job& job_;
};

}  // namespace

std::unique_ptr<Native> make_mpi_native(Job& job) { return std::make_unique<MpiNative>(job); }

}  // namespace zp::transport
