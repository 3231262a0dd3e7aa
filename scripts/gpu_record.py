#!/usr/bin/env python3
"""Records of scripts/gpu_check.sh: one JSON object a line in one file, and their summary.

  gpu_record.py begin --out FILE --device NAME        where and when; replaces the file
  gpu_record.py step --out FILE --name NAME …         what one step came to, with the records that it wrote
  gpu_record.py summary --out FILE                    a table; exits as the check does
  gpu_record.py libraries                             folders of NVIDIA's libraries among Python's packages
"""
import argparse
import csv
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

SCHEMA = "zeroproof/gpu_check/1"
STAGES = ("zeroproof/stage/1", "zeroproof/bench-stage/1")
INTERNAL, TIMEOUT, UNAVAILABLE, USAGE = 1, 4, 5, 6
TOOLS = ("cmake", "ninja", "g++", "mpirun", "compute-sanitizer")
KEPT = 16 << 10  # characters of either log, of a step that did not pass: its files may not come back
COMPLAINT = re.compile(r"\berror\b|\bfatal\b|undefined reference|^FAILED|\*\*\*", re.IGNORECASE)
MOST_COMPLAINTS = 40
ENDED, KILLED = 124, 137  # by `timeout`
SANITIZER = "compute-sanitizer"
GPU_FIELDS = ("name", "driver_version", "memory.total", "clocks.max.sm", "clocks.max.mem", "power.limit")
# Share of its ceiling that a row is wanted to reach, by the ceiling's name.
WANTED = {"fp32 FMA": ("product", 0.60), "copy": ("kernel", 0.85)}
WANTED_OF_TENSOR_CORES = 0.50  # of the products in a step of vendor arithmetic


def said(words):
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def append(path, record):
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def stop(line):
    print(f"gpu_check.sh: {line}", file=sys.stderr)
    sys.exit(USAGE)


def records_in(text):
    """The records, and the number of the first line that is none, as one that was begun and never ended; or None."""
    records, broken = [], None
    for number, line in enumerate(text.splitlines(), 1):
        try:
            records.append(dict(json.loads(line)))
        except (TypeError, ValueError):
            broken = broken or number
    return records, broken


