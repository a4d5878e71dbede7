#!/usr/bin/env bash
# clang-tidy over the floors and the command, in parallel: tidy.sh BUILD_FOLDER [JOBS] [FILE...]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
jobs=${2:-$(nproc)}
shift $(($# < 2 ? $# : 2))

files=("$@")
if ((${#files[@]} == 0)); then
  mapfile -t files < <(find runtime ops partitioner schedmp apps -name '*.cc' -not -path '*/cuda/*' | sort)
fi
arguments=(-p "$build" --quiet --extra-arg=-Wno-unknown-warning-option
  --extra-arg=-include --extra-arg="$PWD/tests/lint/clang14_source_location.h")
printf '%s\n' "${files[@]}" | xargs -P "$jobs" -n 4 clang-tidy "${arguments[@]}" 2>/dev/null || {
  echo "tidy.sh: error: clang-tidy has complaints"
  exit 1
}
echo "clang-tidy: ${#files[@]} files are clean"
