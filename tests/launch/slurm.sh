#!/usr/bin/env bash
# slurm.sh PROGRAM ARGUMENTS...: tutti-perf under srun, in a Slurm of two nodes that lives in a temporary directory on this
# machine and ends with the test. Exit code 77: no Slurm can be had here, the test is skipped.
# Covers comm/rendezvous/launcher.cc, comm/rendezvous/pmi1.cc, comm/rendezvous/pmix.cc.
set -euo pipefail
skip() { echo "skipped: $*"; exit 77; }
for program in slurmctld slurmd srun sinfo; do
  command -v "$program" > /dev/null || skip "there is no $program (Debian: slurmctld, slurmd)"
done
[ "$(id -u)" -eq 0 ] || skip "Slurm's daemons want to be root"

home=$(mktemp -d /tmp/tutti-slurm-XXXXXX)
daemons=()
finish() {
  [ ${#daemons[@]} -eq 0 ] || kill "${daemons[@]}" 2> /dev/null || true
  wait
  rm -rf "$home"
}
trap finish EXIT
host=$(hostname -s)
port=$((20000 + $$ % 4000 * 3))
# Two nodes with names that are addresses of this machine; no users to be told apart, so no munge.
cat > "$home/slurm.conf" << END
ClusterName=tutti
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
AuthType=auth/none
CredType=cred/none
SlurmUser=root
StateSaveLocation=$home/state
SlurmdSpoolDir=$home/%n
SlurmctldPidFile=$home/slurmctld.pid
SlurmdPidFile=$home/slurmd-%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
ReturnToService=2
MpiDefault=none
NodeName=127.0.0.[1-2] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 2))] CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP OverSubscribe=FORCE
END
export SLURM_CONF=$home/slurm.conf
mkdir "$home/state" "$home/127.0.0.1" "$home/127.0.0.2"
slurmctld -D > "$home/log" 2>&1 &
daemons+=($!)
for node in 127.0.0.1 127.0.0.2; do
  slurmd -D -N "$node" >> "$home/log" 2>&1 &
  daemons+=($!)
done
ready=0
for ((i = 0; i < 900 && ready < 2; ++i)); do
  sleep 0.1
  ready=$(sinfo -h -N -o '%T' 2> /dev/null | grep -c idle || true)
done
if [ "$ready" -lt 2 ]; then
  tail -n 5 "$home/log"
  skip "slurmctld and slurmd do not start here"
fi

# try WHAT SRUN-OPTIONS... -- PROGRAM...
try() {
  local name=$1
  shift
  echo "== $name: srun $*"
  timeout 200 srun -Q "$@" > "$home/output" 2>&1 || { cat "$home/output"; tail -n 20 "$home/log"; exit 1; }
  grep -q '^# ranks 3 (from a launcher)' "$home/output" && grep -q '^# Out of bounds values : 0 OK' "$home/output" ||
    { cat "$home/output"; echo "FAILED: not three ranks of one launch with checked results"; exit 1; }
}
plugins=$(srun --mpi=list 2>&1)
try "one node" -N 1 -n 3 --overcommit --mpi=none "$@"
try "two nodes, no help from Slurm" -N 2 -n 3 --overcommit --mpi=none "$@"
if grep -q pmi2 <<< "$plugins"; then
  try "two nodes, PMI" -N 2 -n 3 --overcommit --mpi=pmi2 "$@"
else
  echo "no pmi2 plugin"
fi
if grep -q pmix <<< "$plugins"; then
  # Its plugin cannot have two nodes on one machine: as if there were two.
  try "PMIx" -N 1 -n 3 --overcommit --mpi=pmix env SLURM_STEP_NUM_NODES=2 "$@"
else
  echo "no pmix plugin"
fi
echo "passed"
