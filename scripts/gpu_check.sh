#!/usr/bin/env bash
# Proves the CUDA backend on a machine with a GPU, which may have no network, and measures it, in 8 minutes with the
# build: hashes of every kernel and of every stage against the golden ones, memory and races under compute-sanitizer,
# kernel rates beside ceilings of the same run, throughput and pool of every stage, and NCCL over all GPUs.
#   gpu_check.sh [--device cuda|emulated] [--build FOLDER] [--out FILE] [--seconds N]
# --build: an existing build, left as it is; otherwise build-gpu is made. --device emulated: the same way through, at
# sizes for a GPU that is emulated on this processor; it needs --build with its tests. What cannot run is "not
# measured", with the reason. Exit 0: nothing failed; 5: there is no such device; otherwise the first failure's code.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

device=cuda build='' out='' budget=480

stop() { # code, one clear line
  echo "gpu_check.sh: $2" >&2
  exit "$1"
}

while [ $# -gt 0 ]; do
  case $1 in
    --device | --build | --out | --seconds) [ $# -gt 1 ] || stop 6 "$1 needs a value" ;;
    *) stop 6 "'$1' is no option; there are --device, --build, --out and --seconds" ;;
  esac
  case $1 in
    --device) device=$2 ;;
    --build) build=$2 ;;
    --out) out=$2 ;;
    --seconds) budget=$2 ;;
  esac
  shift 2
done

case $device in
  cuda)
    gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
    [ "$gpus" -gt 0 ] || gpus=$(find /dev -maxdepth 1 -name 'nvidia[0-9]*' | wc -l)
    [ "$gpus" -gt 0 ] || stop 5 "there is no GPU here: nvidia-smi lists none, and there is no /dev/nvidia0"
    sizes=all rates=cuda_rates scale=()
    ;;
  emulated)
    [ -n "$build" ] || stop 6 "--device emulated needs --build FOLDER, a build with its tests"
    gpus=1 sizes=odd rates=cuda_rates_emulated scale=(tiny)
    export ZP_EMULATED_CUDA_DEVICES=1
    ;;
  *) stop 6 "--device $device: there are cuda and emulated" ;;
esac
[[ $budget =~ ^[1-9][0-9]{0,5}$ ]] || stop 6 "--seconds $budget: a whole number of seconds is needed"
command -v python3 >/dev/null || stop 5 "there is no python3 to write records with"
cuda_home=${CUDA_HOME:-/usr/local/cuda}
if [ -z "$build" ]; then
  [ -x "$cuda_home/bin/nvcc" ] || [ -x /usr/local/cuda/bin/nvcc ] || command -v nvcc >/dev/null ||
    stop 5 "there is no nvcc in PATH or $cuda_home/bin to build with; CUDA_HOME names another folder"
  cmake_needed=3.25
  cmake_here=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*//p')
  printf '%s\n' "$cmake_needed" "${cmake_here:-0}" | sort -CV ||
    stop 5 "CMake $cmake_needed or later is needed to build with; here is ${cmake_here:-none}"
fi

own_build=${build:-build-gpu}
out=${out:-$own_build/gpu_check.jsonl}
logs=$own_build/gpu-check-logs
mkdir -p "$logs"
record() { python3 scripts/gpu_record.py "$@"; }
record begin --out "$out" --device "$device" || exit $?

# Libraries that came with Python's packages, and with the toolkit.
LD_LIBRARY_PATH=$(record libraries)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
LD_LIBRARY_PATH+=:$cuda_home/lib64:$cuda_home/targets/x86_64-linux/lib
export LD_LIBRARY_PATH
source scripts/mpi_env.sh

left() { echo $((budget - SECONDS)); }

not_measured() { # NAME REASON
  record step --out "$out" --name "$1" --verdict 'not measured' --reason "$2"
}

