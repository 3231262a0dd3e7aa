#!/usr/bin/env bash
# One step of the portability test, as ctest calls it:
#   run.sh FOLDER build VARIANT [KERNELS]   builds portable_hash in FOLDER/VARIANT, around kernels built elsewhere
#   run.sh FOLDER reference              runs the first variant, whose text all others must print
#   run.sh FOLDER same VARIANT ISA       must print that text, on 1, 2 and 3 kernel threads
#   run.sh FOLDER product EXECUTABLE     zeroproof must end its steps on the hashes in that text
#   run.sh FOLDER refused CONTROL [EXECUTABLE]   what breaks the arithmetic on purpose must be refused
# Exit 0: holds. 77: not available here, with the reason. Anything else: does not hold.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
program=$root/correctness/portability/program
folder=$1
shift
expected=$folder/expected.txt
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

skip() {
  echo "skipped: $*" >&2
  exit 77
}

# ---- Variants

configure() { # VARIANT COMPILER FLAGS CMAKE-ARGUMENTS…
  local variant=$1 compiler=$2 flags=$3
  shift 3
  command -v "$compiler" >/dev/null || skip "$compiler is not installed"
  cmake -G Ninja -S "$program" -B "$folder/$variant" -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$flags" "$@"
}

build() {
  local variant=$1
  rm -f "$folder/$variant"/{portable_hash,contracted_kernels,contracted_rest} # nothing is compared with an earlier build
  case $variant in
    gcc-O1)
      configure "$variant" g++ -O1 -DZP_CONTROLS=ON
      jobs=$(nproc) # nothing else can be done meanwhile
      ;;
    gcc-O3) # -O1 contracts nothing
      configure "$variant" g++ "" -DCMAKE_BUILD_TYPE=Release -DZP_CONTRACTED=ON -DZP_PRODUCT_KERNELS="${2:-}"
      ;;
    clang-O3) configure "$variant" clang++ -O3 ;;
    blocks) configure "$variant" g++ -O1 -DZP_PANEL_ROWS=48 -DZP_PANEL_COLUMNS=96 ;;
    aarch64)
      command -v qemu-aarch64 >/dev/null || skip "qemu-aarch64 (qemu-user) is not installed"
      configure "$variant" aarch64-linux-gnu-g++ -O1 -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
        -DCMAKE_EXE_LINKER_FLAGS=-static
      ;;
    *)
      echo "no variant is called $variant" >&2
      exit 6
      ;;
  esac
  cmake --build "$folder/$variant" -j "${jobs:-1}"
}

