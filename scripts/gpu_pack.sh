#!/usr/bin/env bash
# Gathers into gpu_pack/ the headers that a machine with a GPU may lack and cannot install: fmt, CLI11,
# nlohmann-json, and those of NCCL and cuBLASLt where they are found. The build takes them from there where the system
# has none (cmake/packages.cmake). Run it where they are installed, then take the whole tree along; gpu_pack/revision
# says which it is, since its history may stay behind.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pack=gpu_pack
most=$((60 << 20)) # bytes

stop() { # code, one clear line
  echo "gpu_pack.sh: $2" >&2
  exit "$1"
}

command -v g++ >/dev/null || stop 5 "there is no g++ to say where headers lie"

# folder_of HEADER: where the compiler finds it; CUDA's folder is looked into as well.
folder_of() {
  local path
  path=$(echo "#include <$1>" | g++ -std=c++20 -x c++ -M -I "${CUDA_HOME:-/usr/local/cuda}/include" - 2>/dev/null |
    awk -v header="/$1" '{ for (i = 1; i <= NF; ++i) if (!found && index($i, header)) found = $i } END { print found }')
  [ -n "$path" ] && echo "${path%/"$1"}"
}

rm -rf "$pack"
mkdir -p "$pack/include"
for header in fmt/format.h CLI/CLI.hpp nlohmann/json.hpp; do
  folder=$(folder_of "$header") || stop 5 "there is no $header here: scripts/install.sh build installs it"
  cp -rL "$folder/${header%%/*}" "$pack/include/"
done
if folder=$(folder_of nccl.h); then
  for header in nccl.h nccl_device.h nccl_device; do
    [ ! -e "$folder/$header" ] || cp -rL "$folder/$header" "$pack/include/"
  done
else
  echo "gpu_pack.sh: without NCCL's header, which is not here"
fi

# What these include beside each other is of CUDA's runtime, without which nothing is built.
if folder=$(folder_of cublasLt.h); then
  cp -L "$folder/cublasLt.h" "$folder/cublas_api.h" "$pack/include/"
else
  echo "gpu_pack.sh: without cuBLASLt's header, which is not here"
fi
git describe --always --dirty >"$pack/revision" 2>/dev/null || rm "$pack/revision"

size=$(du -sb "$pack" | cut -f 1)
[ "$size" -le "$most" ] || stop 1 "$pack/ holds $size bytes, more than the $most that may travel"
echo "$pack/: $((size >> 10)) KiB, of $((most >> 20)) MiB: $(ls -m "$pack/include")"
