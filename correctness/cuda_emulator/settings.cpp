// Settings from the environment, and counts. See settings.hpp.
#include "correctness/cuda_emulator/settings.hpp"

#include <cstdlib>
#include <cstring>

#include "correctness/cuda_emulator/arena.hpp"
#include "correctness/cuda_emulator/fault.hpp"
#include "correctness/cuda_emulator/schedule.hpp"

namespace zp::emulated {

namespace {

constexpr int kMostDevices = 64;
constexpr double kPatience_s = 20;

std::uint64_t number(const char* name, std::uint64_t usual) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return usual;
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0') fault("%s=%s is no number", name, text);
  return value;
}

Settings checked(const Settings& settings) {
  if (settings.devices < 0 || settings.devices > kMostDevices) {
    fault("%d devices: 0 to %d can be emulated", settings.devices, kMostDevices);
  }
  return settings;
}

NcclFault fault_of_environment() {
  const char* const text = std::getenv("ZP_EMULATED_CUDA_NCCL_FAULT");
  if (text == nullptr) return NcclFault::none;
  if (std::strcmp(text, "error") == 0) return NcclFault::error;
  if (std::strcmp(text, "stall") == 0) return NcclFault::stall;
  if (std::strcmp(text, "stop") == 0) return NcclFault::stop;
  fault("ZP_EMULATED_CUDA_NCCL_FAULT=%s is none of error, stall and stop", text);
}

Settings from_environment() {
  Settings from;
  const char* const schedule = std::getenv("ZP_EMULATED_CUDA_SCHEDULE");
  if (schedule != nullptr && std::strcmp(schedule, "serial") == 0) {
    from.schedule = Schedule::serial;
  } else if (schedule != nullptr && std::strcmp(schedule, "free") != 0) {
    fault("ZP_EMULATED_CUDA_SCHEDULE=%s is neither free nor serial", schedule);
  }
  from.seed = number("ZP_EMULATED_CUDA_SEED", from.seed);
  from.devices =
      static_cast<int>(number("ZP_EMULATED_CUDA_DEVICES", static_cast<std::uint64_t>(from.devices)));
  from.capability =
      static_cast<int>(number("ZP_EMULATED_CUDA_CAPABILITY", static_cast<std::uint64_t>(from.capability)));
  from.driver = static_cast<int>(number("ZP_EMULATED_CUDA_DRIVER", 0));
  from.memory_bytes = number("ZP_EMULATED_CUDA_MEMORY_MB", from.memory_bytes >> 20U) << 20U;
  from.delay_us = static_cast<int>(number("ZP_EMULATED_CUDA_DELAY_US", 0));
  from.deadline_s =
      static_cast<int>(number("ZP_EMULATED_CUDA_DEADLINE_S", static_cast<std::uint64_t>(from.deadline_s)));
  from.race_check = static_cast<int>(number("ZP_EMULATED_CUDA_RACE_CHECK", 0));
  from.nccl_fault = fault_of_environment();
  from.nccl_fault_rank = static_cast<int>(number("ZP_EMULATED_CUDA_NCCL_FAULT_RANK", 0));
  from.nccl_fault_at = static_cast<int>(number("ZP_EMULATED_CUDA_NCCL_FAULT_AT", 0));
  from.stall_device = static_cast<int>(number("ZP_EMULATED_CUDA_STALL_DEVICE", 0));
  from.stall_at = static_cast<int>(number("ZP_EMULATED_CUDA_STALL_AT", static_cast<std::uint64_t>(-1)));
  from.nccl_mismatch = static_cast<int>(number("ZP_EMULATED_CUDA_NCCL_MISMATCH", 1));
  from.nccl_version = static_cast<int>(number("ZP_EMULATED_CUDA_NCCL_VERSION", 0));
  from.stream_waits = static_cast<int>(number("ZP_EMULATED_CUDA_STREAM_WAITS", 1));
  from.guard = static_cast<int>(number("ZP_EMULATED_CUDA_GUARD", 1));
  return checked(from);
}

// Never destroyed: streams may outlive main.
Settings& current() {
  static Settings* const settings = new Settings(from_environment());
  return *settings;
}

std::uint64_t operations_before = 0;
std::uint64_t takeovers_before = 0;

}  // namespace

const Settings& settings() { return current(); }

void configure(const Settings& settings) {
  const double since = now_s();
  while (living_streams() > 0) {
    if (current().schedule == Schedule::serial) Domain::of_this_thread().step();
    sleep_us(100);
    if (now_s() - since > kPatience_s)
      fault("settings were changed while %d streams are alive", living_streams());
  }
  current() = checked(settings);
  { const DeviceAccess open; }  // the guard closes it, where there is one
  Domain::of_this_thread().begin_anew();
  operations_before = finished_operations();
  takeovers_before = taken_over();
}

Counts counts() { return {finished_operations() - operations_before, taken_over() - takeovers_before}; }

}  // namespace zp::emulated
