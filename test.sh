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

section "set-up and release build"
./setup.sh --tests

case $suite in
  quick) exec ctest --preset quick ;;
  tidy) exec tests/lint/tidy.sh build/release "$jobs" ;;
esac

section "AddressSanitizer and UndefinedBehaviorSanitizer"
./setup.sh --tests asan
ctest --preset asan --progress

section "ThreadSanitizer: the suites of one process"
./setup.sh --tests tsan
ctest --preset tsan --progress

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
if [[ -n $nvcc ]]; then
  section "CUDA: compile and link with $nvcc"
  PATH="$(dirname "$nvcc"):$PATH" ./setup.sh --tests cuda
  ctest --preset gpu --progress
else
  section "CUDA: no nvcc here, so the CUDA device is not compiled"
fi

section "all tests of the release build"
ctest --preset full
