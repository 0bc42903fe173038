#!/usr/bin/env bash
# Tutti against Open MPI, in turn in one process: bench/race.sh [RANKS] [race options]; over shared memory, or with
# RACE_TRANSPORT=tcp over loopback TCP. RACE_MPI holds further options of mpirun.
# Open MPI's best settings: vader without single copy, and a malloc that keeps its memory (else it pays a page fault
# for every 4 KiB of its temporary buffers: 2 to 4 times slower from 256 KiB up).
# On a machine with other work, `chrt -r 20 bench/race.sh` as root keeps the cores for the race.
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
options=(--mca pml ob1 --oversubscribe)
if [ "${RACE_TRANSPORT:-shm}" = tcp ]; then
  export TUTTI_TRANSPORT=tcp
  options+=(--mca btl "self,tcp" --mca btl_tcp_if_include lo -x TUTTI_TRANSPORT)
else
  options+=(--mca btl "self,vader" --mca btl_vader_single_copy_mechanism none)
fi
read -ra more <<< "${RACE_MPI:-}"
options+=("${more[@]}")
[ "$(id -u)" -ne 0 ] || options+=(--allow-run-as-root)
# More ranks than cores: Open MPI is hopeless unless it yields.
[ "$ranks" -le "$(nproc)" ] || options+=(--bind-to none --mca mpi_yield_when_idle 1)
export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184
exec mpirun "${options[@]}" -x MALLOC_MMAP_MAX_ -x MALLOC_TRIM_THRESHOLD_ -n "$ranks" "$program" "$@"
