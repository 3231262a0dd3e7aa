#!/usr/bin/env python3
"""Runs every benchmark and keeps what it printed: results/bench.jsonl, one record a question and processor; --table
prints README's table of ratios from the records, a column a processor, without running anything.

  bench/record.py                       all questions, on a machine that does nothing else
  bench/record.py --only gemm,checks    these anew; the other records stay, and so do those of other processors
  bench/record.py --table               the table
"""
import argparse
import datetime
import itertools
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
MIB = 1 << 20

# Question → its command; the benchmark's name stands for its executable in the build.
QUESTIONS = {
    "gemm": ["gemm_bench"],
    "rows": ["rows_bench"],
    "optimizer": ["optimizer_bench"],
    "step": ["step_bench", "--rounds=5"],
    "collectives, 2 ranks": ["mpirun", "-n", "2", "collectives_bench"],
    "collectives, 4 ranks": ["mpirun", "-n", "4", "collectives_bench"],
    "checks": ["checks_bench", "--rounds=15"],  # a difference of steps that scatter more than it is
}
# What Google Benchmark says of itself and of a machine's names and paths is no result.
KEPT_CONTEXT = ("peer", "ranks", "model", "library_build_type")
NOT_COUNTERS = {
    "name", "run_name", "run_type", "family_index", "per_family_instance_index", "repetitions", "repetition_index",
    "threads", "iterations", "real_time", "cpu_time", "time_unit", "error_occurred", "error_message",
}  # fmt: skip


def said(words):
    return subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()


def revision():
    """Of the tree; the records themselves may have changed meanwhile."""
    changed = said(["git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!results", ":!README.md"])
    return said(["git", "describe", "--always"]) + ("-dirty" if changed else "")


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("flags"):
            flags = line.split()
            isa = next((name for name in ("avx512f", "avx2") if name in flags), "neither AVX2 nor AVX-512")
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
    return {"cpu": model, "isa": isa, "cores": len(os.sched_getaffinity(0)), "os": platform.system()}


def rows_of(report):
    rows = []
    for run in report["benchmarks"]:
        row = {"name": re.sub(r"/(iterations:\d+|manual_time)", "", run["name"])}
        if run.get("error_occurred"):
            row["error"] = run["error_message"]
        row.update({key: value for key, value in run.items() if key not in NOT_COUNTERS})
        rows.append(row)
    return rows


