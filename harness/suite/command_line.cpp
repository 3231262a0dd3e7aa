// The command line: options, their help and what was typed for each. The only file that knows the parser's
// library.
#include "harness/suite/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdlib>

#include "harness/report/environment.hpp"
#include "harness/suite/typed.hpp"
#include "harness/transport/transport.hpp"

namespace zp {

namespace {

struct OptionRow {
  const char* name;
  const char* type;
  const char* does;
};

// Of every command that trains.
constexpr std::array kTrainingOptions{
    OptionRow{"--ranks", "N", "ranks (default: the launcher's, else 4 threads)"},
    OptionRow{"--stages", "LIST", "all, or of ddp,zero1,zero1-allreduce,zero2,zero3,zero3-keep"},
    OptionRow{"--model", "NAME", "tiny (default), small, gpt2, synthetic, a config.json, or shapes"},
    OptionRow{"--unit-blocks", "K", "blocks that form one unit (default 1)"},
    OptionRow{"--freeze", "UNIT,..", "units that are not trained"},
    OptionRow{"--data", "FILE", "text, byte by byte, or FILE.bin of tokens (default: a synthetic corpus)"},
    OptionRow{"--micro-batches", "M", "of a step, over all ranks (default: a multiple of N, at least 8)"},
    OptionRow{"--accumulate", "NAME", "micro-steps: by the fold (default), or sequential"},
    OptionRow{"--micro-batch-size", "N", "sequences in a micro-batch (default 1)"},
    OptionRow{"--seq", "N", "tokens in a sequence (default: the model's positions)"},
    OptionRow{"--recipe", "NAME", "bf16-fp32grad (default), bf16 or fp32"},
    OptionRow{"--wire", "TYPE", "of gradients between ranks: the recipe's (default) or i64"},
    OptionRow{"--clip", "X", "largest gradient norm (default 1; 0: no clipping)"},
    OptionRow{"--lr", "X", "learning rate (default 3e-4)"},
    OptionRow{"--weight-decay", "X", "of tensors of two dimensions or more (default 0.1)"},
    OptionRow{"--optimizer", "NAME", "adamw (default), or sgd with momentum"},
    OptionRow{"--betas", "B1,B2", "of adamw (default 0.9,0.95)"},
    OptionRow{"--momentum", "X", "of sgd (default 0.9)"},
    OptionRow{"--transport", "NAME", "threads, mpi (default under a launcher), or nccl between GPUs"},
    OptionRow{"--device", "NAME", "cpu (default), cuda, or emulated: CUDA's kernels on this processor"},
    OptionRow{"--mpi-buffers", "NAME",
              "of GPUs: auto (handed to an MPI that is shown to be GPU-aware) or staged"},
    OptionRow{"--math", "NAME", "matrix products: ordered, or vendor (cuBLASLt; bench's default on cuda)"},
    OptionRow{"--algorithm", "NAME", "halving, direct, ring or native (default: by ranks and recipe)"},
    OptionRow{"--bucket-mb", "X", "most MB (10^6 B) of gradients in one reduction (default: a unit)"},
    OptionRow{"--prefetch", "N", "zero3: units gathered ahead of the one in use (default 0)"},
    OptionRow{"--keep", "K", "zero3: last units that stay gathered to backward (default 0)"},
    OptionRow{"--ranks-per-node", "S", "as if on nodes of S ranks (default: found by shared memory)"},
    OptionRow{"--overlap", "on|off", "transfers run beside kernels (default off)"},
    OptionRow{"--threads", "N", "kernel threads per rank (default: cores / ranks on this host)"},
    OptionRow{"--timeout", "S", "deadline of every wait, seconds (default 60)"},
    OptionRow{"--seed", "N", "of initial values and data (default 1)"},
    OptionRow{"--out", "FILE", "records, JSON Lines (results/schema.md)"},
    OptionRow{"--inject", "KIND:K=V,..", "a fault; K: step, rank, stage, unit, bit, micro-batch; repeatable"},
};

constexpr std::array kVerifyOptions{
    OptionRow{"--steps", "N", "optimizer steps (default 3)"},
    OptionRow{"--golden", "FILE", "judges bits by this file; no reference is run"},
    OptionRow{"--write-golden", "FILE", "writes such a file, where no claim is refuted"},
    OptionRow{"--dump", "DIR", "every stage's numbers, for NumPy (results/dump.md)"},
};

constexpr std::array kBenchOptions{
    OptionRow{"-n,--steps", "N", "timed steps of a round (default 3)"},
    OptionRow{"-w,--warm-up", "N", "steps before them (default 2)"},
    OptionRow{"--rounds", "N", "every stage once a round, by turns (default 5)"},
};

constexpr std::array kPlanOptions{
    OptionRow{"--params", "X", "parameters, such as 7e9; or"},
    OptionRow{"--model", "NAME", "exact shapes: tiny, small, gpt2, synthetic, a config.json, or shapes"},
    OptionRow{"--unit-blocks", "K", "with --model: blocks that form one unit (default 1)"},
    OptionRow{"--freeze", "UNIT,..", "with --model: units that are not trained"},
    OptionRow{"--keep", "K", "with --model, zero3: last units that stay gathered (default 0)"},
    OptionRow{"--ranks", "N", "ranks (required)"},
    OptionRow{"--recipe", "NAME", "bf16-fp32grad (default), bf16 or fp32"},
    OptionRow{"--optimizer", "NAME", "adamw (default) or sgd"},
    OptionRow{"--wire", "TYPE", "of gradients between ranks: the recipe's (default) or i64"},
    OptionRow{"--micro-steps", "A", "micro-batches of a rank in a step (default 1)"},
    OptionRow{"--accumulate", "NAME", "with --model: fold (default) or sequential"},
    OptionRow{"--micro-batch-size", "N", "with --model: sequences in a micro-batch (default 1)"},
    OptionRow{"--seq", "N", "with --model: tokens in a sequence (default: its positions)"},
    OptionRow{"--algorithm", "NAME", "halving, direct or ring (default: by ranks and recipe)"},
    OptionRow{"--threads", "N", "with --model: kernel threads (default 1)"},
    OptionRow{"--out", "FILE", "the tables as a record, JSON Lines (results/schema.md)"},
};

constexpr std::array kDevicesOptions{
    OptionRow{"--ranks", "N", "ranks of this host to be placed (default: one for each GPU)"},
    OptionRow{"--device", "NAME", "cuda (default) or emulated"},
};

template <size_t count>
void add_options(CLI::App& app, const std::array<OptionRow, count>& rows) {
  for (const OptionRow& row : rows) {
    const std::string does = row.does;
    app.add_option(row.name, does)
        ->type_name(row.type)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  app.allow_extras();
}

void add_flags(CLI::App& app) {
  app.add_flag("--tied")->description("the head's weight is the token table (gpt2 is so by itself)");
  app.add_flag("--overwrite")->description("let --out and --write-golden replace a file");
}

Typed typed(const CLI::App& command) {
  std::map<std::string, std::vector<std::string>> values;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() > 0) values[option->get_name()] = option->results();
  }
  return Typed(std::move(values));
}

// The subcommands with their options and what --help says of them.
struct Commands {
  CLI::App app{
      "Trains the same model under DDP and ZeRO and proves bits, bytes, memory and work of every stage.",
      "zeroproof"};
  CLI::App* verify = app.add_subcommand("verify", "the claims, for the stages asked for, then one table");
  CLI::App* plan =
      app.add_subcommand("plan", "ledger and traffic for a model and a cluster that need not be here");
  CLI::App* bench =
      app.add_subcommand("bench", "throughput, peak memory and overlap of each stage, with all claims");
  CLI::App* devices =
      app.add_subcommand("devices", "GPUs and networks of this host, and where ranks would go");

