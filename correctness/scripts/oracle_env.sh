#!/usr/bin/env bash
# Makes the virtual environment in which correctness/oracle.py runs, with its two packages from PyPI:
#   correctness/scripts/oracle_env.sh [FOLDER]     (default build/oracle-env)
# Fails, and says so, where they cannot be had.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

environment=${1:-build/oracle-env}
python="$environment/bin/python"
wanted='import autograd, numpy; print("oracle: autograd with NumPy", numpy.__version__)'
if [ -x "$python" ] && "$python" -c "$wanted" 2>/dev/null; then exit 0; fi
if ! python3 -m venv "$environment"; then
  echo "oracle: no virtual environment can be made in $environment; Debian's package is python3-venv" >&2
  exit 5
fi
if ! "$python" -m pip install --quiet --disable-pip-version-check numpy 'autograd>=1.7'; then
  echo "oracle: pip cannot install numpy and autograd; is the package registry within reach?" >&2
  exit 5
fi
"$python" -c "$wanted"
