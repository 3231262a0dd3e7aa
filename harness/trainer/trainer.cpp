// One rank's rig for one stage, and the only step loop.
#include "harness/trainer/trainer.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <string>
#include <type_traits>

#include "harness/device/host_access.hpp"
#include "harness/trainer/needs.hpp"

namespace zp {
namespace {

using Clock = std::chrono::steady_clock;

// `inner` itself, or the fault around it, which `holder` keeps.
template <class T, class Fault>
T& behind(std::unique_ptr<T>& holder, T& inner, const Fault& fault) {
  if (!fault) return inner;
  holder = fault(inner);
  return *holder;
}

KernelNeeds needs_of(const TrainerConfig& config) {
  return needs_of(config.model, config.shape, config.training.recipe, config.math, config.kernels);
}

Sharing sharing_of(const TrainerConfig& config) {
  const auto devices = static_cast<int>(config.backend->devices().size());
  return config.local_ranks > 0 && config.local_ranks <= devices ? Sharing::alone
                                                                 : Sharing::shared_or_unknown;
}

// Elements whose bits are not all zero: -0 counts.
template <class T>
Elements not_zero(const View& view) {
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
  const HostView<T> x(view);
  return {std::ranges::count_if(x, [](T value) { return std::bit_cast<Bits>(value) != 0; })};
}

View view_of(const StateRun& held, const Range& in_unit) {
  return held.view.part({in_unit.begin - held.in_unit.begin, in_unit.end - held.in_unit.begin});
}

}  // namespace

// Time of the step, without what the inspector does in between.
class Trainer::Watch {
 public:
  explicit Watch(Engine& engine) : engine_(engine) {}
  void run() { since_ = Clock::now(); }
  void pause() {
    engine_.finish();
    total_ += Clock::now() - since_;
  }
  double seconds() const { return std::chrono::duration<double>(total_).count(); }

