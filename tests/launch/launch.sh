#!/usr/bin/env bash
# launch.sh LAUNCHER PROGRAM ARGUMENTS...: three ranks of tutti-perf under a launcher; checks what it prints.
# Exit code 77: this launcher is not here, the test is skipped.
# Covers comm/rendezvous/launcher.cc, comm/rendezvous/pmi1.cc, comm/rendezvous/pmix.cc.
set -euo pipefail
launcher=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
output=$(mktemp)
logs=$(mktemp -d)
trap 'rm -rf "$output" "$logs"' EXIT

need() { # PROGRAM PACKAGE
  command -v "$1" > /dev/null || { echo "skipped: there is no $1 ($2)"; exit 77; }
}
open_mpi() {
  need mpirun "Debian: openmpi-bin"
  local options=(--oversubscribe --bind-to none)
  [ "$(id -u)" -ne 0 ] || options+=(--allow-run-as-root)
  mpirun "${options[@]}" -n 3 "$@"
}

run() {
  case $launcher in
    mpirun) open_mpi "$@" ;;
    # As if each rank were on a host of its own: the id then travels through PMIx.
    mpirun_pmix) open_mpi env OMPI_COMM_WORLD_LOCAL_SIZE=1 "$@" ;;
    hydra) need mpiexec.hydra "Debian: mpich"; mpiexec.hydra -n 3 "$@" ;;
    hydra_port) need mpiexec.hydra "Debian: mpich"; mpiexec.hydra -pmi-port -n 3 "$@" ;;
    torchrun_like) python3 "$here/torchrun_like.py" 3 "$@" ;;
    torchrun)
      need torchrun "Debian: python3-torch"
      # Output by log files, each line behind the rank's name: torch 1.13 with Python 3.11 knows no other way.
      torchrun --no_python --nnodes 1 --nproc_per_node 3 --master_port "$((10000 + $$ % 10000))" \
        --redirects 1 --tee 1 --log_dir "$logs" "$@" | sed 's/^\[[^]]*\]://'
      ;;
    *) echo "unknown launcher $launcher" >&2; exit 2 ;;
  esac
}

run "$@" > "$output" 2>&1 || { code=$?; cat "$output"; exit "$code"; }
cat "$output"
grep -q '^# ranks 3 (from a launcher)' "$output" || { echo "FAILED: not three ranks of one launch"; exit 1; }
grep -q '^# Out of bounds values : 0 OK' "$output" || { echo "FAILED: no checked results"; exit 1; }
