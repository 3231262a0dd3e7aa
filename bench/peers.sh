#!/usr/bin/env bash
# Trains the model `small` on PyTorch and DeepSpeed and here, by turns on the same cores, and prints a table of ratios:
#   bench/peers.sh [RECORDS.jsonl [ROUNDS [STEPS]]]
# Makes a virtual environment (.venv-peers, several GB) on its first run. Not part of the tests: nothing else in the
# project needs Python packages from outside.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/mpi_env.sh

venv=${ZP_PEERS_VENV:-.venv-peers}
if ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet torch numpy
fi
if ! "$venv/bin/python" -c 'import deepspeed' >/dev/null 2>&1; then
  DS_BUILD_OPS=0 "$venv/bin/pip" install --quiet deepspeed || echo "peers.sh: without DeepSpeed, which does not install" >&2
fi
exec python3 bench/peers.py --python "$venv/bin/python" --zeroproof "${ZP_EXECUTABLE:-build/zeroproof}" \
  --out "${1:-peers.jsonl}" --rounds "${2:-5}" --steps "${3:-4}"
