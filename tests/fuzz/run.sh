#!/usr/bin/env bash
# Fuzzes readers, one after the other: run.sh [SECONDS] [TARGET...]; a minute of each by default. The preset fuzz must
# have been built. What is found is kept and begun with the next time; what ends a reader is left in build/fuzz/faults/.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-60}
shift $(($# > 0 ? 1 : 0))
programs=build/fuzz/tests/fuzz
targets=("$@")
if ((${#targets[@]} == 0)); then
  mapfile -t targets < <(find "$programs" -maxdepth 1 -name '*_fuzz' -printf '%f\n' | sed 's/_fuzz$//' | sort)
fi
rm -rf build/fuzz/seeds
mkdir -p build/fuzz/seeds build/fuzz/faults
"$programs/fuzz_seeds" build/fuzz/seeds tests
failed=()
for target in "${targets[@]}"; do
  mkdir -p "build/fuzz/corpus/$target"
  echo "== $target"
  ASAN_OPTIONS=quarantine_size_mb=16 OMP_NUM_THREADS=1 "$programs/${target}_fuzz" \
    -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=3000 -print_final_stats=0 -verbosity=0 \
    -artifact_prefix="build/fuzz/faults/$target-" "build/fuzz/corpus/$target" "build/fuzz/seeds/$target" ||
    failed+=("$target")
done
if ((${#failed[@]})); then
  echo "run.sh: error: faults of ${failed[*]}: build/fuzz/faults/"
  exit 1
fi
echo "${#targets[@]} readers, $seconds s each: no fault"
