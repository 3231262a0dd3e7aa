// The host's backend, and the opening of the others' libraries.
#include "harness/trainer/backend.hpp"

#include <array>
#include <filesystem>

#include "harness/base/shared_library.hpp"
#include "harness/trainer/backend_library.hpp"

namespace zp {
namespace {

[[noreturn]] void refuse_carrier() {
  fail(Exit::unavailable, "NCCL carries messages between GPUs, and --device is cpu; take cuda or emulated");
}

class HostEngine final : public Engine {
 public:
  explicit HostEngine(Fill fill) : device_(make_host_device(fill)) {}
  Device& device() override { return *device_; }
  std::unique_ptr<kernels::Table> make_kernels(Device& device, const KernelNeeds& needs) override {
    return kernels::make_host_table(device, needs.host);
  }
  Stream* transport_stream() override { return nullptr; }
  std::unique_ptr<kernels::Table> make_transport_kernels(Device&) override { return nullptr; }
  std::unique_ptr<Link> make_link(Link&, Route) override { return nullptr; }
  std::unique_ptr<Carrier> make_carrier(Control&, double) override { refuse_carrier(); }
  void finish() override {}
  std::optional<DeviceMemory> memory() override { return std::nullopt; }
  void begin_peak() override {}
  std::vector<std::string> choices() const override { return {}; }

 private:
  std::unique_ptr<Device> device_;
};

class HostBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }
  std::string description() const override { return ""; }
  std::vector<DeviceFacts> devices() const override { return {}; }
  std::string versions() const override { return ""; }
  void ask_carrier(CarrierLog) const override {}
  std::string carrier_version() const override { refuse_carrier(); }
  std::vector<std::string> carrier_words() const override { return {}; }
  std::string carrier_log() const override { return ""; }
  std::unique_ptr<Engine> make_engine(int, Fill fill, double) const override {
    return std::make_unique<HostEngine>(fill);
  }
  Bytes workspace(const KernelNeeds& needs) const override { return kernels::host_workspace(needs.host); }
  std::string vendor() const override {
    fail(Exit::unavailable, "--math vendor: is for --device cuda and emulated; the host's kernels are ours");
  }
};

// Objects and errors that come of it need its code until the process ends.
const Backend& open(std::string_view name) {
  const std::string asker = "--device " + std::string(name);
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::string path = (here / ("libzeroproof_" + std::string(name) + ".so")).string();
  const SharedLibrary library(path, asker);
  BackendContract* contract = nullptr;
  BackendFunction* function = nullptr;
  library.find(kBackendContract, contract);
  library.find(kBackendFunction, function);
  if (std::string_view(contract()) != kBuild) {
    fail(Exit::unavailable,
         asker + ": " + path + " was built from another zeroproof (" + contract() + ", here " + kBuild + ")");
  }
  try {
    return *function();
  } catch (const Error& error) {
    throw Error(error.code(), asker + ": " + error.what());
  }
}

}  // namespace

const Backend& cpu_backend() {
  static const HostBackend backend;
  return backend;
}

const Backend& backend_named(std::string_view name) {
  if (name == "cpu") return cpu_backend();
  for (const std::string_view known : std::array<std::string_view, 2>{"cuda", "emulated"}) {
    if (name == known) return open(known);
  }
  fail(Exit::usage, "--device: '" + std::string(name) + "' is no device; there are cpu, cuda and emulated");
}

}  // namespace zp
