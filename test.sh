#!/usr/bin/env bash
# Sets everything up and runs all tests. Ends with ctest's summary and what each section took.
#
#   ./test.sh             the full suite (with the CUDA device where CUDA Toolkit and cuDNN are found), and under
#                         AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer the lowest floor, which
#                         talks to strangers and shares memory, and what reads bytes from outside elsewhere (the tests
#                         that are labelled sanitized)
#   ./test.sh quick       unit and lint tests of the release build
#   ./test.sh sanitizers  all suites under AddressSanitizer and UndefinedBehaviorSanitizer, and under
#                         ThreadSanitizer all that runs in one process (an hour on two cores)
#   ./test.sh tidy        each header compiled alone, and clang-tidy over every file (half an hour on two cores)
set -euo pipefail
cd "$(dirname "$0")"
suite=${1:-full}
case $suite in
  full | quick | sanitizers | tidy) ;;
  *)
    echo "test.sh: error: unknown argument '$suite' (there are quick, sanitizers and tidy)" >&2
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

# Builds presets in the background, one after the other, beside tests, which mostly wait: it takes what they leave, and nothing that
# they want. As a group of processes, to be ended together, but not as a session, which Linux would give as much as that of
# the tests.
begin_build() {
  set -m
  (for preset in "$@"; do nice -n 19 ./setup.sh --tests $preset || exit; done) >build/beside.log 2>&1 &
  building=$!
  set +m
}
# What is left of it; whether both it and the tests, whose exit code is told, are well.
end_build() {
  local built=0
  section "what is left of the build"
  renice -n 0 -g "$building" &>/dev/null || true
  wait "$building" || built=$?
  building=
  cat build/beside.log
  (($1 == 0 && built == 0)) || exit 1
}
tested=0

if [[ $suite == sanitizers ]]; then
  section "asan: set-up and build"
  ./setup.sh --tests asan
  section "asan: tests, beside the build of tsan"
  begin_build tsan
  ctest --preset asan --progress || tested=$?
  end_build "$tested"
  section "tsan: tests"
  ctest --preset tsan --progress
  exit
fi

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

section "release: all tests, beside the builds of asan and tsan"
begin_build "asan sanitized_tests" "tsan sanitized_tests"
ctest --preset full || tested=$?
end_build "$tested"

section "asan and tsan: what is labelled sanitized"
ctest --preset asan-sanitized --progress
ctest --preset tsan-sanitized --progress
