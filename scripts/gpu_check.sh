#!/usr/bin/env bash
# Proves the CUDA backend on a machine with a GPU, which may have no network, and measures it, in 8 minutes with the
# build: hashes of every kernel and of every stage against the golden ones, memory and races under compute-sanitizer,
# kernel rates beside ceilings of the same run, throughput and pool of every stage, and NCCL over all GPUs.
#   gpu_check.sh [--device cuda|emulated] [--build FOLDER] [--out FILE] [--seconds N]
# --build: an existing build, left as it is; otherwise build-gpu is made. --device emulated: the same way through, at
# sizes for a GPU that is emulated on this processor; it needs --build with its tests. What cannot run is "not
# measured", with the reason. FILE holds a record a step, with the end of what a step that did not pass wrote, and
# FILE.logs.tgz all that was written. Exit 0: nothing failed; 5: there is no such device; otherwise the first failure's
# code.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

device=cuda build='' out='' budget=480 begun=''

record() { python3 scripts/gpu_record.py "$@"; }

stop() { # code, one clear line, which is the last record too
  echo "gpu_check.sh: $2" >&2
  [ -z "$begun" ] || record step --out "$out" --name stop --exit "$1" --reason "$2"
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

own_build=${build:-build-gpu}
out=${out:-$own_build/gpu_check.jsonl}
logs=$own_build/gpu-check-logs
command -v python3 >/dev/null || stop 5 "there is no python3 to write records with"

# Whether CMake is new enough here. It may lie beside python3 alone, as ninja may; the driver's programs lie where
# containers mount them.
cmake_needed=3.25
has_cmake() {
  cmake_here=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*//p')
  printf '%s\n' "$cmake_needed" "${cmake_here:-0}" | sort -CV
}
scripts=$(python3 -c 'import sysconfig; print(sysconfig.get_path("scripts"))')
PATH+=:$scripts:/usr/local/nvidia/bin
has_cmake || PATH=$scripts:$PATH

# Whatever stops the check from here on is in its records.
[ -n "$build" ] || rm -rf "$logs"
mkdir -p "$logs"
record begin --out "$out" --device "$device" || exit $?
begun=yes
trap 'tar -czf "$out.logs.tgz" -C "$own_build" gpu-check-logs 2>/dev/null' EXIT

[[ $budget =~ ^[1-9][0-9]{0,5}$ ]] || stop 6 "--seconds $budget: a whole number of seconds is needed"
case $device in
  cuda)
    gpus=$(timeout 30 nvidia-smi -L 2>/dev/null | grep -c '^GPU')
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
cuda_home=${CUDA_HOME:-/usr/local/cuda}
if [ -z "$build" ]; then
  [ -x "$cuda_home/bin/nvcc" ] || [ -x /usr/local/cuda/bin/nvcc ] || command -v nvcc >/dev/null ||
    stop 5 "there is no nvcc in PATH or $cuda_home/bin to build with; CUDA_HOME names another folder"
  has_cmake || stop 5 "CMake $cmake_needed or later is needed to build with; here is ${cmake_here:-none}"
fi

# Libraries that came with Python's packages, and with the toolkit.
LD_LIBRARY_PATH=$(record libraries)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
LD_LIBRARY_PATH+=:$cuda_home/lib64:$cuda_home/targets/x86_64-linux/lib:/usr/local/nvidia/lib64
export LD_LIBRARY_PATH
source scripts/mpi_env.sh

left() { echo $((budget - SECONDS)); }

not_measured() { # NAME REASON
  record step --out "$out" --name "$1" --reason "$2"
}

