#!/usr/bin/env bash
# clang-tidy over every file, in parallel: tidy.sh BUILD_FOLDER [JOBS] [FILE...]. The build is one that compiles
# files one by one (dev); it needs to be configured only.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
jobs=${2:-$(nproc)}
shift $(($# < 2 ? $# : 2))

files=("$@")
if ((${#files[@]} == 0)); then
  mapfile -t files < <(find runtime ops partitioner schedmp apps tests bench -name '*.cc' \
    -not -path '*/cuda/*' -not -path 'tests/consumer/*' | sort)
fi
# clang-tidy shrugs at a .clang-tidy that it cannot read, and then looks for next to nothing.
if ! complaint=$(clang-tidy --dump-config "${files[0]}" -- 2>&1 >/dev/null) || [[ -n $complaint ]]; then
  echo "tidy.sh: error: clang-tidy cannot read .clang-tidy: $complaint"
  exit 1
fi
arguments=(-p "$build" --quiet --extra-arg=-Wno-unknown-warning-option
  --extra-arg=-include --extra-arg="$PWD/tests/lint/clang14.h")
printf '%s\n' "${files[@]}" | xargs -P "$jobs" -n 4 clang-tidy "${arguments[@]}" 2>/dev/null || {
  echo "tidy.sh: error: clang-tidy has complaints"
  exit 1
}
echo "clang-tidy: ${#files[@]} files are clean"
