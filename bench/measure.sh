#!/usr/bin/env bash
# Measures what docs/performance.md shows, a question at a time, into docs/measured/QUESTION.json; then tools/figures.sh.
#   bench/measure.sh QUESTION...     or all. Times on two cores:
#   peers        all_reduce against every peer that is installed (tools/setup.sh --peers), and the memory alone; 30 minutes
#   race         all_reduce against Open MPI in one process: 2, 4, 8 ranks, in place; 10 minutes
#   collectives  the other collectives against Open MPI, 2, 4 and 8 ranks; 3 minutes
#   isolated     calls with a root against Open MPI, each begun by all ranks together, 2, 4 and 8 ranks; 2 minutes
#   floor        all collectives against the memory alone, 2, 4 and 8 ranks; 4 minutes
#   tcp          all_reduce over loopback against Open MPI, 2 and 4 ranks; as root; 5 minutes
#   sockets      all_reduce over loopback against what plain sockets take, 2 and 4 ranks; 1 minute
#   hosts        all_reduce and barrier between 2, 3, 4, 8 hosts of this machine, 1 and 2 ranks each, without a limit and at 1 Gbit/s; as root
#   options      what registered memory, wire types and the deterministic mode cost; sends and receives
#   overlap      how much of an all_reduce a computation hides; as root
#   many_ranks   all_reduce of 16 to 512 ranks against the hand-over of cores, up to 128 against Open MPI; 5 minutes
#   costs        a call of one rank, and communicators that do nothing
#   kernels      registers and instructions of the CUDA kernels that build/release holds
#   python       tutti_comm against mpi4py, 2 and 4 ranks, in the environment of tools/wheels.sh; 3 minutes
#   torch        all_reduce and the step of DistributedDataParallel on Tutti and Gloo, with the torch of tools/torch.sh; 5 minutes
#   programs     those of tools/programs on Gloo and on Tutti, with the torch of tools/torch.sh; 20 minutes
# Nothing else should run. MEASURE_WITH: a command in front, as `chrt -r 20`. The other libraries' settings: docs/measuring.md.
set -euo pipefail
cd "$(dirname "$0")/.."
questions=(peers race collectives isolated floor tcp sockets hosts options overlap many_ranks costs kernels python torch programs)
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
[ $# -gt 0 ] || usage
[ "$1" != all ] || set -- "${questions[@]}"
for question; do [[ " ${questions[*]} " == *" $question "* ]] || usage; done
tools/setup.sh
cmake --preset release > /dev/null
cmake --build build/release
perf=build/release/tools/tutti-perf bench=build/release/bench
read -ra before <<< "${MEASURE_WITH:-}"
parts=$(mktemp -d)
trap 'rm -rf "$parts"' EXIT

# The system's default congestion control is cubic until this script ends: Tutti chooses it by itself, the others do not.
choose_cubic() {
  local setting=/proc/sys/net/ipv4/tcp_congestion_control initial
  initial=$(< $setting)
  [ "$initial" != cubic ] || return 0
  # shellcheck disable=SC2064  # what it is now
  trap "rm -rf '$parts'; echo $initial > $setting" EXIT
  echo cubic > $setting
}

runs=() part=
# new_part COMMAND...: the file $part is what this command writes. It counts with its words as they would be typed.
new_part() {
  local word text=
  for word; do case $word in *' '*) text+=" \"$word\"" ;; *) text+=" $word" ;; esac; done
  part=$parts/${#runs[@]}.json
  runs+=("${text# }" "$part")
  echo "measure:$text"
}
# run COMMAND...: a program that writes JSON with -J.
run() {
  new_part ${before[@]+"${before[@]}"} "$@"
  ${before[@]+"${before[@]}"} "$@" -J "$part"
}

