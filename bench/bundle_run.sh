#!/usr/bin/env bash
# Runs all that bench/bundle.sh packed on a GPU, and prints one table last. Exit code 1 if anything failed.
#
#   kerf-gpu/run.sh [DEVICE]     default: cuda:0; with cpu the tests of GPUs skip, and all else runs
#
# CUDA and cuDNN are looked for in CUDA_HOME (default /usr/local/cuda), cuDNN in CUDNN_ROOT too. What the programs say is kept in kerf-gpu/log/.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
device=${1:-cuda:0}
cuda=${CUDA_HOME:-/usr/local/cuda}
cudnn=${CUDNN_ROOT:-$cuda}
export LD_LIBRARY_PATH=$cuda/lib64:$cuda/lib:$cudnn/lib64:$cudnn/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
rows=()
failed=0
mkdir -p "$here/log"

# note NAME RESULT FIGURE
note() { rows+=("$(printf '%-52s %-8s %s' "$1" "$2" "$3")"); }

# fail NAME WHY
fail() {
  failed=1
  note "$1" FAILED "$(cut -c1-160 <<<"$2")"
}

# attempt NAME COMMAND...: what it prints goes to log/NAME, its errors to log/NAME.errors, and the last line of
# these, or of that, is told where it fails.
attempt() {
  local name=$1 begin=$SECONDS
  local log=$here/log/$name
  shift
  echo "$name ..." >&2
  if "$@" >"$log" 2>"$log.errors"; then
    note "$name" ok "$((SECONDS - begin)) s"
  else
    local why
    why=$(cat "$log" "$log.errors" | grep -v '^[[:space:]]*$' | tail -n 1)
    fail "$name" "${why:-it ended with an error and said nothing}"
    return 1
  fi
}

attempt devices "$here/bin/kerf" devices && cat "$here/log/devices" >&2

# On a GPU the cases whose names say that they are of one; some must have run.
of_gpu=0
cases='*'
[[ $device == cuda* ]] && cases='*cuda*:*Cuda*:*OnAGpu*'
while read -r name program; do
  if attempt "$name" "$here/bin/$program" --gtest_brief=0 --gtest_filter="$cases"; then
    log=$here/log/$name
    skipped=$(grep -c '^\[  SKIPPED \].* ms)$' "$log")
    rows[-1]+=", $(grep -c '^\[       OK \]' "$log") cases, $skipped skipped"
    of_gpu=$((of_gpu + $(grep -cE '^\[       OK \].*(/cuda|cuda_0|Cuda|OnAGpu)' "$log")))
  fi
done <"$here/tests.txt"
if [[ $device == cuda* ]] && ((of_gpu == 0)); then
  fail "tests of GPUs" "no case ran on a GPU: all were skipped"
fi

# The losses of every step, as the report has them.
losses() { sed -n '/^  "losses"/,/\]/p' "$here/log/$1"; }
# LeNet-5 on what one can learn, on one worker and on two, which must come to the same bits.
least_accuracy=0.98
for workers in 1 2; do
  name=train-lenet5-$workers-workers
  if attempt "$name" "$here/bin/kerf" train lenet5 --data synthetic:8192x784x10 --epochs 2 --workers "$workers" \
    --device "$device" --json; then
    accuracy=$(sed -n 's/^  "accuracy": \([0-9.e-]*\),*$/\1/p' "$here/log/$name")
    speed=$(sed -n 's/^  "images_per_second": \([0-9]*\).*/\1/p' "$here/log/$name")
    rows[-1]+=", $speed images/s, accuracy $accuracy"
    awk -v a="${accuracy:-0}" -v least="$least_accuracy" 'BEGIN { exit !(a >= least) }' ||
      fail "$name: accuracy" "${accuracy:-none} is below $least_accuracy"
  fi
done
if [[ -n $(losses train-lenet5-1-workers) && $(losses train-lenet5-1-workers) == "$(losses train-lenet5-2-workers)" ]]; then
  note "same losses on 1 and 2 workers" ok "to the last bit"
else
  fail "same losses on 1 and 2 workers" "they differ: log/train-lenet5-*-workers"
fi

# "Relu/F|0.123|ms|" of every benchmark in Google Benchmark's JSON, with the error behind it where there was one.
benchmarks() {
  awk '/^ *"(name|real_time|time_unit|error_message)": / {
         key = $1; gsub(/[":]/, "", key)
         value = $0; sub(/^[^:]*: /, "", value); sub(/,$/, "", value); gsub(/^"|"$/, "", value)
         of[key] = value
       }
       /^    }/ && of["name"] != "" {
         sub(/\/manual_time$/, "", of["name"])
         printf "%s|%.4g|%s|%s\n", of["name"], of["real_time"], of["time_unit"], of["error_message"]
         delete of
       }' "$1"
}
if attempt operators "$here/bin/operator_bench" --device "$device" --benchmark_min_time=0.1 \
  --benchmark_format=json; then
  while IFS='|' read -r name real unit why; do
    if [[ -n $why ]]; then fail "$name" "$why"; else note "$name" ok "$real $unit a call"; fi
  done < <(benchmarks "$here/log/operators")
fi

printf '\n%-52s %-8s %s\n' "on $device" result figure
printf '%s\n' "${rows[@]}"
exit "$failed"
