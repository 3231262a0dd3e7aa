#!/usr/bin/env bash
# From a clean clone to the proof and its picture: installs what is missing, builds the executable, trains three steps
# of a 10.9 M-parameter GPT on 4 MPI ranks under every stage, and writes the report. Safe to run again, from anywhere.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

text=/usr/share/common-licenses/GPL-3 # shipped by Debian's base-files
out=build/quickstart
started=$SECONDS

stop() { # code, one clear line
  echo "quickstart.sh: $2" >&2
  exit "$1"
}

[ -r "$text" ] || stop 6 "the training text $text is missing; Debian's package base-files ships it"
scripts/install.sh build
if command -v nvcc >/dev/null; then
  echo "CUDA toolkit: found, and not used: this version runs on the CPU."
else
  echo "CPU only: no CUDA toolkit."
fi

# Python with matplotlib: Debian's, or else an environment of our own.
python=/usr/bin/python3
if ! "$python" -c 'import matplotlib' 2>/dev/null; then
  python=.venv/bin/python
  if ! "$python" -c 'import matplotlib' 2>/dev/null; then
    echo "Python: installing matplotlib into .venv"
    { python3 -m venv .venv && "$python" -m pip install --quiet matplotlib; } ||
      stop 5 "no matplotlib: neither Debian's python3-matplotlib nor a virtual environment could be had"
  fi
fi

echo "Building the executable"
mkdir -p build
cmake --preset release -DZP_TESTS=OFF -DZP_BENCH=OFF -DZP_UNITY=ON >build/configure.log 2>&1 ||
  { cat build/configure.log >&2 && stop 1 "the build could not be configured"; }
cmake --build build --target zeroproof -- --quiet
echo "Built after $((SECONDS - started)) s."

source scripts/mpi_env.sh
mkdir -p "$out"
rm -f "$out"/run.jsonl "$out"/report.html
code=0
mpirun -n 4 build/zeroproof verify --model small --steps 3 --micro-batches 8 --micro-batch-size 1 --seq 256 \
  --recipe bf16-fp32grad --data "$text" --out "$out/run.jsonl" || code=$?
[ -s "$out/run.jsonl" ] || stop "$((code > 0 ? code : 1))" "the run left no record (exit code $code)"

"$python" scripts/report.py "$out/run.jsonl" --out "$out/report.html"
echo "Done after $((SECONDS - started)) s. Report: $PWD/$out/report.html"
exit "$code"
