#!/usr/bin/env bash
# Everything that is checked of the tree, part by part: g++ build and all tests, README's promises, the report page,
# the oracle on dumps (it needs pip and its registry), clang build with the address and undefined-behaviour sanitizers,
# format, clang-tidy, thread sanitizer. Every part runs, whatever failed before; the last line is "N passed, N failed",
# each test and each check counted once. Exit 0 only where none failed. What runs on one core (Python) runs beside a
# compiler.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
source scripts/mpi_env.sh

cores=$(nproc)
logs=build/test-logs
results=$logs/results # a line each: how many passed, failed, were skipped, and where

heading() { printf '\n== %s (after %d min %02d s)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }

# check NAME COMMAND…: one check. Shows the end of what the command said where it fails.
check() {
  local name=$1 log="$logs/${1//[^A-Za-z0-9]/_}.log" began=$SECONDS
  shift
  if "$@" >"$log" 2>&1 </dev/null; then
    echo "1 0 0 $name" >>"$results"
    echo "ok      $name ($((SECONDS - began)) s)"
    return 0
  fi
  echo "0 1 0 $name" >>"$results"
  tail -n 40 "$log"
  echo "FAILED  $name ($((SECONDS - began)) s; all of it: $log)"
  return 1
}

# tests NAME BUILD CTEST-ARGUMENTS…: every test counts. A test that could not start failed; only one that skips itself
# is skipped; and no test at all is a failure.
tests() {
  local name=$1 build=$2 began=$SECONDS counts run_failed run_passed run_skipped
  local log="$PWD/$logs/${name//[^A-Za-z0-9]/_}"
  shift 2
  rm -f "$log.xml"
  "${fixed_addresses[@]}" ctest --test-dir "$build" --output-on-failure --test-output-size-passed 100000 --output-junit "$log.xml" "$@" \
    >"$log.log" 2>&1 </dev/null
  counts=$(python3 - "$log.xml" <<'PYTHON'
import re
import sys
import xml.etree.ElementTree as tree

try:
    cases = list(tree.parse(sys.argv[1]).getroot().iter("testcase"))
except (OSError, tree.ParseError):
    cases = []
passed = failed = skipped = 0
for case in cases:
    reason = case.find("skipped")
    if case.get("status") == "run":
        # An executable may be run whole: its tests count, and none is a failure.
        said = case.findtext("system-out", "")
        ran = re.search(r"^\[=+\] Running (\d+) tests? from", said, re.MULTILINE)
        left = re.findall(r"^\[  SKIPPED \] (\S+)$", said.rpartition("listed below:")[2], re.MULTILINE)
        passed += (int(ran.group(1)) if ran else 1) - len(left)
        skipped += len(left)
        for name in left:
            print("  skipped: " + name, file=sys.stderr)
        if ran and ran.group(1) == "0":
            failed += 1
            print("  no test was run: " + case.get("name"), file=sys.stderr)
    elif reason is not None and "SKIP" in reason.get("message", ""):
        skipped += 1
        print("  skipped: " + case.get("name"), file=sys.stderr)
    else:
        failed += 1
        print("  " + case.get("name"), file=sys.stderr)
print(passed, failed if cases else 1, skipped)
PYTHON
  )
  read -r run_passed run_failed run_skipped <<<"$counts"
  echo "$counts $name" >>"$results"
  if [ "$run_failed" -gt 0 ]; then
    grep -vE '^ *[0-9]+/[0-9]+ Test .* Passed|^ *Start +[0-9]+' "$log.log" | tail -n 80
  fi
  echo "$name: $run_passed passed, $run_failed failed, $run_skipped skipped ($((SECONDS - began)) s)"
}

build() { # PRESET "TARGETS" CMAKE-ARGUMENTS…
  local preset=$1 targets
  read -ra targets <<<"$2"
  shift 2
  cmake --preset "$preset" --log-level=WARNING "$@" &&
    cmake --build --preset "$preset" --target "${targets[@]}" -j "$cores" -- -k 0
}

found() { grep -qE "^$1:[A-Z]+=/" build/CMakeCache.txt 2>/dev/null; }

# What a machine lacks for parts of CUDA.
say_what_is_left_out() {
  found ZP_NVCC_PROGRAM || echo "not run: compilation by nvcc, rules of PTX: nvcc was not found"
  found ZP_CUDA_INCLUDE || echo "not run: kernels and stages on the emulated device: cuda_runtime_api.h was not found"
  found ZP_CUBLASLT_INCLUDE || echo "not run: vendor arithmetic: cublasLt.h was not found"
  found ZP_NCCL_INCLUDE || echo "not run: transport nccl on the emulated NCCL: nccl.h was not found"
  compgen -G '/dev/nvidia[0-9]*' >/dev/null || echo "not run: kernels on a GPU: there is none"
}

sources() {
  find harness kernels correctness bench \( -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' \) "$@"
}

same_hash() {
  local folder line hashes=()
  for folder in build build-asan; do
    line=$("$folder/zeroproof" verify --model tiny --ranks 2 --steps 2 --stages zero2 | grep '^hash ') || return 1
    read -ra line <<<"$line"
    hashes+=("${line[1]}")
  done
  echo "g++ ${hashes[0]}, clang ${hashes[1]}"
  [ "${hashes[0]}" = "${hashes[1]}" ]
}

format() { sources -print0 | xargs -0 clang-format --dry-run -Werror; }

tidy() {
  scripts/tidy_units.py build-asan >"$logs/to_tidy" &&
    xargs -0 -P "$cores" -n 1 clang-tidy --quiet -p build-asan/tidy <"$logs/to_tidy"
}

python_syntax() {
  python3 - <<'PYTHON'
import pathlib
for path in [path for folder in ("scripts", "correctness", "bench") for path in pathlib.Path(folder).rglob("*.py")]:
    compile(path.read_text(encoding="utf-8"), str(path), "exec")
PYTHON
}

# Thread sanitizer wants its usual address space, which strongly randomised kernels do not give.
fixed_addresses=()
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed_addresses=(setarch "$(uname -m)" -R); fi

mkdir -p "$logs"
: >"$results"
heading "packages"
scripts/install.sh tests || exit 5

heading "g++, release: build and tests"
if check "g++ build" build release all -DZP_TESTS=ON -DZP_BENCH=ON -DZP_UNITY=ON; then
  say_what_is_left_out
  tests "unit tests" build -LE 'mpi|portability' -j $((cores + 1)) # some wait for a deadline
  tests "portability tests" build -L portability -j "$cores"
fi

# What README promises, records, pages, scripts and the oracle, and tests that mostly wait: they run beside a compiler.
beside() {
  tests "mpi tests" build -L mpi -j "$cores"
  check "promises" python3 correctness/scripts/promises_test.py build/zeroproof
  check "python syntax" python_syntax
  check "report page" /usr/bin/python3 correctness/scripts/report_test.py
  check "one hash on every layout in fixed point" correctness/scripts/i64_matrix.py --quick build/zeroproof
  if command -v shellcheck >/dev/null; then check "shellcheck" shellcheck -x scripts/*.sh .ci/run correctness/*/*.sh; fi
  check "build with the headers for a machine with a GPU" correctness/scripts/pack_build_test.py build build/pack-build
  check "clang-format" format
  check "oracle's packages from PyPI" correctness/scripts/oracle_env.sh build/oracle-env
  check "oracle" build/oracle-env/bin/python correctness/scripts/oracle_test.py build/zeroproof
  check "clang-tidy" tidy # of clang's build it needs the commands
}

# Sanitized code is slow: less optimisation, since it is compiled more than it is run, and without the longest trainings
# and gradient comparisons, whose code the shorter ones run too. clang builds all there is, and so is asked for its
# warnings; plain arithmetic and what is wrong on purpose are not run a second time. The thread sanitizer sees what has
# threads.
sanitized=(-DZP_TESTS=ON -DZP_UNITY=ON -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1")
long='*HoldsItsClaims*:*RoundsPartialSums*:*FoldsDeepTrees*:*SumsInFixedPoint*:Hash.IsOne*:*ReferenceGptGradient*'
long+=':*FiniteDifferences*:*_t1100_*:RandomConfigurations*:*nccl_w4*:*nccl_w3_ring*:*GathersEvery*/nccl_w2*'
long+=':*Proves*Emulated*:*Proves*Nccls*:*ProvesVendor*:*TimesVendor*:*InjectsFaultsOnTheEmulatedDevice*'
long+=':*m64_n48*:*_k1024*:*b2_t190*:*_t577_*:*_t512_*:*ReportsWhatIsNotFinite*:*DividesOnceAndRounds*:CudaFormulas*'
long+=':*attention*_long:KernelHash*:*KeepsOrRoundsEveryValue*:*TimesEveryStage*:Golden.*:ReferenceSums*:Reach*'
long+=':*MakesTheCallsOfTheNote*:CanonicalArithmetic*:HalfUsed*:*OneAndAHalfUlps*:*x1100*'
long+=':*MayWriteOverAnyInput*:*RankZeroAtWork*_w3:*RankZeroAtWork*_w4:*GivesUpAProcess*'
# Of numbers of ranks: three, and four where halving has several rounds with several collectives in flight.
for ranks in 5 6 7 8; do long+=":*_w${ranks}*"; done
for what in Gathers Scatters AllReduces SumsFixedPoint Converts; do long+=":*$what*_w4_halving*"; done
long+=':*_w2_*:*_w4_direct*:*_w4_ring*'
plain='*Mutants/*:*EveryLie*:*StageMemory*:*StageWork*:*StageTraffic*:Tree.*:*EveryFault*_zero1*:*EveryFault*_zero2*'
plain+=':*Late.*:*KeepsSeveral*_w3_ring*:*MovesBuckets*_w3_ring*:SquareSum*:*IsTheSlopeOfForward*'
threaded='All/*:*Waits*:*EveryStage.DependsOnPlaces*:*Keep.*:*Pool.*:*HostTable.*:*Wait.*:*Barriers.*:*Race*:*Racy*:*Right*'
# The emulated CUDA runtime is built where NVIDIA's headers are.
emulator_races=''
if found ZP_CUDA_INCLUDE; then emulator_races=' order_races_test kernel_races_test'; fi
if found ZP_NCCL_INCLUDE; then emulator_races+=' cuda_emulator_races_test'; fi
heading "mpi, promises, report page, scripts, the oracle; beside them clang, address and undefined-behaviour sanitizers"
beside &
if check "clang build" build asan all "${sanitized[@]}" -DZP_BENCH=ON; then
  check "one hash of g++ and clang" same_hash
  GTEST_FILTER="-$long:$plain" tests "asan tests" build-asan -LE 'mpi|bench-smoke' -E 'golden|kernel_hashes|reach|gpu_check|order_races' -j "$cores"
fi
heading "thread sanitizer"
threads="transport_test stages_test pool_test$emulator_races"
if check "tsan build" build tsan "$threads" "${sanitized[@]}"; then
  GTEST_FILTER="$threaded-$long" tests "tsan tests" build-tsan -R "^(${threads// /|})$" -j "$cores"
fi
wait

heading "all parts are done"
passed=0 failed=0 skipped=0
while read -r run_passed run_failed run_skipped name; do
  passed=$((passed + run_passed)) failed=$((failed + run_failed)) skipped=$((skipped + run_skipped))
  [ "$run_failed" -eq 0 ] || echo "FAILED  $name: $run_failed"
done <"$results"
summary="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || summary+=", $skipped skipped"
echo "$summary"
[ "$failed" -eq 0 ]
