#!/usr/bin/env bash
# Tutti against Open MPI over shared memory, in turn in one process: bench/race.sh [RANKS] [race options]
# Open MPI's best settings here: vader without single copy, and malloc that keeps its memory.
set -euo pipefail
cd "$(dirname "$0")/.."
ranks=2
if [[ ${1:-} =~ ^[0-9]+$ ]]; then
  ranks=$1
  shift
fi
program=${RACE_PROGRAM:-build/release/bench/race}
if [ ! -x "$program" ]; then
  tools/setup.sh
  cmake --preset release > /dev/null
  cmake --build build/release --target race
fi
options=(--mca pml ob1 --mca btl "self,vader" --mca btl_vader_single_copy_mechanism none --oversubscribe)
[ "$(id -u)" -ne 0 ] || options+=(--allow-run-as-root)
# More ranks than cores: Open MPI is hopeless unless it yields.
[ "$ranks" -le "$(nproc)" ] || options+=(--bind-to none --mca mpi_yield_when_idle 1)
export MALLOC_MMAP_MAX_=0
exec mpirun "${options[@]}" -x MALLOC_MMAP_MAX_ -n "$ranks" "$program" "$@"
