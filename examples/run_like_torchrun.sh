#!/usr/bin/env bash
# run_like_torchrun.sh RANKS PROGRAM...: starts RANKS processes with the variables that torchrun sets.
set -euo pipefail
ranks=$1
shift
# Below the ports that the system gives to connections: another program may have one of those by chance.
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 12000)) WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks
pids=()
for ((rank = 0; rank < ranks; ++rank)); do
  RANK=$rank LOCAL_RANK=$rank "$@" &
  pids+=($!)
done
code=0
for pid in "${pids[@]}"; do wait "$pid" || code=1; done
exit $code
