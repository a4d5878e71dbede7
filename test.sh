#!/usr/bin/env bash
# Sets everything up and runs all tests. Ends with ctest's summary.
#
#   ./test.sh             the full suite; the suites under AddressSanitizer and
#                         UndefinedBehaviorSanitizer; ThreadSanitizer over what runs in one process;
#                         a CUDA build where nvcc is found
#   ./test.sh quick       unit and lint tests of the release build
#   ./test.sh tidy        clang-tidy over every file (a quarter of an hour on two cores)
set -euo pipefail
cd "$(dirname "$0")"
suite=${1:-full}
case $suite in
  full | quick | tidy) ;;
  *)
    echo "test.sh: error: unknown argument '$suite' (there are quick and tidy)" >&2
    exit 2
    ;;
esac
exec </dev/null
export CTEST_OUTPUT_ON_FAILURE=1
jobs=$(nproc)

section() { printf '\n== %s (%s s)\n' "$1" "$SECONDS"; }

# Builds a preset, printing only what matters, and runs its tests.
build() {
  cmake --preset "$1" >build/"$1".log 2>&1 || {
    cat build/"$1".log
    exit 1
  }
  cmake --build --preset "$1" 2>&1 | tee build/"$1".log |
    awk -F'[][/]' '/^\[[0-9]+\/[0-9]+\]/ && $2 > 0 && $2 % 25 == 0 { print "  " $2 " of " $3; fflush() }' || {
    grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking)' build/"$1".log
    echo "test.sh: error: the $1 build failed"
    exit 1
  }
}

section "set-up and release build"
./setup.sh --tests

case $suite in
  quick) exec ctest --preset quick ;;
  tidy) exec tests/lint/tidy.sh build/release "$jobs" ;;
esac

section "AddressSanitizer and UndefinedBehaviorSanitizer"
build asan
ctest --preset asan --progress

section "ThreadSanitizer: the suites of one process"
build tsan
ctest --preset tsan --progress

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
if [[ -n $nvcc ]]; then
  section "CUDA: compile and link with $nvcc"
  PATH="$(dirname "$nvcc"):$PATH" build cuda
  ctest --preset gpu --progress
else
  section "CUDA: no nvcc here, so the CUDA device is not compiled"
fi

section "all tests of the release build"
ctest --preset full