def load(path):
    try:
        records, broken = records_in(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        stop(f"--out {path}: {error.strerror}")
    if broken:
        stop(f"--out {path}: line {broken} is no record")
    return records


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def gpus():
    listed = said(["nvidia-smi", "--query-gpu=" + ",".join(GPU_FIELDS), "--format=csv,noheader"])
    rows = csv.reader((listed or "").splitlines(), skipinitialspace=True)
    return [dict(zip(GPU_FIELDS, row)) for row in rows] or None


def first_line(words):
    return (said(words) or "").partition("\n")[0] or None


def revision():
    """A copy of the tree may have no history: scripts/gpu_pack.sh wrote down which it was."""
    packed = pathlib.Path("gpu_pack/revision")
    return said(["git", "describe", "--always", "--dirty"]) or packed.exists() and packed.read_text().strip() or None


def begin(args):
    try:
        args.out.write_text("", encoding="utf-8")
    except OSError as error:
        stop(f"--out {args.out}: {error.strerror}")
    toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    nvcc = said([f"{toolkit}/bin/nvcc", "--version"]) or said(["nvcc", "--version"])
    append(args.out, {
        "schema": SCHEMA, "step": "begin", "start_time": now(), "device": args.device,
        "revision": revision(), "machine": platform.platform(), "cores": os.cpu_count(),
        "tools": {tool: first_line([tool, "--version"]) for tool in TOOLS} | {"python": platform.python_version()},
        "gpus": gpus() if args.device == "cuda" else None, "nvcc": nvcc.splitlines()[-1] if nvcc else None,
    })  # fmt: skip


def text_of(log, suffix):
    path = pathlib.Path(f"{log}.{suffix}")
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def verdict_of(args, out, err):
    """Of a command that ended with args.exit."""
    over = args.exit == ENDED or args.exit == KILLED and args.seconds >= args.given
    if over and args.given < args.most:
        return "not measured", f"{args.given} s were left"
    if args.name.startswith(SANITIZER):
        unsupported = re.search(r"^.*Device not supported.*$", out + err, re.MULTILINE)
        if unsupported:
            return "not measured", unsupported.group(0).strip("= ").strip()
        if over or args.exit == TIMEOUT:
            return "not measured", f"it was not over after {args.seconds} s"
    if args.exit == 0:
        part = re.search(r"^\d+ claims proved.* not measured; exit 0$", out, re.MULTILINE)
        return "passed", part and part.group(0)
    if args.exit == UNAVAILABLE:
        return "not measured", last_line(err)
    if over:
        return "failed", f"it was not over after {args.given} s"
    return "failed", last_line(err) or last_line(out)


def is_whole(row):
    """Whether a row of rates has every column, and where it was measured, every number."""
    if None in row or None in row.values():
        return False
    numbers = ("seconds", "rate", "ceiling_rate", "share")
    try:
        return row["verdict"] != "measured" or all(float(row[number]) >= 0 for number in numbers)
    except ValueError:
        return False


def contents(name, out):
    """What the step's own text holds that a record keeps. A line that was begun and never ended is nothing."""
    lines = [line for line in out.splitlines(keepends=True) if line.endswith("\n")]
    if name.startswith("kernels against"):
        parts = (line.strip().partition(": ") for line in lines)
        return {"hashes": {kernel: hash_ for kernel, colon, hash_ in parts if colon}}
    if name == "kernel rates":
        rows = list(csv.DictReader(lines, delimiter="\t"))
        whole = [row for row in rows if is_whole(row)]
        return {"rows": whole, "rows_left_out": len(rows) - len(whole) + (not out.endswith("\n") and out != "")}
    return {"text": out.splitlines()} if name == "devices" else {}


def diagnosis(args, out, err):
    """Of a step that did not pass: the end of what it wrote, and of a build what compilers complained of, which others'
    lines may have pushed out of that end. A build that failed prints it as well."""
    log = {"log": {"out": out[-KEPT:], "err": err[-KEPT:]}}
    if not args.name.startswith("build"):
        return log
    complaints = [line for line in (out + err).splitlines() if COMPLAINT.search(line)][:MOST_COMPLAINTS]
    for line in complaints + out.splitlines()[-10:] + err.splitlines()[-10:]:
        print(f"  {line[:300]}", file=sys.stderr)
    return log | {"complaints": complaints}


def step(args):
    record = {"schema": SCHEMA, "step": args.name}
    if args.reason:
        ended = {} if args.exit is None else {"exit": args.exit}
        verdict = "not measured" if args.exit in (None, UNAVAILABLE) else "failed"
        append(args.out, record | {"verdict": verdict, "reason": args.reason} | ended)
        return
    out, err = text_of(args.log, "out"), text_of(args.log, "err")
    verdict, reason = verdict_of(args, out, err)
    records, broken = records_in(text_of(args.log, "jsonl"))
    if broken and verdict == "passed":
        args.exit, verdict, reason = INTERNAL, "failed", f"line {broken} of what it recorded is no record"
    kept = contents(args.name, out)
    if kept.get("rows_left_out"):
        reason = "; ".join(filter(None, (reason, f"rows that were cut and left out: {kept['rows_left_out']}")))
    append(args.out, record | {"verdict": verdict, "reason": reason, "exit": args.exit, "seconds": args.seconds} | kept
           | (diagnosis(args, out, err) if verdict != "passed" else {}))  # fmt: skip
    for recorded in records:
        append(args.out, recorded)
    sys.exit(UNAVAILABLE if verdict == "not measured" else args.exit)


def rate_lines(rows, emulated):
    """A row is told against what is wanted of it; one that is wrong has no rate, and an emulated device has none."""
    for row in rows:
        if emulated and row["verdict"] == "measured":
            continue
        if row["verdict"] != "measured":
            yield f"{row['name']}: {row['verdict']}"
            continue
        rate = f"{row['name']}: {float(row['rate']):.0f} {row['unit']}"
        kind, wanted = WANTED.get(row["ceiling"], (None, None))
        if row["kind"] == "ceiling":
            yield rate
        elif row["kind"] == kind or row["kind"] == "kernel":
            goal = f", wanted {wanted:.2f}" if row["kind"] == kind else ""
            yield f"{rate}, {float(row['share']):.2f} of {row['ceiling']}{goal}"


def stage_line(record, tensor_rate):
    """Throughput, pool and hash of one stage; of vendor products, how much of the tensor cores' rate a step is."""
    config = record["config"]
    memory = record["device_memory"] or {}
    pool = memory.get("pool_used_most_bytes")
    pool = "not measured" if pool is None else f"{pool / (1 << 20):.2f} MiB"
    if memory and memory.get("grain_bytes") is None:
        pool += " (not held to the ledger: no grain explains what it counts)"
    line = (f"{record['stage']}, {config['model']}, {config['ranks']} ranks, {config['transport']}, "
            f"{config['device']}, {config.get('math', 'ordered')} math: {record['tokens_per_s']:.0f} tokens/s, "
            f"pool {pool}, hash {record['hash']}")  # fmt: skip
    if config.get("math") != "vendor" or tensor_rate is None:
        return line
    # Products of matrices alone, forward once and backward twice: 12 width² a layer and the head, a token.
    of_token = 6 * (12 * config["layers"] * config["width"] ** 2 + config["width"] * config["vocabulary"])
    share = of_token * record["tokens_per_s"] / config["ranks"] / (tensor_rate * 1e9)
    return f"{line}, {share:.2f} of bf16 tensor cores, wanted {WANTED_OF_TENSOR_CORES:.2f}"


def summary(args):
    records = load(args.out)
    steps = [record for record in records if record["schema"] == SCHEMA and "verdict" in record]
    width = max((len(record["step"]) for record in steps), default=0)
    for record in steps:
        seconds = f"{record['seconds']:4d} s" if "seconds" in record else "      "
        print(f"{record['verdict']:12}  {seconds}  {record['step']:{width}}  {record['reason'] or ''}".rstrip())
    tensor_rate = next((float(row["rate"]) for record in records for row in record.get("rows", [])
                        if row["name"] == "bf16 tensor cores" and row["rate"]), None)  # fmt: skip
    for record in records:
        if record["schema"] in STAGES and record["tokens_per_s"] is not None:
            print(stage_line(record, tensor_rate))
        for line in rate_lines(record.get("rows", []), records[0]["device"] == "emulated"):
            print(line)
    failed = [record for record in steps if record["verdict"] == "failed"]
    counts = {verdict: sum(record["verdict"] == verdict for record in steps)
              for verdict in ("passed", "failed", "not measured")}  # fmt: skip
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()) + f"; records: {args.out}")
    sys.exit(failed[0]["exit"] if failed else 0 if counts["passed"] else UNAVAILABLE)


def libraries(_):
    found = []
    for place in sys.path:
        found += sorted(str(path) for path in pathlib.Path(place).glob("nvidia/*/lib") if path.is_dir())
    print(":".join(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for function in (begin, step, summary, libraries):
        command = commands.add_parser(function.__name__)
        command.set_defaults(run=function)
        if function is not libraries:
            command.add_argument("--out", type=pathlib.Path, required=True)
        if function is begin:
            command.add_argument("--device", required=True)
        if function is step:
            command.add_argument("--name", required=True)
            command.add_argument("--reason", help="where nothing was run")
            command.add_argument("--exit", type=int)
            command.add_argument("--seconds", type=int)
            command.add_argument("--given", type=int, help="seconds that it had: all of them, or what was left")
            command.add_argument("--most", type=int, help="seconds that it may take")
            command.add_argument("--log", help="files of what it wrote, less .out, .err and .jsonl")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