# step NAME MOST-SECONDS COMMAND…: what it prints is in a log, and what zeroproof records with it. Returns its exit code,
# and 5 where it was not measured: with exit 5 of the command in its own words, or cut short by the end of the budget.
step() {
  local name=$1 most=$2 log began=$SECONDS seconds
  log=$logs/${name//[^A-Za-z0-9]/_}
  shift 2
  seconds=$(left)
  if [ "$seconds" -lt 5 ]; then
    not_measured "$name" "no time was left of $budget s"
    return 5
  fi
  [ "$seconds" -lt "$most" ] || seconds=$most
  rm -f "$log.jsonl"
  timeout -k 10 "$seconds" "$@" >"$log.out" 2>"$log.err" </dev/null
  record step --out "$out" --name "$name" --exit $? --seconds $((SECONDS - began)) --log "$log" --given "$seconds" \
    --most "$most"
}

# What `step NAME` has zeroproof record.
records_of() { echo "$logs/${1//[^A-Za-z0-9]/_}.jsonl"; }

# ---- The build

has_mpi=OFF
if command -v mpicc >/dev/null && command -v mpirun >/dev/null; then has_mpi=ON; fi

# The NCCL that will be opened: its header lies beside it (cmake/nccl.cmake).
IFS=: read -ra folders <<<"$LD_LIBRARY_PATH"
for folder in "${folders[@]}"; do
  if [ -z "${NCCL_HOME:-}" ] && [ -f "$folder/libnccl.so.2" ]; then export NCCL_HOME=${folder%/*}; fi
done

# A compiler that was never tried may warn. Headers that were gathered come before the system's: the build was tried
# with them.
make_build() {
  local generator=(-G "Unix Makefiles") options=() capability package
  if command -v ninja >/dev/null; then generator=(-G Ninja); fi
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -xE '[0-9]+\.[0-9]+' |
    sort -u | tr -d . | sed 's/$/-real/' | paste -sd ';')
  [ -z "$capability" ] || options=("-DZP_CUDA_TARGETS=$capability")
  if [ -d gpu_pack/include ]; then
    for package in fmt CLI11 nlohmann_json; do options+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"); done
  fi
  cmake -S . -B build-gpu "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DZP_TESTS=OFF -DZP_BENCH=OFF \
    -DZP_GPU_CHECK=ON -DZP_WERROR=OFF "-DZP_MPI=$has_mpi" "${options[@]}" &&
    cmake --build build-gpu -j "$(nproc)"
}
export -f make_build
export has_mpi

if [ -z "$build" ]; then
  step build 300 bash -c make_build
  code=$?
  if [ "$code" -ne 0 ]; then
    record summary --out "$out"
    [ "$code" -ne 5 ] || stop 5 "there was not enough time to build"
    stop 1 "the build failed; its log is $logs/build.out"
  fi
fi
zeroproof=$own_build/zeroproof
[ -x "$zeroproof" ] || stop 6 "$zeroproof is not there"

# ---- Is there such a device?

verify=("$zeroproof" verify --device "$device")
name="a device that computes"
step "$name" 60 "${verify[@]}" --ranks 1 --model synthetic --steps 1 --stages ddp
code=$?
if [ "$code" -ne 0 ]; then
  record summary --out "$out"
  words=$(tail -n 1 "$logs/a_device_that_computes.err" 2>/dev/null)
  stop "$code" "${words:-no device had computed when its time was over}"
fi
step devices 30 "$zeroproof" devices --device "$device"

# ---- Bits

golden=results/golden
step "kernels against golden hashes" 120 "$own_build/kernel_hashes" "$device" "$sizes" "$golden/kernels.txt"

short=()
[ "$device" = cuda ] || short=(--steps 1 --stages zero2)

name="stages, N = 1, nccl" # its own collectives: one rank alone sends no message
step "$name" 120 "${verify[@]}" --ranks 1 --transport nccl --algorithm native --wire i64 \
  --golden "$golden/tiny-i64.json" "${short[@]}" --out "$(records_of "$name")"

# Four ranks share one GPU: NCCL refuses that, MPI and threads do not.
four=("${verify[@]}" --ranks 4 --transport threads) transport=threads
if [ "$has_mpi" = ON ] && [ "$device" = cuda ]; then
  # Messages are staged: an MPI that takes a GPU's memory and cannot send it may crash, and is tried afterwards.
  four=(mpirun -n 4 "${verify[@]}" --transport mpi --mpi-buffers staged) transport=mpi
fi
recipes=(tiny-bf16-fp32grad tiny-bf16 tiny-i64)
[ "$device" = cuda ] || recipes=(tiny-bf16-fp32grad)
for recipe in "${recipes[@]}"; do
  name="stages, N = 4, $transport, $recipe"
  wire=()
  [ "$recipe" != tiny-i64 ] || wire=(--wire i64)
  [ "$recipe" != tiny-bf16 ] || wire=(--recipe bf16)
  step "$name" 90 "${four[@]}" --golden "$golden/$recipe.json" "${wire[@]}" "${short[@]}" --out "$(records_of "$name")"
done

if [ "$transport" = mpi ]; then
  name="stages, N = 4, mpi, GPU-aware where shown to be"
  step "$name" 60 mpirun -n 4 "${verify[@]}" --transport mpi --golden "$golden/tiny-bf16-fp32grad.json" --stages zero3 \
    --out "$(records_of "$name")"
fi

for algorithm in direct native; do
  name="stages, N = all, nccl, $algorithm"
  if [ "$gpus" -gt 1 ]; then
    step "$name" 90 "${verify[@]}" --ranks "$gpus" --transport nccl --algorithm "$algorithm" --model tiny --wire i64 \
      --out "$(records_of "$name")"
  else
    not_measured "$name" "there is one GPU"
  fi
done

# ---- Memory and races of kernels

sanitizer=$(command -v compute-sanitizer)
[ -n "$sanitizer" ] || sanitizer=$(find "$cuda_home/" /usr/local/cuda/ -name compute-sanitizer -type f -print -quit 2>/dev/null)
for tool in memcheck racecheck; do
  if [ "$device" != cuda ]; then
    not_measured "compute-sanitizer $tool" "the device is emulated; its own tests look for the same"
  elif [ -z "$sanitizer" ]; then
    not_measured "compute-sanitizer $tool" "there is no compute-sanitizer"
  else
    options=(--tool "$tool" --error-exitcode 86)
    # A question that CUDA answers with an error, such as whether GPUs reach each other, is none.
    [ "$tool" != memcheck ] || options+=(--report-api-errors no)
    step "compute-sanitizer $tool" 90 "$sanitizer" "${options[@]}" \
      "${verify[@]}" --ranks 1 --model tiny --stages zero3 --steps 1 --micro-batches 2 --timeout 80
  fi
done

# ---- Rates

step "kernel rates" 120 "$own_build/$rates" "${scale[@]}"

# ---- Throughput and pool of every stage

rounds=(--ranks 1 --warm-up 1 --steps 3 --rounds 3)
small=(--model small --micro-batches 8 --micro-batch-size 4 --seq 256)
gpt2=(--model gpt2 --micro-batches 2 --micro-batch-size 4)
if [ "$device" = emulated ]; then
  rounds=(--ranks 1 --warm-up 1 --steps 1 --rounds 1 --stages zero2)
  small=(--model "layers=1,width=8,heads=2,positions=8,vocabulary=16" --micro-batches 1)
  gpt2=("${small[@]}")
fi
for math in ordered vendor; do
  model=("${small[@]}")
  [ "$math" = ordered ] || model=("${gpt2[@]}")
  name="throughput, $math math"
  step "$name" 90 "$zeroproof" bench --device "$device" --math "$math" "${rounds[@]}" "${model[@]}" \
    --out "$(records_of "$name")"
done

record summary --out "$out"
