// One rank's rig for the transport tests, and which worlds each row of the table can have in this process.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "correctness/transport/plain.hpp"

namespace zp {

inline constexpr bool kLibraryWantsEqualSlices = false;
inline constexpr bool kEveryRing = true;

struct TestRig {
  TestRig(Endpoint& endpoint, const CollectiveOptions& options)
      : control(*endpoint.control),
        link(*endpoint.link),
        device(make_host_device(Fill::nan)),
        transport(options.algorithm == Algorithm::native
                      ? make_native(*endpoint.native, kernels, options)
                      : make_collectives(link, *device, kernels, options)) {}

  Control& control;
  plain::CountingLink link;
  std::unique_ptr<Device> device;
  plain::FoldOnly kernels;
  std::unique_ptr<Transport> transport;
};

inline CollectiveOptions options_of(Algorithm algorithm, int world, double timeout_s) {
  return {.algorithm = algorithm, .places = Places::in_rank_order(world), .timeout_s = timeout_s};
}

// Threads in a process of their own, MPI under its launcher.
inline std::vector<int> worlds_here(const TransportRow& row) {
  const int launched = launched_world();
  if (row.carried) return {};
  if (row.name == "mpi") return launched > 0 ? std::vector<int>{launched} : std::vector<int>{};
  return launched > 0 ? std::vector<int>{} : std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8};
}

struct RowAndWorld {
  const TransportRow* row;
  int world;
};

inline std::vector<RowAndWorld> rows_and_worlds(int smallest = 1, int largest = 8) {
  std::vector<RowAndWorld> cases;
  for (const TransportRow& row : transports()) {
    for (const int world : worlds_here(row)) {
      if (world >= smallest && world <= largest) cases.push_back({&row, world});
    }
  }
  return cases;
}

inline std::string name_of(const RowAndWorld& c) {
  return std::string(c.row->name) + "_w" + std::to_string(c.world);
}

}  // namespace zp
