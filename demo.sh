#!/usr/bin/env bash
# Sets everything up and trains LeNet-5 on Fashion-MNIST, cut over three worker processes.
#
#   ./demo.sh                 five epochs, about a minute
#   ./demo.sh --epochs 1      further arguments go to kerf train and replace those below
set -euo pipefail
cd "$(dirname "$0")"
./setup.sh

exec build/release/bin/kerf train lenet5 --data fashion-mnist --workers 3 --cut layer \
  --schedule 1f1b --micro-batches 8 --batch 128 --epochs 5 --seed 1 --lr 0.02 --momentum 0.9 \
  --out kerf-run "$@"
