// One rank's rig for one stage, and the only step loop. The rig wraps every device, link, transport and
// kernel table in a metered one; faults (decorators from --inject and the mutants) stand between the strategy
// and the meters.
#pragma once

#include <functional>
#include <memory>

#include "harness/layout/uses.hpp"
#include "harness/ledger/ledger.hpp"
#include "harness/model/model.hpp"
#include "harness/strategy/strategy.hpp"
#include "harness/trainer/backend.hpp"
#include "harness/trainer/device_watch.hpp"
#include "harness/trainer/observer.hpp"
#include "harness/transport/transport.hpp"
#include "kernels/kernels.hpp"

namespace zp {

// Decorators that make a rank misbehave. Each is empty where nothing is wrong with that part; `inner`
// outlives what it returns. `link` and `transport` see what the strategy's side asks for, before the meters;
// messages pass through `link` in the host's memory, and not at all on another route. `kernels` is
// called for every table that there is.
struct Faults {
  std::function<std::unique_ptr<Device>(Device& inner)> device;
  std::function<std::unique_ptr<kernels::Table>(kernels::Table& inner)> kernels;
  std::function<std::unique_ptr<Link>(Link& inner)> link;
  std::function<std::unique_ptr<Transport>(Transport& inner)> transport;
  std::function<std::unique_ptr<Strategy>(std::unique_ptr<Strategy> inner, Rig& rig)> strategy;
  std::function<std::unique_ptr<Model>(std::unique_ptr<Model> inner)> model;
  // Called at the start of every step, so that a fault can wait for its step.
  std::function<void(int step)> begin_step;
};

struct TrainerConfig {
  std::string stage;
  std::unique_ptr<Strategy> (*make_strategy)(Rig&) = nullptr;
  ModelConfig model;
  BatchShape shape;
  Training training;
  const Corpus* corpus = nullptr;  // null for the synthetic model
  CollectiveOptions collectives;
  Control* carried_for = nullptr;  // the ranks whose messages a carrier has; null: they use the link
  kernels::HostOptions kernels;
  const Backend* backend = &cpu_backend();
  Math math = Math::ordered;
  int local_rank = 0;   // counts the ranks of this host: which of its devices this one takes
  int local_ranks = 0;  // how many there are; 0: nobody said
  Fill fill = Fill::zero;
  HashFunction replica_hash = HashFunction::state;  // of what the rank holds whole
  Faults faults;
  Observer* observer = nullptr;  // null: nobody looks
};

// A rank in training. Lives on one thread.
class Trainer {
 public:
  // `native` is needed for that algorithm only.
  Trainer(const TrainerConfig& config, Link& link, Native* native = nullptr);
  ~Trainer();

  // Runs step `step` (0, 1, …) and returns what this rank did. Throws as transports do.
  StepEvidence run_step(int step, Inspection inspection = Inspection::full);

  const Layout& layout() const { return layout_; }
  int place() const;
  Strategy& strategy() { return *strategy_; }
  const Ledger& ledger() const { return ledger_; }
  const Engine& engine() const { return *engine_; }

 private:
  class Watch;

  void make_transport(Link& link, Native* native, Device& device, kernels::Table& table);
  void make_carried_transport(Device& device, const CollectiveOptions& options);
  void micro_step(int step, const Visit& visit, Watch& watch);
  void exchange_losses();
  HashSum hash_logical(HashFunction function, HashKind kind, int unit, const View& whole);
  // Weights and gradients as the model is given them: of the unit, and of the one that it borrows.
  UnitViews weights(int unit);
  UnitViews gradients(int unit);
  // Calls `look` outside the step's time, where somebody looks at the step while it runs.
  template <class Look>
  void inspect(Watch& watch, const Look& look);
  void hash_use(int micro_step, const Use& use);
  // What fixed point does not hold must not reach it.
  void check_range(int step, int number, int unit, const View& grads) const;
  // One unit's stored gradient of one micro-batch.
  void look_at_gradient(int step, int number, const Visit& visit, int unit);
  // What the step left.
  void inspect_state(int step);
  void time_transfers();
  // Gives the observer the averaged gradients, or everything else of the own state.
  void show(int step, bool grads);
  // Padding of gradients, parameters, masters and moments is zero.
  void inspect_padding(const std::vector<StateRun>& held);
  // Gradients, or everything else: what this rank answers for into `own`, its replicas into the evidence.
  void hash_held(bool grads, std::vector<TensorHash>& own);
  HashSum hash_part(HashFunction function, const StateRun& held, const TensorRun& run);

  // In order of construction: whatever stands below uses what stands above.
  TrainerConfig config_;
  TransportClock clock_;
  Ledger ledger_;
  Layout layout_;
  std::unique_ptr<Engine> engine_;
  DeviceWatch device_watch_;
  std::unique_ptr<Device> device_;  // metered
  std::unique_ptr<Device> faulty_device_;
  // Kernels of one kind, and the decorators around them.
  struct Tables {
    std::unique_ptr<kernels::Table> own, metered, faulty;
  };
  kernels::Table& dress(Tables& tables, std::unique_ptr<kernels::Table> own);
  Tables tables_, transport_tables_;  // the second stays empty where the transport uses the first
  std::unique_ptr<Link> metered_link_;
  std::unique_ptr<Link> faulty_link_;
  std::unique_ptr<Link> device_link_;
  std::unique_ptr<Carrier> carrier_, metered_carrier_;
  std::unique_ptr<Transport> collectives_;
  std::unique_ptr<Transport> metered_transport_;
  std::unique_ptr<Transport> faulty_transport_;
  std::unique_ptr<Rig> rig_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Strategy> strategy_;
  Buffer losses_;  // fp32, A per place, in the order of the fold's elements
  std::vector<Visit> visits_;
  Inspection inspection_ = Inspection::full;
};

}  // namespace zp
