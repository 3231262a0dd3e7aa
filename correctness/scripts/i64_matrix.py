#!/usr/bin/python3
"""Sums in fixed point over every layout: for one number of micro-batches one hash, whatever adds them up.

Runs `verify --model tiny --wire i64` at 24 and at 35 micro-batches, at every number of ranks that divides them (up to
8), by every algorithm, with ranks as threads and as processes: two steps of all stages. `direct` and `ring` always run,
`halving` where ranks are a power of two, `native` under MPI; elsewhere each must be refused with exit code 5. --quick
is a part: one step of the stages ddp and zero3, every number of ranks, every algorithm, both transports.
The environment must suit mpirun (scripts/mpi_env.sh).
Usage: i64_matrix.py [--quick] [EXECUTABLE]
"""

import argparse
import collections
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORLDS = {24: (1, 2, 3, 4, 6, 8), 35: (1, 5, 7)}
ALGORITHMS = ("direct", "ring", "halving", "native")
TRANSPORTS = ("threads", "mpi")
STAGES = {False: "ddp,zero1,zero1-allreduce,zero2,zero3,zero3-keep", True: "ddp,zero3"}
# A quick part takes as processes only these: each algorithm, small and large worlds.
QUICK_PROCESSES = {(24, 2, "halving"), (24, 3, "native"), (24, 4, "native"), (24, 6, "direct"), (35, 5, "ring")}


@dataclasses.dataclass(frozen=True)
class Layout:
    micro_batches: int
    ranks: int
    algorithm: str
    transport: str

    def __str__(self):
        return f"M = {self.micro_batches}, N = {self.ranks}, {self.algorithm}, {self.transport}"

    def available(self):
        """Whether the product has it; otherwise it says exit code 5."""
        if self.algorithm == "halving":
            return self.ranks & (self.ranks - 1) == 0
        return self.algorithm != "native" or self.transport == "mpi"

    def quick(self):
        return self.transport == "threads" or (self.micro_batches, self.ranks, self.algorithm) in QUICK_PROCESSES


def layouts(quick):
    every = [
        Layout(micro_batches, ranks, algorithm, transport)
        for micro_batches, worlds in WORLDS.items()
        for ranks in worlds
        for algorithm in ALGORITHMS
        for transport in TRANSPORTS
    ]
    return [layout for layout in every if not quick or layout.quick()]


def run(executable, layout, quick, seed=1):
    """The hash of a proved run, "refused", or what went wrong in words."""
    words = [executable, "verify", "--model", "tiny", "--wire", "i64", "--seed", str(seed)]
    words += ["--micro-batches", str(layout.micro_batches), "--algorithm", layout.algorithm]
    words += ["--stages", STAGES[quick], "--steps", "1" if quick else "2"]
    if layout.transport == "mpi":
        words = ["mpirun", "-n", str(layout.ranks), *words]
    else:
        words += ["--ranks", str(layout.ranks)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    if not layout.available():
        return "refused" if done.returncode == 5 else f"exit code {done.returncode}, not 5"
    stages = len(STAGES[quick].split(","))
    claims = f"{4 * stages} claims proved, 0 refuted;"
    if layout.algorithm == "native":
        claims = f"{3 * stages} claims proved, 0 refuted, {stages} not measured;"
    hashes = re.findall(r"^hash ([0-9a-f]{32})", done.stdout, re.MULTILINE)
    if done.returncode != 0 or claims not in done.stdout or len(hashes) != 1:
        return f"exit code {done.returncode}, {len(hashes)} hashes, not '{claims}'\n{done.stdout}{done.stderr}"
    return hashes[0]


def judged(results):
    """Per number of micro-batches what all its layouts say, and every complaint."""
    verdict, complaints = {}, []
    for micro_batches in WORLDS:
        said = {layout: text for layout, text in results.items() if layout.micro_batches == micro_batches}
        hashes = collections.Counter(text for text in said.values() if re.fullmatch("[0-9a-f]{32}", text))
        verdict[micro_batches] = hashes
        usual = hashes.most_common(1)[0][0] if hashes else None
        complaints += [f"{layout}: {text}" for layout, text in said.items() if text not in (usual, "refused")]
    if len(set().union(*verdict.values())) < len(WORLDS):
        complaints.append("other micro-batches end on the same hash")
    return verdict, complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a part of the matrix")
    parser.add_argument("executable", nargs="?", default=str(ROOT / "build" / "zeroproof"))
    given = parser.parse_args()
    executable = os.path.abspath(given.executable)
    results, began = {}, time.monotonic()
    for layout in layouts(given.quick):
        started = time.monotonic()
        results[layout] = run(executable, layout, given.quick)
        print(f"{layout}: {results[layout]} ({time.monotonic() - started:.1f} s)", flush=True)
    verdict, complaints = judged(results)
    # One layout with other weights and data: it must stand out, or nothing would.
    other = Layout(24, 2, "direct", "threads")
    struck = {**results, other: run(executable, other, given.quick, seed=2)}
    if [complaint.partition(":")[0] for complaint in judged(struck)[1]] != [str(other)] and not complaints:
        complaints.append(f"{other}: another seed goes unnoticed")
    for micro_batches, hashes in verdict.items():
        counts = ", ".join(f"{text} of {count} layouts" for text, count in hashes.items())
        print(f"M = {micro_batches}: {counts}")
    refused = sum(text == "refused" for text in results.values())
    print(f"{len(results)} layouts, {refused} refused, in {time.monotonic() - began:.0f} s")
    for complaint in complaints:
        print(f"WRONG  {complaint}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