 private:
  Engine& engine_;
  Clock::time_point since_;
  Clock::duration total_{};
};

Trainer::Trainer(const TrainerConfig& config, Link& link, Native* native)
    : config_(config),
      layout_(model_units(config.model), config.collectives.places),
      engine_(config.backend->make_engine(config.local_rank, config.fill, config.collectives.timeout_s)),
      device_watch_(*engine_, ledger_, sharing_of(config)),
      device_(make_metered_device(engine_->device(), ledger_)) {
  const Faults& faults = config_.faults;
  Device& device = behind(faulty_device_, *device_, faults.device);
  kernels::Table& table = dress(tables_, engine_->make_kernels(device, needs_of(config)));
  device_watch_.before_transport();
  make_transport(link, native, device, table);
  device_watch_.after_transport();
  metered_transport_ = make_metered_transport(*collectives_, ledger_);
  Transport& transport = behind(faulty_transport_, *metered_transport_, faults.transport);
  rig_ = std::make_unique<Rig>(Rig{.device = device,
                                   .kernels = table,
                                   .transport = transport,
                                   .layout = layout_,
                                   .training = config_.training});
  model_ =
      make_model(config.model, config.shape, config.training.recipe, config.training.seed, device, table);
  if (faults.model) model_ = faults.model(std::move(model_));
  // With overlap, what is in flight moves while kernels run, on this thread.
  if (config_.training.schedule.overlap == Overlap::on) {
    tables_.own->set_poll([&transport] { transport.poll(); });
  }
  strategy_ = config.make_strategy(*rig_);
  if (faults.strategy) strategy_ = faults.strategy(std::move(strategy_), *rig_);
  losses_ = device.acquire(Category::scalars, Type::f32, {config.training.batching.micro_batches});
  visits_ = visits(config.training.batching);
  ledger_.mark(Point::after_init);
  show(Observer::kBeforeTraining, false);
}

Trainer::~Trainer() { tables_.own->set_poll({}); }

kernels::Table& Trainer::dress(Tables& tables, std::unique_ptr<kernels::Table> own) {
  tables.own = std::move(own);
  tables.metered = make_metered_table(*tables.own, ledger_);
  return behind(tables.faulty, *tables.metered, config_.faults.kernels);
}

void Trainer::make_transport(Link& link, Native* native, Device& device, kernels::Table& table) {
  CollectiveOptions options = config_.collectives;
  options.stream = engine_->transport_stream();
  if (options.stream == nullptr) options.clock = &clock_;
  if (config_.carried_for != nullptr) return make_carried_transport(device, options);
  if (options.algorithm == Algorithm::native) {
    require(native != nullptr, "native collectives are a library's");
    collectives_ = make_native(*native, table, options);
    return;
  }
  metered_link_ = make_metered_link(link, ledger_);
  Link& carrying = options.route == Route::staged ? behind(faulty_link_, *metered_link_, config_.faults.link)
                                                  : *metered_link_;
  device_link_ = engine_->make_link(carrying, options.route);
  auto own = engine_->make_transport_kernels(device);
  kernels::Table& additions = own ? dress(transport_tables_, std::move(own)) : table;
  collectives_ = make_collectives(device_link_ ? *device_link_ : carrying, device, additions, options);
}

void Trainer::make_carried_transport(Device& device, const CollectiveOptions& options) {
  carrier_ = engine_->make_carrier(*config_.carried_for, options.timeout_s);
  metered_carrier_ = make_metered_carrier(*carrier_, ledger_);
  kernels::Table& additions = dress(transport_tables_, engine_->make_transport_kernels(device));
  collectives_ = make_carried(*metered_carrier_, device, additions, *config_.carried_for, options);
}

int Trainer::place() const { return collectives_->place(); }

StepEvidence Trainer::run_step(int step, Inspection inspection) {
  inspection_ = inspection;
  ledger_.begin_step(step);
  device_watch_.begin_step();
  if (config_.faults.begin_step) config_.faults.begin_step(step);
  ledger_.now().micro_batch_grads.resize(visits_.size());
  clock_.take();
  Watch watch(*engine_);
  watch.run();
  for (const Visit& visit : visits_) micro_step(step, visit, watch);
  strategy_->finish_reductions();
  ledger_.mark(Point::after_reduction);
  inspect(watch, [&] {
    hash_held(true, ledger_.now().grads);
    show(step, true);
  });
  exchange_losses();
  ledger_.now().norm_bits = std::bit_cast<uint64_t>(strategy_->step());
  ledger_.mark(Point::after_step);
  watch.pause();
  ledger_.now().time_s = watch.seconds();
  time_transfers();
  if (inspection_ != Inspection::meters_only) inspect_state(step);
  ledger_.now().device = device_watch_.evidence();
  return ledger_.end_step();
}

void Trainer::time_transfers() {
  const TransportSeconds seconds = clock_.take();
  StepEvidence& now = ledger_.now();
  now.transfers_timed = inspection_ != Inspection::full && engine_->transport_stream() == nullptr;
  if (!now.transfers_timed) return;
  now.exposed_s = seconds.exposed;
  now.hidden_s = seconds.hidden;
}

void Trainer::inspect_state(int step) {
  hash_held(false, ledger_.now().state);
  inspect_padding(strategy_->own_state());
  inspect_padding(strategy_->replicas());
  show(step, false);
  if (config_.observer == nullptr) return;
  config_.observer->totals(step, std::bit_cast<double>(ledger_.now().loss_bits),
                           std::bit_cast<double>(ledger_.now().norm_bits));
}

template <class Look>
void Trainer::inspect(Watch& watch, const Look& look) {
  if (inspection_ != Inspection::full) return;
  watch.pause();
  look();
  watch.run();
}

void Trainer::micro_step(int step, const Visit& visit, Watch& watch) {
  const Reduction reduction = strategy_->reduction();
  const int number = micro_batch_of(reduction, config_.training.batching, place(), visit.element);
  const MicroBatch tokens = config_.corpus == nullptr
                                ? MicroBatch{}
                                : config_.corpus->micro_batch(config_.training.seed, step, number,
                                                              config_.shape.batch, config_.shape.sequence);
  model_->begin(step, number, tokens);
  strategy_->begin_micro_step(visit);
  bool backward = false;
  for (const Use& use : uses(layout_)) {
    if (use.pass == Pass::backward && !backward) {
      backward = true;
      ledger_.mark(Point::after_forward);  // every micro-step's is in held_in_use
    }
    ledger_.enter_use(visit.element, use);
    if (use.pass == Pass::forward) {
      strategy_->before_forward(use.unit);
      inspect(watch, [&] { hash_use(visit.element, use); });
      model_->forward(use.unit, weights(use.unit));
      strategy_->after_forward(use.unit);
      continue;
    }
    strategy_->before_backward(use.unit);
    inspect(watch, [&] { hash_use(visit.element, use); });
    model_->backward(use.unit, weights(use.unit), gradients(use.unit));
    inspect(watch, [&] { look_at_gradient(step, number, visit, use.unit); });
    strategy_->after_backward(use.unit);
  }
  ledger_.leave_uses();
  const int64_t at = int64_t{place()} * config_.training.batching.micro_steps() + visit.element;
  const float loss = model_->loss();
  write_from_host<float>(losses_.part({{at}, {at + 1}}), {&loss, 1});
  if (config_.observer == nullptr) return;
  inspect(watch, [&] { config_.observer->micro_batch(step, number, tokens, loss); });
}

void Trainer::look_at_gradient(int step, int number, const Visit& visit, int unit) {
  if (layout_.unit(unit).frozen) return;
  const View grads = strategy_->grads(unit);
  check_range(step, number, unit, grads);
  ledger_.now().micro_batch_grads[static_cast<size_t>(visit.element)] +=
      hash_logical(HashFunction::state, HashKind::grad, unit, grads);
  if (config_.observer != nullptr) config_.observer->gradient(step, number, unit, grads);
}

void Trainer::check_range(int step, int number, int unit, const View& grads) const {
  if (!config_.training.fixed_point()) return;
  const int terms = config_.training.batching.micro_batches;
  const HostView<float> g(grads);
  const auto holds = [terms](float x) {
    return std::fabs(static_cast<double>(x)) * terms < kFixedPointBound;
  };
  for (const TensorLayout& tensor : layout_.unit(unit).tensors) {
    const int64_t begin = tensor.in_unit.begin.n;
    const int64_t end = tensor.in_unit.end.n;
    const int64_t at = std::find_if_not(g.begin() + begin, g.begin() + end, holds) - g.begin();
    if (at == end) continue;
    fail(Exit::bits, "step " + std::to_string(step) + ", rank " + std::to_string(rig_->transport.rank()) +
                         ", micro-batch " + std::to_string(number) + ": gradient of " + tensor.spec.name +
                         ", element " + std::to_string(at - begin) + ", is " +
                         std::to_string(g[static_cast<size_t>(at)]) + ": --wire i64 holds less than 2^19/" +
                         std::to_string(terms));
  }
}

void Trainer::exchange_losses() {
  const Batching& batching = config_.training.batching;
  const int64_t each = batching.micro_steps();
  rig_->transport
      .all_gather({.mine = losses_.part({{place() * each}, {(place() + 1) * each}}),
                   .whole = losses_.all(),
                   .cuts = Cuts::equal(batching.world, {each}),
                   .label = {.purpose = Purpose::loss, .tensor = -1, .name = "losses"}})
      .wait();
  const HostView<float> all(losses_.all());
  std::vector<float> by_number(static_cast<size_t>(batching.micro_batches));
  for (int p = 0; p < batching.world; ++p) {
    for (int element = 0; element < batching.micro_steps(); ++element) {
      const int number = micro_batch_of(strategy_->reduction(), batching, p, element);
      by_number[static_cast<size_t>(number)] = all[static_cast<size_t>(p * each + element)];
    }
  }
  double sum = 0.0;
  for (const float loss : by_number) sum += static_cast<double>(loss);
  ledger_.now().loss_bits = std::bit_cast<uint64_t>(sum / batching.micro_batches);
}

HashSum Trainer::hash_logical(HashFunction function, HashKind kind, int unit, const View& whole) {
  const UnitLayout& layout = layout_.unit(unit);
  HashSum sum;
  tables_.own->run(kernels::HashRun{.x = whole.part({{0}, layout.length}),
                                    .function = function,
                                    .kind = kind,
                                    .logical = layout.logical_begin.n,
                                    .sum = &sum});
  return sum;
}

UnitViews Trainer::weights(int unit) {
  const int borrowed = layout_.unit(unit).borrows;
  return {strategy_->params(unit), borrowed < 0 ? View() : strategy_->params(borrowed)};
}

UnitViews Trainer::gradients(int unit) {
  const auto of = [this](int each) {
    return each < 0 || layout_.unit(each).frozen ? View() : strategy_->grads(each);
  };
  return {of(unit), of(layout_.unit(unit).borrows)};
}

void Trainer::hash_use(int micro_step, const Use& use) {
  for (const int unit : read_by(layout_, use.unit)) {
    inspect_padding({{.kind = HashKind::param,
                      .unit = unit,
                      .in_unit = {{0}, layout_.unit(unit).padded},
                      .view = strategy_->params(unit)}});
    ledger_.now().used.push_back(
        {.micro_step = micro_step,
         .unit = use.unit,
         .read = unit,
         .backward = use.pass == Pass::backward,
         .hash = hash_logical(config_.replica_hash, HashKind::param, unit, strategy_->params(unit))});
  }
}

void Trainer::show(int step, bool grads) {
  if (config_.observer == nullptr) return;
  for (const StateRun& state : strategy_->own_state()) {
    if ((state.kind == HashKind::grad) == grads) config_.observer->state(step, state);
  }
}

void Trainer::inspect_padding(const std::vector<StateRun>& held) {
  // Where fresh memory is NaN, so is padding that nobody writes.
  if (config_.fill == Fill::nan) return;
  for (const StateRun& state : held) {
    const Elements logical = std::max(layout_.unit(state.unit).length - state.in_unit.begin, Elements{0});
    if (logical >= state.in_unit.length()) continue;
    const View padding = state.view.part({logical, state.in_unit.length()});
    const Elements written =
        padding.type() == Type::bf16 ? not_zero<bf16>(padding) : not_zero<float>(padding);
    if (written.n == 0) continue;
    ledger_.now().padding.push_back({.kind = state.kind, .unit = state.unit, .elements = written});
  }
}

void Trainer::hash_held(bool grads, std::vector<TensorHash>& own) {
  const auto hash = [&](HashFunction function, const std::vector<StateRun>& all,
                        std::vector<TensorHash>& into) {
    for (const StateRun& held : all) {
      if ((held.kind == HashKind::grad) != grads) continue;
      for (const TensorRun& run : runs(layout_.unit(held.unit), held.in_unit))
        into.push_back({run.tensor->index, held.kind, hash_part(function, held, run)});
    }
  };
  hash(HashFunction::state, strategy_->own_state(), own);
  hash(config_.replica_hash, strategy_->replicas(), ledger_.now().replica);
}

HashSum Trainer::hash_part(HashFunction function, const StateRun& held, const TensorRun& run) {
  HashSum sum;
  const Elements skipped = run.in_unit.begin - run.tensor->in_unit.begin;
  tables_.own->run(kernels::HashRun{.x = view_of(held, run.in_unit),
                                    .function = function,
                                    .kind = held.kind,
                                    .logical = (run.tensor->logical_begin + skipped).n,
                                    .sum = &sum});
  return sum;
}

}  // namespace zp
