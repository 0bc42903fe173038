#!/usr/bin/env bash
# run_under_mpi.sh RANKS PROGRAM ARGUMENTS...: Open MPI's mpirun on this machine alone, more ranks than cores allowed.
# Exit code 77: there is no mpirun, the test is skipped.
set -euo pipefail
ranks=$1
shift
if ! command -v mpirun > /dev/null; then
  echo "skipped: there is no mpirun (Debian: openmpi-bin)"
  exit 77
fi
# More ranks than cores: without yielding, MPI's own waiting takes the cores from the ranks that work.
options=(--oversubscribe --bind-to none --mca btl "self,vader" --mca btl_vader_single_copy_mechanism none
         --mca mpi_yield_when_idle 1)
[ "$(id -u)" -ne 0 ] || options+=(--allow-run-as-root)
exec mpirun "${options[@]}" -n "$ranks" "$@"
