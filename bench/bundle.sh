#!/usr/bin/env bash
# Packs what a machine with a GPU needs to test and measure Kerf: the kerf command, the tests labelled gpu, the
# benchmark of operators, and every shared library that they load but the C library, the driver, the CUDA Toolkit's
# and cuDNN. The archive unpacks into kerf-gpu/; kerf-gpu/run.sh runs everything and prints one table last.
#
#   bench/bundle.sh [BUILD [ARCHIVE]]     default: build/release, build/kerf-gpu.tar.xz
#
# The other machine: x86-64 Linux with a C library at least as new as this one's, CUDA 13 and cuDNN 9.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
archive=${2:-build/kerf-gpu.tar.xz}
most=$((48 * 1024 * 1024))

[[ -f $build/CTestTestfile.cmake ]] || {
  echo "bundle.sh: error: $build is no build with tests; run ./setup.sh --tests first" >&2
  exit 2
}

# Name and program of every test labelled gpu, one a line.
gpu_tests() {
  ctest --test-dir "$build" -L '^gpu$' --show-only=json-v1 |
    python3 -c 'import json, sys
for test in json.load(sys.stdin)["tests"]:
    print(test["name"], test["command"][0])'
}

mapfile -t tests < <(gpu_tests)
((${#tests[@]})) || { echo "bundle.sh: error: $build has no test labelled gpu" >&2; exit 1; }
programs=("$build/bin/kerf" "$build/bench/operator_bench")
for test in "${tests[@]}"; do programs+=("${test#* }"); done

targets=()
for program in "${programs[@]}"; do targets+=("$(basename "$program")"); done
cmake --build "$build" --target "${targets[@]}" >&2

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
root=$stage/kerf-gpu
mkdir -p "$root/bin" "$root/lib"
for program in "${programs[@]}"; do strip -o "$root/bin/$(basename "$program")" "$program"; done

# "libzmq.so.5 => /usr/lib/.../libzmq.so.5 (0x...)": the name that is looked for, and where it is.
# What the other machine has is in bundle_outside.txt.
outside="^($(paste -sd'|' bench/bundle_outside.txt))[.-]"
for program in "${programs[@]}"; do ldd "$program"; done |
  awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u |
  while read -r name path; do
    [[ $name =~ $outside ]] || strip -o "$root/lib/$name" "$(readlink -f "$path")"
  done

for test in "${tests[@]}"; do echo "${test%% *} $(basename "${test#* }")"; done >"$root/tests.txt"
cp bench/bundle_run.sh "$root/run.sh"
chmod +x "$root/run.sh"
tar -C "$stage" -cJf "$archive" kerf-gpu
bytes=$(stat -c %s "$archive")
((bytes <= most)) || { echo "bundle.sh: error: $archive has $bytes bytes, more than $most" >&2; exit 1; }
echo "$archive: $bytes bytes, ${#tests[@]} tests"
