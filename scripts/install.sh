#!/usr/bin/env bash
# Installs the Debian packages that are missing: "install.sh build" for the executable and its report,
# "install.sh tests" for everything that scripts/test.sh runs. Says nothing more than one line when all is there.
set -euo pipefail

build=(g++ cmake ninja-build libopenmpi-dev openmpi-bin libfmt-dev libcli11-dev nlohmann-json3-dev
  python3 python3-matplotlib)
tests=(ccache libgtest-dev libgmock-dev libbenchmark-dev clang clang-format clang-tidy libclang-rt-14-dev python3-venv)
# Tests that need these are skipped where they cannot be installed.
foreign=(g++-aarch64-linux-gnu qemu-user)

optional=()
case "${1:-build}" in
  build) wanted=("${build[@]}") ;;
  tests) wanted=("${build[@]}" "${tests[@]}") optional=("${foreign[@]}") ;;
  *)
    echo "install.sh: \"$1\" is neither build nor tests" >&2
    exit 6
    ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "Packages: this is no Debian system; what Debian calls ${wanted[*]} must be there already."
  exit 0
fi

installed() {
  [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]
}
missing=() extra=()
for package in "${wanted[@]}"; do installed "$package" || missing+=("$package"); done
for package in "${optional[@]}"; do installed "$package" || extra+=("$package"); done
if [ ${#missing[@]} -eq 0 ] && [ ${#extra[@]} -eq 0 ]; then
  echo "Packages: all $((${#wanted[@]} + ${#optional[@]})) are installed."
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    if [ ${#missing[@]} -eq 0 ]; then
      echo "Packages: without ${extra[*]}: there is neither root nor sudo to install them with"
      exit 0
    fi
    echo "install.sh: ${missing[*]} must be installed, and there is neither root nor sudo to do it with" >&2
    exit 5
  fi
  as_root=(sudo)
fi

echo "Packages: installing" "${missing[@]}" "${extra[@]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
  [ $# -eq 0 ] ||
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}
if ! { "${as_root[@]}" apt-get update -qq && install "${missing[@]}"; } >"$log" 2>&1 </dev/null &&
  [ ${#missing[@]} -gt 0 ]; then
  tail -n 20 "$log" >&2
  echo "install.sh: apt-get could not install ${missing[*]}; its last words stand above" >&2
  exit 5
fi
if ! install "${extra[@]}" >"$log" 2>&1 </dev/null; then
  echo "Packages: apt-get could not install ${extra[*]}; tests that need them are skipped"
fi
