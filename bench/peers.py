#!/usr/bin/env python3
"""Runs PyTorch or DeepSpeed and zeroproof by turns and writes one record a comparison (bench/peers.sh calls it)."""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

from record import revision

# The peer's way, our stage, processes on both sides.
PAIRS = [("single", "ddp", 1), ("ddp", "ddp", 4), ("fsdp2", "zero3", 4), ("ds3", "zero3", 4)]
MICRO_BATCHES = [(4, 256), (1, 128)]  # sequences, tokens
RANKS = 4


def peer(args, way, batch, tokens):
    command = [args.python, "bench/peer_step.py", way, f"--ranks={RANKS}", f"--steps={args.steps}"]
    done = subprocess.run(command + [f"--batch={batch}", f"--seq={tokens}"], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise RuntimeError("\n".join(done.stderr.splitlines()[-3:]))
    return json.loads(lines[-1])


def ours(args, command, stage, ranks, batch, tokens, recipe):
    """The record of our stage. A refuted claim ends the comparison: its time would mean nothing."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run.jsonl"
        launcher = [] if ranks == 1 else ["mpirun", "-n", str(ranks)]
        line = launcher + [args.zeroproof, *command, "--model", "small", "--stages", stage, "--recipe", recipe]
        line += ["--ranks", "1"] if ranks == 1 else []
        line += ["--micro-batches", str(RANKS), "--micro-batch-size", str(batch), "--seq", str(tokens)]
        line += ["--threads", "1", "--clip", "0", "--out", str(out)]
        line += args.options.split()
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("zeroproof: " + done.stdout[-400:] + done.stderr[-400:])
        return [r for r in map(json.loads, out.read_text().splitlines()) if "stage" in r["schema"]][0]


def our_times(args, stage, ranks, batch, tokens, recipe):
    """Median step, median step with everything that proving it takes, parameters, and the processor.

    Steps back to back, as the peer's are, are `bench`'s: in `verify` a rank waits for others that still look at what
    they did.
    """
    layout = (stage, ranks, batch, tokens, recipe)
    timed = ours(args, ["bench", "-w", "1", "-n", str(args.steps), "--rounds", "1"], *layout)
    checked = ours(args, ["verify", "--steps", str(args.steps + 1)], *layout)
    assert timed["proved"] and checked["proved"]
    return (
        timed["step_time_s"],
        statistics.median(checked["checked_step_times_s"][1:]),
        timed["config"]["parameters"],
        timed["machine"]["cpu"],
    )


def best_recipe(args):
    """fp32, as the peers compute, where this build has it."""
    command = [args.zeroproof, "plan", "--model", "tiny", "--ranks", "2", "--recipe", "fp32"]
    return "fp32" if subprocess.run(command, capture_output=True).returncode == 0 else "bf16-fp32grad"


def compare(args, pair, micro_batch, recipe):
    way, stage, ranks = pair
    batch, tokens = micro_batch
    theirs, own, checked = [], [], []
    versions = {}
    for _ in range(args.rounds):
        step = peer(args, way, batch, tokens)
        versions = {"torch": step["torch"], "parameters": step["parameters"]}
        theirs.append(statistics.median(step["step_times_s"]))
        step_s, checked_s, parameters, cpu = our_times(args, stage, ranks, batch, tokens, recipe)
        assert parameters == step["parameters"]
        own.append(step_s)
        checked.append(checked_s)
    per_step = RANKS * batch * tokens
    return {
        "schema": "zeroproof/peers/2",
        "peer": way,
        "stage": stage,
        "ranks": ranks,
        "micro_batches": RANKS,
        "micro_batch_size": batch,
        "sequence": tokens,
        "recipe": recipe,
        "options": args.options,
        "claims": "proved",
        **versions,
        "peer_step_times_s": theirs,
        "step_times_s": own,
        "checked_step_times_s": checked,
        "peer_tokens_per_s": per_step / statistics.median(theirs),
        "tokens_per_s": per_step / statistics.median(own),
        "ratio": statistics.median(t / o for t, o in zip(theirs, own)),
        "ratio_checked": statistics.median(t / c for t, c in zip(theirs, checked)),
        "revision": revision(),
        "load_average": os.getloadavg()[0],
        "cores": os.cpu_count(),
        "cpu": cpu,
        "python": platform.python_version(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("python", "python3"), ("zeroproof", "build/zeroproof"), ("out", "peers.jsonl")):
        parser.add_argument("--" + name, default=default)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--options", default="", help="more options for zeroproof, such as '--overlap on'")
    parser.add_argument("--only", default="", help="comparisons whose name holds this, such as fsdp2")
    args = parser.parse_args()
    recipe = best_recipe(args)
    failed = 0
    print(f"{'peer':8} {'stage':8} {'micro-batch':12} {'peer tok/s':>11} {'tok/s':>9} {'ratio':>6} {'checked':>8}")
    for micro_batch in MICRO_BATCHES:
        for pair in PAIRS:
            if args.only not in pair[0]:
                continue
            try:
                record = compare(args, pair, micro_batch, recipe)
            except RuntimeError as error:
                failed += 1
                print(f"{pair[0]:8} {pair[1]:8} not measured: {error}")
                continue
            with open(args.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            size = f"{micro_batch[0]} x {micro_batch[1]}"
            print(f"{pair[0]:8} {pair[1]:8} {size:12} {record['peer_tokens_per_s']:11.0f} {record['tokens_per_s']:9.0f}"
                  f" {record['ratio']:6.2f} {record['ratio_checked']:8.2f}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
