// The table of transports, and what is decided before any message is sent.
#include "harness/transport/transport.hpp"

#include <array>
#include <bit>
#include <cstdlib>

#include "harness/transport/rows.hpp"

namespace zp {
namespace {

void run_carried(int world, double timeout_s, const std::function<void(Endpoint&)>& body) {
  const auto run = launched_world() > 0 ? transport::run_mpi : transport::run_threads;
  run(world, timeout_s, body);
}

}  // namespace

Cuts Cuts::equal(int world, Elements slice) {
  Cuts cuts;
  for (int place = 0; place <= world; ++place) cuts.at.push_back(slice * place);
  return cuts;
}

Type wire_of(const ReduceScatter& call) {
  return call.fixed.image.storage() == nullptr ? call.whole.type() : Type::i64;
}

Type wire_of(const AllReduce& call) {
  const bool fixed = call.sums.storage() != nullptr || call.fixed.image.storage() != nullptr;
  return fixed ? Type::i64 : call.whole.type();
}

Algorithm default_algorithm(int world, Type wire) {
  const bool power_of_two = world > 0 && std::has_single_bit(static_cast<unsigned>(world));
  return power_of_two && (wire == Type::f32 || wire == Type::i64) ? Algorithm::halving : Algorithm::direct;
}

std::span<const TransportRow> transports() {
  static constexpr std::array kRows{
      TransportRow{.name = "threads", .run = transport::run_threads},
      TransportRow{.name = "mpi", .run = transport::run_mpi},
      TransportRow{.name = "nccl", .carried = true, .run = run_carried},
  };
  return kRows;
}

const TransportRow& transport_named(std::string_view name) {
  std::string known;
  for (const TransportRow& row : transports()) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  fail(Exit::usage, "--transport '" + std::string(name) + "': is unknown; there are " + known);
}

int launched_world() {
  const auto number = [](const char* name) {
    const char* text = std::getenv(name);
    return text == nullptr ? 0 : std::atoi(text);
  };
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    if (const int world = number(name); world > 0) return world;
  }
  if (const int tasks = number("SLURM_STEP_NUM_TASKS"); tasks > 1) return tasks;
  // A launcher that names ranks but no size: MPI itself says how many there are when it starts.
  return std::getenv("OMPI_COMM_WORLD_RANK") != nullptr || std::getenv("PMIX_RANK") != nullptr ? 1 : 0;
}

}  // namespace zp

namespace zp::transport {

Announcement announcement(int rank) {
  const std::string who = "rank " + std::to_string(rank) + ": ";
  try {
    throw;
  } catch (const Error& error) {
    return {error.code(), who + error.what()};
  } catch (const std::exception& error) {
    return {Exit::internal, who + error.what()};
  } catch (...) {
    return {Exit::internal, who + "an exception of unknown type"};
  }
}

}  // namespace zp::transport