measure_peers() {
  local ranks
  for _ in 1 2; do
    for ranks in 2 4 8; do
      run $perf all_reduce --compare all --ranks $ranks -b 8 -e 32K --rounds 4 --pairs 4
      run $perf all_reduce --compare all --ranks $ranks -b 64K -e 64M --rounds 4 --pairs 4
    done
  done
}
measure_race() {
  run bench/race.sh 2 --pairs 4 --rounds 14
  run bench/race.sh 2 --in-place -b 64K --rounds 2
  run bench/race.sh 4 --rounds 2
  run bench/race.sh 8 --rounds 2
}
others=(all_gather broadcast reduce reduce_scatter all_to_all gather scatter)
measure_collectives() {
  local ranks name
  for ranks in 2 4 8; do
    for name in "${others[@]}" barrier; do run bench/race.sh $ranks -c "$name" -f 8 -e 16M --rounds 6 --pairs 3 --block-ms 3; done
  done
}
measure_isolated() {
  local ranks name
  for ranks in 2 4 8; do
    for name in broadcast gather reduce scatter; do run bench/race.sh $ranks -c "$name" --isolated -f 8 -e 16M --rounds 4 --pairs 3; done
  done
}
measure_floor() {
  local ranks name
  for ranks in 2 4 8; do
    for name in all_reduce "${others[@]}"; do run bench/race.sh $ranks -c "$name" --against floor -b 16K -f 4 --rounds 2; done
  done
}
measure_tcp() {
  local ranks
  choose_cubic
  for _ in 1 2; do
    for ranks in 2 4; do run env RACE_TRANSPORT=tcp bench/race.sh $ranks -f 8 --rounds 3; done
  done
}
measure_sockets() {
  local ranks sizes
  for _ in 1 2; do
    for ranks in 2 4; do
      for sizes in "-b 8 -e 32K -f 64" "-b 256K -e 64M -f 4"; do
        # shellcheck disable=SC2086  # the words of an option are words
        run env TUTTI_TRANSPORT=tcp $perf all_reduce --compare sockets,sockets_all_reduce --ranks $ranks $sizes --rounds 4
      done
    done
  done
}
measure_hosts() {
  local hosts each
  choose_cubic
  for each in 1 2; do
    for hosts in 2 3 4 8; do run bench/hosts_race.sh $hosts $each -- -e 16M; done
    for hosts in 2 3 4 8; do run bench/hosts_race.sh $hosts $each 1gbit -- -b 64K -f 4 -e 16M --rounds 3; done
  done
}
# A plain call first: what comes after it is compared with it.
# shellcheck disable=SC2086  # the words of an option are words
measure_options() {
  local option
  for option in "" "-R 1" "--wire half" "--wire bfloat16" "--wire f8e5m2" "--deterministic"; do
    run $perf all_reduce --ranks 2 -f 8 $option
  done
  for option in "" "--deterministic"; do run $perf all_reduce --ranks 4 -f 8 $option; done
  for option in "" "-R 1"; do run $perf all_gather --ranks 2 -f 8 $option; done
  run $perf send_recv --ranks 2 -f 8
}
measure_overlap() {
  run tools/hosts.py mpirun -H 2 -n 1 -r 1gbit -o "--mca pml ob1" -- $perf all_reduce --overlap -b 4K -e 2M
  run $perf all_reduce --overlap --ranks 2 -b 4K -e 2M
  run $perf all_reduce --overlap --ranks 2 --threads -b 4K -e 2M
}
measure_many_ranks() {
  local ranks
  for ranks in 16 32 64 128; do
    run $perf all_reduce --compare openmpi,handover --ranks $ranks -b 8 -e 2M -f 16 --rounds 1
  done
  for ranks in 256 512; do run $perf all_reduce --compare handover --ranks $ranks -b 8 -e 8 --rounds 1; done
}
measure_costs() {
  new_part $bench/footprint_bench
  $bench/footprint_bench 1000 4 0 "$part"
  new_part $bench/dispatch_bench --benchmark_filter=c_function
  $bench/dispatch_bench --benchmark_filter=c_function --benchmark_out="$part" --benchmark_out_format=json
}
measure_kernels() {
  local objects=build/release/src/CMakeFiles/tutti_objects.dir
  new_part tools/device_kernels.py json "$objects/{kernels,executor}/device/*.cu.o"
  python3 tools/device_kernels.py json $objects/kernels/device/*.cu.o $objects/executor/device/*.cu.o > "$part"
}
measure_python() {
  local ranks python=build/wheels-work/environment/bin/python
  [ -x $python ] || tools/wheels.sh --comm
  $python -m pip install --quiet mpi4py
  for ranks in 2 4; do run mpirun --allow-run-as-root --oversubscribe -n $ranks $python bench/python/race.py; done
}
measure_torch() {
  local ranks
  tools/torch.sh python > /dev/null
  for ranks in 2 4; do
    run tools/torch.sh bench --ranks $ranks --rounds 15
    run tools/torch.sh bench --ranks $ranks --step --rounds 15
  done
}
measure_programs() {
  local script
  tools/torch.sh python > /dev/null
  for script in tools/programs/*.py; do
    [ "$script" = tools/programs/program.py ] || run python3 "$script" --rounds 3
  done
}

for question; do
  runs=()
  "measure_$question"
  python3 tools/measured.py join "docs/measured/$question.json" "${runs[@]}"
done
tools/figures.sh
