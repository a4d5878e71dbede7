#!/usr/bin/env bash
# Sets everything up and runs all tests. Ends with ctest's summary and what each section took.
#
#   ./test.sh             the full suite (with the CUDA device where CUDA Toolkit and cuDNN are found); the
#                         suites under AddressSanitizer and UndefinedBehaviorSanitizer;
#                         ThreadSanitizer over what runs in one process
#   ./test.sh quick       unit and lint tests of the release build
#   ./test.sh tidy        each header compiled alone, and clang-tidy over every file (half an hour on two cores)
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

# What each section took, as a table; also where a section fails, which is then the last.
sections=()
began=()
section() {
  sections+=("$1")
  began+=("$SECONDS")
  printf '\n== %s (%s s)\n' "$1" "$SECONDS"
}
table() {
  local i end
  printf '\n%8s  section\n' seconds
  for i in "${!sections[@]}"; do
    end=${began[i + 1]:-$SECONDS}
    printf '%8d  %s\n' $((end - began[i])) "${sections[i]}"
  done
  printf '%8d  in all\n' "$SECONDS"
}
building=
finish() {
  if [[ -n $building ]]; then
    kill -- "-$building" 2>/dev/null || true
  fi
  table
}
trap finish EXIT

section "release: set-up and build"
./setup.sh --tests
if grep -q '^KERF_CUDA:BOOL=ON' build/release/CMakeCache.txt; then
  echo "The CUDA device is compiled and linked; its tests skip where there is no GPU."
else
  echo "CUDA Toolkit or cuDNN was not found: the CUDA device is not compiled."
fi

case $suite in
  quick)
    section "release: unit and lint tests"
    ctest --preset quick
    exit
    ;;
  tidy)
    section "headers, each alone"
    ctest --test-dir build/release -R '^headers$'
    section "clang-tidy"
    python3 tests/lint/tidy.py build/release --jobs "$jobs"
    exit
    ;;
esac

section "AddressSanitizer and UndefinedBehaviorSanitizer: build"
./setup.sh --tests asan
# Many tests wait more than they work: the next build takes what they leave, and nothing that they want.
section "AddressSanitizer and UndefinedBehaviorSanitizer: tests, beside ThreadSanitizer's build"
setsid nice -n 19 ./setup.sh --tests tsan >build/tsan-setup.log 2>&1 &
building=$!
tested=0
ctest --preset asan --progress || tested=$?
section "ThreadSanitizer: what is left of the build of the suites of one process"
renice -n 0 -g "$building" &>/dev/null || true
built=0
wait "$building" || built=$?
building=
cat build/tsan-setup.log
((tested == 0 && built == 0)) || exit 1
section "ThreadSanitizer: tests"
ctest --preset tsan --progress

section "release: all tests"
ctest --preset full