def measure(question, build):
    words = list(QUESTIONS[question])
    at = next(i for i, word in enumerate(words) if word.endswith("_bench"))
    words[at] = str(build / "bench" / words[at])
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        words += [f"--benchmark_out={out}", "--benchmark_out_format=json"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode != 0:
            raise SystemExit(f"{question}: exit {done.returncode}: {done.stderr[-400:]}")
        report = json.loads(out.read_text(encoding="utf-8"))
    return {
        "schema": "zeroproof/bench/1",
        "question": question,
        "start_time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join(QUESTIONS[question]),
        "revision": revision(),
        "machine": processor(),
        "load_average": load,
        **{key: report["context"][key] for key in KEPT_CONTEXT if key in report["context"]},
        "rows": rows_of(report),
    }


def load(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def values(record, counter, holds=lambda row: True):
    """The counter of every row that has it; a row in error has none, and says so in the record."""
    return [(row[counter], row["name"]) for row in record["rows"] if counter in row and holds(row)]


# ---- README's table


def slice_bytes(row):
    number, unit = re.search(r"(\d+) ([KM])iB", row["name"]).groups()
    return int(number) * (MIB if unit == "M" else 1024)


def peak_counter(record):
    """Of the widest peak that this processor has."""
    lanes = 16 if record["machine"]["isa"] == "avx512f" else 8
    return f"of peak of {lanes} lanes"


def kernel_lines(records):
    gemm = records.get("gemm")
    if gemm:
        every = next(row for row in gemm["rows"] if row["name"] == "all shapes")
        library, _, kernel = gemm["peer"].partition(", ")
        yield (f"GEMM, {every['shapes']:.0f} shapes, one thread", library, "≥ 1.00 in the mean, none below 0.88",
               f"{every['ratio, geometric mean']:.2f}, lowest {every['ratio, lowest']:.2f} ({kernel})")  # fmt: skip
        for kernel in ("attention", "attention backward"):
            found = values(gemm, peak_counter(gemm), lambda row, kernel=kernel: row["name"] == kernel)
            yield kernel, "peak of fused multiply-adds", "≥ 0.65", f"{found[0][0]:.2f}"
    step = records.get("step")
    if step:
        found = [f"{value:.2f} ({name.removeprefix('step ')})" for value, name in values(step, peak_counter(step))]
        yield ("forward and backward, `small`, 4 x 256, one thread", "peak of fused multiply-adds", "≥ 0.65",
               ", ".join(found))  # fmt: skip
    for question, what in (("optimizer", "optimizer, casts, sums, norm, hash"), ("rows", "kernels over activations")):
        if question in records:
            found = sorted(values(records[question], "of copy"), reverse=True)
            yield what, "copy bandwidth", "≥ 0.85", ", ".join(f"{name} {value:.2f}" for value, name in found)


def collective_lines(records):
    for question, record in records.items():
        if not question.startswith("collectives"):
            continue
        ranks = question.partition(", ")[2]
        for operation, peer in (("reduce-scatter", "MPI_Reduce_scatter_block"), ("all-gather", "MPI_Allgather")):
            for name, large in (("≥ 1 MiB", True), ("< 1 MiB", False)):
                found = []
                for algorithm in ("halving", "direct"):
                    rows = values(record, f"{algorithm} / {peer}", lambda row, large=large: row["name"].startswith(
                        operation) and (slice_bytes(row) >= MIB) == large)  # fmt: skip
                    found.append(f"{algorithm} {min(rows)[0]:.2f} to {max(rows)[0]:.2f}")
                goal = "≥ 1.50" if operation == "reduce-scatter" and large else "≥ 1.00"
                yield f"{operation}, slices {name}, {ranks}", peer, goal, "; ".join(found)


def other_lines(records, peers):
    checks = records.get("checks")
    if checks:
        worst = max(values(checks, "cost of checks"))
        yield ("all claims judged after every step, 4 ranks, worst stage", "the step without", "≤ 0.05 more",
               f"{worst[0]:.3f} more ({worst[1]})")  # fmt: skip
    goals = {(4, "single"): "≥ 1.00", (4, "ddp"): "≥ 1.10", (4, "fsdp2"): "≥ 1.20", (4, "ds3"): "≥ 1.20",
             (1, "ddp"): "≥ 1.30", (1, "fsdp2"): "≥ 1.60", (1, "ds3"): "≥ 2.50"}  # fmt: skip
    names = {"single": "PyTorch", "ddp": "PyTorch DDP", "fsdp2": "PyTorch FSDP2", "ds3": "DeepSpeed stage 3"}
    for record in peers:
        batch = record["micro_batch_size"]
        ranks = "one rank" if record["ranks"] == 1 else f"{record['ranks']} MPI ranks"
        yield (f"tokens/s, `{record['stage']}`, {ranks}, {batch} x {record['sequence']}, {record['recipe']}",
               names[record["peer"]], goals.get((batch, record["peer"]), ""),
               f"{record['ratio']:.2f}, with all checks {record['ratio_checked']:.2f}")  # fmt: skip


def name_of(cpu):
    return re.sub(r"\(R\)| Processor", "", cpu)


def table():
    bench, peers = load(RESULTS / "bench.jsonl"), load(RESULTS / "peers.jsonl")
    isa = {record["machine"]["cpu"]: record["machine"]["isa"] for record in bench}
    cells = {}  # what, compared with, wanted → processor → measured
    for cpu in isa:
        records = {record["question"]: record for record in bench if record["machine"]["cpu"] == cpu}
        lines = (kernel_lines(records), collective_lines(records),
                 other_lines(records, [record for record in peers if record["cpu"] == cpu]))  # fmt: skip
        for line in itertools.chain(*lines):
            cells.setdefault(line[:3], {})[cpu] = line[3]
    heads = [f"{name_of(cpu)}, {isa[cpu]}" for cpu in isa]
    print("| what | compared with | wanted | " + " | ".join(heads) + " |\n|" + "---|" * (3 + len(heads)))
    for line, measured in cells.items():
        print("| " + " | ".join([*line, *(measured.get(cpu, "not measured") for cpu in isa)]) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder of the build")
    parser.add_argument("--only", default=",".join(QUESTIONS), help="questions that begin with one of these words")
    parser.add_argument("--table", action="store_true", help="print README's table and run nothing")
    args = parser.parse_args()
    if args.table:
        table()
        return
    wanted = [q for q in QUESTIONS if any(q.startswith(word) for word in args.only.split(","))]
    if not wanted:
        parser.error(f"--only {args.only}: there are {', '.join(QUESTIONS)}")
    path = RESULTS / "bench.jsonl"
    for question in wanted:
        print(f"{question} …", file=sys.stderr, flush=True)
        record = measure(question, args.build)
        key = (record["machine"]["cpu"], question)
        kept = {(old["machine"]["cpu"], old["question"]): old for old in load(path)}
        kept[key] = record
        order = list(QUESTIONS)
        text = "".join(json.dumps(kept[k], ensure_ascii=False) + "\n"
                       for k in sorted(kept, key=lambda k: (k[0], order.index(k[1]))))  # fmt: skip
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