# hashes VARIANT OPTIONS…: what the variant's program prints; hashes VARIANT/PROGRAM OPTIONS…: what another of its does.
hashes() {
  local variant=${1%%/*} program=$folder/$1 emulator=()
  [ "$variant" != "$1" ] || program+=/portable_hash
  shift
  [ -x "$program" ] || skip "$variant was not built"
  [ "$variant" != aarch64 ] || emulator=(qemu-aarch64)
  "${emulator[@]}" "$program" "$@"
}

same() {
  local variant=$1 isa=$2 threads status text=$scratch/text in_some=$scratch/some wanted some slow_from=4 recipes=1
  # Where arithmetic is emulated it takes long. Under qemu on more than one thread: every kernel, but training in the
  # first recipe only.
  [ "$variant" != aarch64 ] || slow_from=2
  set -- 1 2 3
  if [ "$isa" = software-fma ]; then
    # The C library's fmaf without the processor's instruction: what a machine without FMA computes. Every kernel;
    # nothing else calls it.
    export GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2
    isa=portable slow_from=1 recipes=0
    set -- 1
  fi
  awk -F'[ ,:]+' -v most="$recipes" '$3 == "state" && !number[$2] { number[$2] = ++found }
    $3 != "state" || number[$2] <= most' "$expected" >"$in_some"
  for threads; do
    status=0 some=() wanted=$expected
    [ "$threads" -lt "$slow_from" ] || some=(--recipes "$recipes") wanted=$in_some
    hashes "$variant" --isa "$isa" --threads "$threads" "${some[@]}" >"$text" || status=$?
    [ "$status" -ne 5 ] || skip "this processor does not run $isa"
    [ "$status" -eq 0 ] || exit 1
    diff "$wanted" "$text" || {
      echo "$variant, $isa, $threads threads: other bits (> above) than g++ -O1, portable, one thread (<)"
      exit 1
    }
    echo "$variant, $isa, $threads threads: the same $(wc -l <"$text") lines"
  done
}

# The states that zeroproof ends on, from the same configuration: the program above is the product.
product() {
  local stage recipe wanted got
  while read -r stage recipe wanted; do
    got=$("$1" verify --ranks 2 --model tiny --steps 2 --micro-batches 4 --stages "$stage" --recipe "$recipe" |
      sed -n 's/^hash \([0-9a-f]*\).*/\1/p')
    echo "$stage, $recipe: zeroproof $got, portable_hash $wanted"
    [ "$got" = "$wanted" ] || exit 1
  done < <(awk -F'[ ,:]+' '$3 == "state" { last[$1 " " $2] = $4 } END { for (run in last) print run, last[run] }' \
    "$expected")
}

# ---- Controls

# refuses WORDS COMMAND…: the command must end with exit code 5 and say these words.
refuses() {
  local words=$1 status=0 said
  shift
  said=$("$@" 2>&1 >"$scratch/printed") || status=$?
  printed=$(wc -l <"$scratch/printed")
  echo "exit $status after $printed lines: $said"
  [ "$status" -ne 77 ] || skip "$said"
  [ "$status" -eq 5 ] && [[ $said == *"$words"* ]]
}

# sabotaged CHANGE THREAD COMMAND…
sabotaged() {
  local change=$1 thread=$2
  shift 2
  env LD_PRELOAD="$folder/gcc-O1/libsabotage.so" ZP_SABOTAGE="$change:$thread" "$@"
}

# All that a thread may do to its arithmetic, in the first thread, in a kernel's worker and in a rank: the program runs
# kernels first, so that with one kernel thread the first thread it starts is a rank.
refused_thread() {
  local hash=$folder/gcc-O1/portable_hash change=$1 words=$2 printed
  [ -x "$hash" ] || skip "gcc-O1 was not built"
  refuses "$words" sabotaged "$change" 0 "$hash" && [ "$printed" -eq 0 ] || return 1
  refuses "$words" sabotaged "$change" 1 "$hash" --threads 3 && [ "$printed" -eq 0 ] || return 1
  refuses "$words" sabotaged "$change" 2 "$hash" --threads 3 && [ "$printed" -eq 0 ] || return 1
  refuses "$words" sabotaged "$change" 1 "$hash" && [ "$printed" -gt 0 ] || return 1
  refuses "$words" sabotaged "$change" 2 "$hash" && [ "$printed" -gt 0 ] || return 1
  # Where nothing is changed, the same library does no harm.
  sabotaged nothing 1 "$hash" | diff "$expected" -
}

refused_product() {
  local options=(verify --ranks 2 --model tiny --steps 1 --stages zero3 --threads 2) words="flushes subnormal results" thread
  [ -e "$folder/gcc-O1/libsabotage.so" ] || skip "gcc-O1 was not built"
  for thread in 0 1 2 3 4; do
    refuses "$words" sabotaged flush "$thread" "$1" "${options[@]}" || return 1
  done
}

# A file compiled with fast-math must not compile, and must say why.
refused_fast_math() {
  local compiler=$1 file flags said
  command -v "$compiler" >/dev/null || skip "$compiler is not installed"
  for flags in -ffast-math -Ofast; do
    for file in harness/base/float_environment.cpp kernels/host/gemm.isa.cpp; do
      if said=$("$compiler" -std=c++20 -I"$root" -DZP_ISA=portable -DZP_ISA_AVX2=0 "$flags" -fsyntax-only \
        "$root/$file" 2>&1); then
        echo "$compiler $flags compiles $file"
        return 1
      fi
      echo "$said" | grep -m 1 "the arithmetic contract forbids fast-math" || return 1
    done
  done
}

refused_beside_fast_math() {
  local major
  major=$(g++ -dumpversion)
  [ "${major%%.*}" -lt 13 ] || skip "from version 13, g++ links no library so that it changes a process's arithmetic"
  [ -x "$folder/gcc-O1/portable_hash_beside_fast_math" ] || skip "gcc-O1 was not built"
  refuses "flushes subnormal results" "$folder/gcc-O1/portable_hash_beside_fast_math"
}

refused_contracted_kernels() {
  local isa
  for isa in "$@"; do
    [ "$isa" = portable ] || hashes gcc-O3 --isa "$isa" >/dev/null || continue  # not on this processor
    refuses "kernels: the compiler fused" hashes gcc-O3/contracted_kernels --isa "$isa" || return 1
  done
}

refused() {
  local control=$1
  shift
  case $control in
    contracted-kernels) refused_contracted_kernels portable avx2 avx512 ;;
    contracted-rest) refuses "the compiler fused a product and a sum" hashes gcc-O3/contracted_rest --isa portable ;;
    fast-math-gcc) refused_fast_math g++ ;;
    fast-math-clang) refused_fast_math clang++ ;;
    beside-fast-math) refused_beside_fast_math ;;
    flushed-results) refused_thread flush "flushes subnormal results" ;;
    flushed-operands) refused_thread zeros "takes subnormal operands for zero" ;;
    rounded-upward) refused_thread upward "does not round to nearest even" ;;
    flushed-product) refused_product "$@" ;;
    *)
      echo "no control is called $control" >&2
      exit 6
      ;;
  esac
}

command=$1
shift
case $command in
  build) build "$@" ;;
  reference) hashes gcc-O1 --isa portable --threads 1 >"$expected" ;;
  same) same "$@" ;;
  product) product "$@" ;;
  refused) refused "$@" ;;
  *)
    echo "no command is called $command" >&2
    exit 6
    ;;
esac