# step NAME MOST-SECONDS COMMAND…: what it prints is in a log, and what zeroproof records with it. Returns its exit
# code, and 5 where it was not measured: with exit 5 of the command in its own words, cut short by the end of the
# budget, or because it did not compile.
step() {
  local name=$1 most=$2 log began=$SECONDS seconds
  log=$logs/${name//[^A-Za-z0-9]/_}
  shift 2
  if [[ $1 == "$own_build"/* && ! -x $1 ]]; then
    not_measured "$name" "${1##*/} was not built"
    return 5
  fi
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

mpi=OFF # what is tried
if command -v mpicc >/dev/null && command -v mpirun >/dev/null; then mpi="ON OFF"; fi

# The NCCL and the cuBLASLt that will be opened: their headers lie beside them (cmake/nccl.cmake, cmake/backend.cmake).
IFS=: read -ra folders <<<"$LD_LIBRARY_PATH"
for folder in "${folders[@]}"; do
  if [ -z "${NCCL_HOME:-}" ] && [ -f "$folder/libnccl.so.2" ]; then export NCCL_HOME=${folder%/*}; fi
  if [ -z "${CUBLAS_HOME:-}" ] && compgen -G "$folder/libcublasLt.so.*" >/dev/null; then
    export CUBLAS_HOME=${folder%/*}
  fi
done

# What CUDA calls the GPUs here; empty where nvidia-smi does not say.
targets=$(timeout 30 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
  grep -xE '[0-9]+\.[0-9]+' | sort -u | tr -d . | sed 's/$/-real/' | paste -sd ';')

configure() {
  local options=() package
  # Headers that were gathered come before the system's: the build was tried with them.
  if [ -d gpu_pack/include ]; then
    for package in fmt CLI11 nlohmann_json; do options+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"); done
  fi
  # A compiler that was never tried may warn.
  cmake --fresh -S . -B build-gpu -DCMAKE_BUILD_TYPE=Release -DZP_TESTS=OFF -DZP_BENCH=OFF -DZP_GPU_CHECK=ON \
    -DZP_WERROR=OFF "${options[@]}" "$@"
}

# make_build OPTIONS…: without MPI where CMake does not find the one that is here, and for a usual GPU where it finds
# none. A file that does not compile keeps nothing from being built that does without it.
make_build() {
  local generator=(-G "Unix Makefiles") keep_going=(-k) target with_mpi
  if command -v ninja >/dev/null; then generator=(-G Ninja) keep_going=(-k 0); fi
  for target in "${targets:-native}" 90; do
    for with_mpi in $mpi; do
      configure "${generator[@]}" "-DZP_MPI=$with_mpi" "-DZP_CUDA_TARGETS=$target" "$@" || continue
      cmake --build build-gpu -j "$(nproc)" -- "${keep_going[@]}"
      return
    done
  done
  return 1
}
export -f configure make_build
export mpi targets

zeroproof=$own_build/zeroproof
is_built() { [ -x "$zeroproof" ] && [ -f "$own_build/libzeroproof_$device.so" ]; }

if [ -z "$build" ]; then
  # What an earlier build left must not be measured in this one's name.
  rm -f "$own_build"/{zeroproof,kernel_hashes,cuda_rates} "$own_build"/libzeroproof_*.so
  step build 300 bash -c make_build
  code=$?
  if ! is_built && [ "$code" -ne 5 ]; then
    # What is written against headers that were never seen here.
    step "build without MPI, NCCL and cuBLASLt" 200 bash -c 'make_build "$@"' bash -DZP_MPI=OFF -DZP_NCCL_INCLUDE= \
      -DZP_CUBLASLT_INCLUDE= "-DZP_CUDA_TARGETS=${targets:-90}"
  fi
  if ! is_built; then
    record summary --out "$out"
    [ "$code" -ne 5 ] || stop 5 "there was not enough time to build"
    stop 1 "the build failed; its log is $logs/build.out"
  fi
fi
[ -x "$zeroproof" ] || stop 6 "$zeroproof is not there"

# ---- Is there such a device?

hashes() {
  step "kernels against golden hashes" 120 "$own_build/kernel_hashes" "$device" "$sizes" "$golden/kernels.txt"
}

sanitizer=$(command -v compute-sanitizer)
[ -n "$sanitizer" ] ||
  sanitizer=$(find "$cuda_home/" /usr/local/cuda/ -name compute-sanitizer -type f -print -quit 2>/dev/null)
sanitize() { # TOOL
  local options=(--tool "$1" --error-exitcode 86)
  # A question that CUDA answers with an error, such as whether GPUs reach each other, is none.
  [ "$1" != memcheck ] || options+=(--report-api-errors no)
  if [ "$device" != cuda ]; then
    not_measured "compute-sanitizer $1" "the device is emulated; its own tests look for the same"
  elif [ -z "$sanitizer" ]; then
    not_measured "compute-sanitizer $1" "there is no compute-sanitizer"
  else
    step "compute-sanitizer $1" 90 "$sanitizer" "${options[@]}" \
      "${verify[@]}" --ranks 1 --model tiny --stages zero3 --steps 1 --micro-batches 2 --timeout 80
  fi
}

golden=results/golden
verify=("$zeroproof" verify --device "$device")
step devices 30 "$zeroproof" devices --device "$device"
step "a device that computes" 60 "${verify[@]}" --ranks 1 --model synthetic --steps 1 --stages ddp
code=$?
# A claim that is refuted ends nothing: what else holds says where the fault is.
if [[ $code =~ ^(2|4|5|124|137)$ ]]; then
  if [ "$code" -ne 5 ]; then # CUDA fails or hangs: in which kernel?
    hashes
    sanitize memcheck
  fi
  record summary --out "$out"
  words=$(tail -n 1 "$logs/a_device_that_computes.err" 2>/dev/null)
  stop "$code" "${words:-no device had computed when its time was over}"
fi

# ---- Bits

hashes

short=()
[ "$device" = cuda ] || short=(--steps 1 --stages zero2)

name="stages, N = 1, nccl" # its own collectives: one rank alone sends no message
step "$name" 120 "${verify[@]}" --ranks 1 --transport nccl --algorithm native --wire i64 \
  --golden "$golden/tiny-i64.json" "${short[@]}" --out "$(records_of "$name")"

# Four ranks share one GPU: NCCL refuses that, MPI and threads do not.
transport=threads
if command -v mpirun >/dev/null && grep -qs '^ZP_MPI:BOOL=ON' "$own_build/CMakeCache.txt" && [ "$device" = cuda ]; then
  transport=mpi
fi
four_ranks() { # RECIPE
  local name="stages, N = 4, $transport, $1" four=("${verify[@]}" --ranks 4 --transport threads) wire=()
  # Messages are staged: an MPI that takes a GPU's memory and cannot send it may crash, and is tried afterwards.
  [ "$transport" != mpi ] || four=(mpirun -n 4 "${verify[@]}" --transport mpi --mpi-buffers staged)
  [ "$1" != tiny-i64 ] || wire=(--wire i64)
  [ "$1" != tiny-bf16 ] || wire=(--recipe bf16)
  step "$name" 90 "${four[@]}" --golden "$golden/$1.json" "${wire[@]}" "${short[@]}" --out "$(records_of "$name")"
}
if ! four_ranks tiny-bf16-fp32grad && [ "$transport" = mpi ]; then
  transport=threads # a launcher that was never tried: threads say whether the fault is its own
  four_ranks tiny-bf16-fp32grad
fi

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
for math in vendor ordered; do
  model=("${small[@]}")
  [ "$math" = ordered ] || model=("${gpt2[@]}")
  name="throughput, $math math"
  step "$name" 90 "$zeroproof" bench --device "$device" --math "$math" "${rounds[@]}" "${model[@]}" \
    --out "$(records_of "$name")"
done

# ---- More of bits, where time is left

if [ "$device" = cuda ]; then
  four_ranks tiny-bf16
  four_ranks tiny-i64
fi

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

# ---- Memory and races of kernels: last, since they take the longest

sanitize memcheck
sanitize racecheck

record summary --out "$out"
