#!/usr/bin/env bash
# Installs the Debian packages that are missing: "install.sh build" for the executable and its report,
# "install.sh tests" for everything that scripts/test.sh runs. Says nothing more than one line when all is there.
set -euo pipefail

build=(g++ cmake ninja-build libopenmpi-dev openmpi-bin libfmt-dev libcli11-dev nlohmann-json3-dev
  python3 python3-matplotlib)
tests=(ccache libgtest-dev libgmock-dev libbenchmark-dev clang clang-format clang-tidy libclang-rt-14-dev)

case "${1:-build}" in
  build) wanted=("${build[@]}") ;;
  tests) wanted=("${build[@]}" "${tests[@]}") ;;
  *)
    echo "install.sh: \"$1\" is neither build nor tests" >&2
    exit 6
    ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "Packages: this is no Debian system; what Debian calls ${wanted[*]} must be there already."
  exit 0
fi

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "Packages: all ${#wanted[@]} are installed."
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install.sh: ${missing[*]} must be installed, and there is neither root nor sudo to do it with" >&2
    exit 5
  fi
  as_root=(sudo)
fi

echo "Packages: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! {
  "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
} >"$log" 2>&1 </dev/null; then
  tail -n 20 "$log" >&2
  echo "install.sh: apt-get could not install ${missing[*]}; its last words stand above" >&2
  exit 5
fi
