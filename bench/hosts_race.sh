#!/usr/bin/env bash
# Tutti against Open MPI's TCP between hosts of this machine (tools/hosts.py), in turn in one program:
#   bench/hosts_race.sh [HOSTS [RANKS-A-HOST [RATE]]] [-- hosts_race options]     RATE: 1gbit, ...; none: unlimited
#   -- -J FILE: the medians as JSON as well
# Needs root. RACE_PROGRAM: another build's hosts_race. RACE_MPI: more options of mpirun.
set -euo pipefail
cd "$(dirname "$0")/.."
hosts=2 per_host=1 rate=
[[ ! ${1:-} =~ ^[0-9]+$ ]] || { hosts=$1; shift; }
[[ ! ${1:-} =~ ^[0-9]+$ ]] || { per_host=$1; shift; }
[[ ! ${1:-} =~ ^[0-9].*bit$ ]] || { rate=$1; shift; }
[ "${1:-}" != -- ] || shift
program=${RACE_PROGRAM:-build/release/bench/hosts_race}
if [ ! -x "$program" ]; then
  tools/setup.sh
  cmake --preset release > /dev/null
  cmake --build build/release --target hosts_race
fi
limit=() raw=()
if [ -n "$rate" ]; then
  limit=(-r "$rate")
  case $rate in
    *gbit) raw=(--raw "${rate%gbit}") ;;
    *mbit) raw=(--raw "$(awk "BEGIN { print ${rate%mbit} / 1000 }")") ;;
  esac
fi
# As in race.sh: a malloc that keeps its memory. Ranks that share cores must yield.
options="--mca pml ob1 --mca btl self,vader,tcp --mca btl_vader_single_copy_mechanism none"
[ $((hosts * per_host)) -le "$(nproc)" ] || options+=" --mca mpi_yield_when_idle 1"
export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184
options+=" -x MALLOC_MMAP_MAX_ -x MALLOC_TRIM_THRESHOLD_ ${RACE_MPI:-}"
echo "# $hosts hosts, $per_host ranks a host, links ${rate:-unlimited}"
exec tools/hosts.py mpirun -H "$hosts" -n "$per_host" ${limit[@]+"${limit[@]}"} -o "$options" -- \
  "$(realpath "$program")" --hosts "$hosts" ${raw[@]+"${raw[@]}"} "$@"