  Commands() {
    app.get_formatter()->column_width(28);
    app.set_version_flag("--version", "zeroproof " + std::string(version()));
    app.allow_extras();
    add_options(*verify, kTrainingOptions);
    add_options(*verify, kVerifyOptions);
    add_options(*bench, kBenchOptions);
    add_options(*bench, kTrainingOptions);
    add_options(*plan, kPlanOptions);
    for (CLI::App* command : {verify, bench, plan}) add_flags(*command);
    add_options(*devices, kDevicesOptions);
    app.footer("Example: zeroproof verify --ranks 4 --model tiny --steps 5");
    const std::string shapes =
        "Shapes: --model layers=2,width=48,heads=3,positions=32,vocabulary=256,tied=yes\n";
    verify->footer(shapes +
                   "Faults: bitflip flip-gradient skip-gather double-average extra-message keep-gradients "
                   "extra-compute\n"
                   "Example: mpirun -n 4 zeroproof verify --model small --stages ddp,zero3 --out run.jsonl");
    bench->footer(shapes + "Example: mpirun -n 4 zeroproof bench --model small -n 5 --out rates.jsonl");
    plan->footer(shapes + "Example: zeroproof plan --params 7e9 --ranks 4 --recipe bf16");
  }
};

}  // namespace

Launch launch_from_environment() {
  Launch launch{.world = launched_world(), .rank = 0};
  if (launch.world == 0) return launch;
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* text = std::getenv(name)) {
      launch.rank = std::atoi(text);
      break;
    }
  }
  return launch;
}

Invocation parse_command_line(const std::vector<std::string>& args, const Launch& launch) {
  Commands commands;
  std::vector<std::string> reversed(args.rbegin(), args.rend());  // as the library wants them
  try {
    commands.app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return Print{commands.app.help()};
  } catch (const CLI::CallForVersion&) {
    return Print{"zeroproof " + std::string(version()) + "\n"};
  } catch (const CLI::ParseError& error) {
    fail(Exit::usage, error.what());
  }
  for (CLI::App* command : {commands.verify, commands.bench, commands.plan, commands.devices}) {
    if (!command->parsed()) continue;
    const std::vector<std::string> unknown = command->remaining();
    if (!unknown.empty()) {
      fail(Exit::usage, fmt::format("{0}: '{1}' is no option; zeroproof {0} --help lists them",
                                    command->get_name(), unknown.front()));
    }
    if (command == commands.verify) {
      VerifyOptions options = verify_options(typed(*command), launch);
      options.args = args;
      return options;
    }
    if (command == commands.bench) {
      BenchOptions options = bench_options(typed(*command), launch);
      options.job.args = args;
      return options;
    }
    if (command == commands.devices) return devices_options(typed(*command));
    return plan_options(typed(*command));
  }
  const std::vector<std::string> unknown = commands.app.remaining();
  const std::string known = "there are verify, bench, plan and devices";
  fail(Exit::usage, unknown.empty() ? "no command; " + known + " (zeroproof --help)"
                                    : "'" + unknown.front() + "' is no command; " + known);
}

}  // namespace zp
