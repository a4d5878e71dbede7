#!/usr/bin/env bash
# Fuzzes readers, one after the other: run.sh [SECONDS] [READER...]; a minute of each by default. The preset fuzz must
# have been built. What is found is kept and begun with the next time; what ends a reader is left in build/fuzz/faults/.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-60}
shift $(($# > 0 ? 1 : 0))
programs=build/fuzz/tests/fuzz
models=/usr/share/libonnx-testdata/data  # of Debian's package; fuzzing goes without, less deep
rm -rf build/fuzz/seeds
mkdir -p build/fuzz/seeds build/fuzz/faults
"$programs/fuzz_seeds" build/fuzz/seeds $([[ -d $models ]] && echo "$models")
readers=("$@")
((${#readers[@]})) || mapfile -t readers < <(ls build/fuzz/seeds)
failed=()
for reader in "${readers[@]}"; do
  mkdir -p "build/fuzz/corpus/$reader"
  echo "== $reader"
  KERF_READER=$reader ASAN_OPTIONS=quarantine_size_mb=16 OMP_NUM_THREADS=1 "$programs/fuzz_reader" \
    -max_total_time="$seconds" -max_len=65536 -timeout=60 -rss_limit_mb=3000 -print_final_stats=0 -verbosity=1 \
    -artifact_prefix="build/fuzz/faults/$reader-" "build/fuzz/corpus/$reader" "build/fuzz/seeds/$reader" \
    >"build/fuzz/$reader.log" 2>&1 || failed+=("$reader")
  # How much of the code the seeds reached, and how much what came of them.
  grep -E 'INITED|DONE|SUMMARY|terminate|what\(\)' "build/fuzz/$reader.log" || true
done
if ((${#failed[@]})); then
  echo "run.sh: error: faults of ${failed[*]}: build/fuzz/faults/, build/fuzz/READER.log"
  exit 1
fi
echo "${#readers[@]} readers, $seconds s each: no fault"
