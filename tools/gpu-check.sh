#!/usr/bin/env bash
# Checks that need a GPU, in one command of at most nine minutes. What tells most comes first, each check has a limit of its
# own, and nothing is lost if the machine goes away meanwhile.
#   tools/gpu-check.sh               the checks that no earlier call has run
#   tools/gpu-check.sh CHECK...      these, also if they have run before; a pattern such as 'ranks-*' names several
#   tools/gpu-check.sh --list        the names of the checks, with their limits in seconds
#   tools/gpu-check.sh --new         forgets first what earlier calls have found
#   tools/gpu-check.sh --seconds N   another limit for the whole
#   tools/gpu-check.sh --limit N     at most so many seconds for each check
# The programs are those of tools/gpu-pack.sh (.gpu/programs.tar.xz, or the folder from which this script was unpacked) if
# they start here; else they are built here, with the packages in .gpu where there are any. TUTTI_GPU_PROGRAMS names
# another folder with them.
# Everything goes into the folder OUT (default: build/gpu-results) as it is found:
#   checks.tsv          a line for each check: its name, result, seconds and reason
#   log                 what the programs printed; running: what the present one has printed so far
#   numbers.jsonl       a line for each measurement; running.json: the rows of the present one
#   report.txt          the table of the end: every check, and the numbers against their goals
#   gpu-CARD-DATE.json  the same as a record
# A call whose OUT is empty goes on from build/gpu-results, which always has a copy.
set -uo pipefail
results=${OUT:+$(realpath -m "$OUT")}
cd "$(dirname "$0")/.." || exit
root=$PWD
seconds=540 most=540 list='' fresh='' names=()
while [ $# -gt 0 ]; do
  case $1 in
    --list) list=1 ;;
    --new) fresh=1 ;;
    --seconds) seconds=${2:?--seconds takes a number}; shift ;;
    --limit) most=${2:?--limit takes a number}; shift ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    -*) echo "gpu-check: there is no option $1" >&2; exit 2 ;;
    *) names+=("$1") ;;
  esac
  shift
done
python=${PYTHON:-python3}
kept=$root/build/gpu-results
results=${results:-$kept}
found=$results/running.json
packages=$root/build/gpu-packages  # what .gpu/packages holds, unpacked
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# A rank whose peer hangs says so before the limit of its check ends it.
export TUTTI_TIMEOUT=10 TUTTI_JOIN_TIMEOUT=30
unset CUDA_DEVICE_MAX_CONNECTIONS CUDA_LAUNCH_BLOCKING

left() { echo $((seconds - SECONDS)); }
# left_or N: what is left for a last check, but for what the report takes, and at least N.
left_or() { local last=$(($(left) - 10)); echo $((last > $1 ? last : $1)); }
# ask COMMAND...: what a tool of the system says; such tools hang, too, where the driver does.
ask() { timeout -k 1 10 "$@" 2> /dev/null; }
card() {
  local name
  name=$(ask nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
  if [ -n "$name" ]; then echo "$name"; elif [ -e /dev/nvidia0 ]; then echo "unknown card"; fi
}

# Results -------------------------------------------------------------------------------------------------------------
keep() {
  [ "$results" != "$kept" ] || return 0
  mkdir -p "$kept"
  rm -f "$kept"/*
  cp "$results"/* "$kept"/
}
# note NAME RESULT SECONDS REASON: the last line of a name counts.
note() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$(printf %s "$4" | tr '\t\n' '  ' | cut -c 1-300)" >> "$results/checks.tsv"; }
# take NAME: puts what the program has printed and measured to the rest.
take() {
  local printed=$results/running
  echo "== $1" >> "$results/log"
  if [ "$(wc -c < "$printed")" -le 80000 ]; then
    cat "$printed"
  else
    head -c 40000 "$printed"
    printf '\n[...]\n'
    tail -c 40000 "$printed"
  fi >> "$results/log"
  if [ -s "$found" ]; then
    printf '{"check": "%s", "found": %s}\n' "$1" "$(tr -d '\n' < "$found")"
  elif [[ $1 == facts-* ]]; then
    printf '{"check": "%s", "facts": [%s]}\n' "$1" "$(sed 's/[\\"]/\\&/g; s/\t/\\t/g; s/.*/"&"/' "$printed" | paste -s -d ,)"
  fi >> "$results/numbers.jsonl"
  rm -f "$printed" "$found" "$found.part"
  keep
}
# begin: goes on from what earlier calls of the same commit have left.
begin() {
  local commit
  commit=$(cat "$programs/commit" 2> /dev/null || git rev-parse --short HEAD 2> /dev/null || echo unknown)
  mkdir -p "$results" || exit
  if [ ! -s "$results/checks.tsv" ] && [ -s "$kept/checks.tsv" ]; then cp "$kept"/* "$results"/; fi
  if [ -n "$fresh" ] || [ "$(head -n 1 "$results/checks.tsv" 2> /dev/null)" != "# commit $commit" ]; then
    rm -f "$results"/{checks.tsv,log,numbers.jsonl,running,running.json,running.json.part,report.txt} "$results"/gpu-*.json
    echo "# commit $commit" > "$results/checks.tsv"
  elif [ -e "$results/running" ]; then
    take "$(tail -n 1 "$results/checks.tsv" | cut -f 1)"
  fi
  echo "gpu-check: commit $commit, results in $results"
}

# Checks --------------------------------------------------------------------------------------------------------------
# result_of NAME: its last result.
result_of() { awk -F '\t' -v name="$1" '$1 == name {last = $2} END {print last}' "$results/checks.tsv" 2> /dev/null; }
# wanted NAME: whether it is asked for, or has not run.
wanted() {
  local pattern
  for pattern in ${names[@]+"${names[@]}"}; do
    # shellcheck disable=SC2053 # it is a pattern
    [[ $1 != $pattern ]] || return 0
  done
  [ ${#names[@]} -eq 0 ] &&
    [[ ! $(result_of "$1") =~ passed|failed|hung ]]
}
skip() { # NAME REASON
  note "$1" skipped 0 "$2"
  echo "  $1: skipped: $2"
}
# why: the line of the output that says most about a failure.
why() {
  local line
  line=$(grep -v '^#' "$results/running" | grep -m 1 -E '(tutti-perf|_bench|nccl_race|gpu_facts): |error|Error|\[  FAILED|Failure')
  [ -n "$line" ] || line=$(grep -m 1 'FAILED' "$results/running")
  echo "${line:-$(grep -v '^ *$' "$results/running" | tail -n 1)}"
}
# left_out: how many cases GoogleTest has skipped; if it has run none, why.
left_out() {
  local count
  count=$(sed -n 's/^\[  SKIPPED \] \([0-9]* tests\{0,1\}\), listed below:$/\1 skipped/p' "$results/running")
  if [ -n "$count" ] && ! grep -q '^\[       OK \]' "$results/running"; then
    count="none ran: $(grep -A 1 -m 1 ': Skipped$' "$results/running" | tail -n 1)"
  fi
  echo "$count"
}
# judge NAME CODE SECONDS LIMIT: notes and prints what came out.
judge() {
  local result=failed reason
  reason=$(why)
  if [ "$2" -eq 0 ]; then
    result=passed reason=$(left_out)
    [[ $reason != none* ]] || result=skipped
  elif { [ "$2" -eq 124 ] || [ "$2" -eq 137 ]; } && [ "$3" -ge "$4" ]; then
    result=hung reason="ended after its $4 s${reason:+; $reason}"
  elif [ "$2" -eq 77 ] || { [ -n "${may_be_refused:-}" ] && [[ $reason =~ (not offered|are offered where|cannot go through host memory) ]]; }; then
    result=skipped
  elif [ "$2" -gt 128 ] && kill -l $(($2 - 128)) > /dev/null 2>&1; then
    reason="ended by the signal $(kill -l $(($2 - 128)))"
  fi
  note "$1" "$result" "$3" "$reason"
  echo "  $1: $result, $3 s${reason:+: $reason}"
  case $result in
    failed | hung) tail -n 30 "$results/running" | sed 's/^/    /' ;;
  esac
}
# check NAME LIMIT [VARIABLE=VALUE...] PROGRAM ARGUMENTS...: runs one that is asked for, if its time is left. With
# numbers=stdout, what the program prints is what it has measured. With may_be_refused=1, what the library does not offer is
# skipped. A text in `missing` says why it cannot run here.
check() {
  local name=$1 limit=$2 settings=() program start code=0 into=$results/running
  shift 2
  printf '%s\t%s\n' "$name" "$limit" >> "$scratch/order"
  if [ -n "$list" ] || ! wanted "$name"; then return; fi
  while [[ $1 == *=* ]]; do settings+=("$1"); shift; done
  [ -z "${missing:-}" ] || { skip "$name" "$missing"; return; }
  program=$(command -v "$programs/$1" || command -v "$1") || { skip "$name" "there is no $1"; return; }
  shift
  [ -n "$card" ] || { skip "$name" "no GPU"; return; }
  [ "$limit" -le "$most" ] || limit=$most
  [ "$(left)" -ge "$limit" ] || return
  note "$name" hung "$limit" "the whole call ended while it ran"  # if nothing comes after it
  : > "$into"
  keep
  [ "${numbers:-}" != stdout ] || into=$found
  start=$SECONDS
  timeout -k 5 "$limit" env ${settings[@]+"${settings[@]}"} "$program" "$@" >> "$into" 2>> "$results/running" < /dev/null || code=$?
  judge "$name" "$code" $((SECONDS - start)) "$limit"
  if [ "$code" -ne 0 ] && [ "$code" -ne 77 ]; then
    echo "  still on the card: $(ask nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader | paste -s -d ';')" |
      tee -a "$results/running"
  fi
  take "$name"
}

# Programs ------------------------------------------------------------------------------------------------------------
starts() { LD_LIBRARY_PATH=$1 timeout 20 "$1/test_kernels_cuda" --gtest_list_tests > /dev/null 2>&1; }
# find_programs: sets `programs` to a folder whose programs start here.
find_programs() {
  local archive=.gpu/programs.tar.xz unpacked=$root/build/gpu-programs
  programs=${TUTTI_GPU_PROGRAMS:-}
  [ -z "$programs" ] || return 0
  programs=$root/programs
  [ -d "$programs" ] && starts "$programs" && return
  if [ -e "$archive" ]; then
    rm -rf "$unpacked"
    mkdir -p "$unpacked"
    tar -xf "$archive" -C "$unpacked" --strip-components 1
    programs=$unpacked/programs
    starts "$programs" && return
    echo "gpu-check: the programs of $archive do not start here; they are built"
  fi
  programs=$root/build/gpu/bin
  starts "$programs" || build_programs
}
unpack() {
  local package
  rm -rf "$packages"
  mkdir -p "$packages"
  for package in .gpu/packages/*.deb; do
    if command -v dpkg-deb > /dev/null; then
      dpkg-deb -x "$package" "$packages" || return
    else
      ar p "$package" data.tar.xz | tar -xJ -C "$packages" || return
    fi
  done
}
use_packages() { # as a system's own headers: without warnings
  export CMAKE_PREFIX_PATH=$packages/usr OPENSSL_ROOT_DIR=$packages/usr
  export C_INCLUDE_PATH=$packages/usr/include:$packages/usr/include/x86_64-linux-gnu
  export CPLUS_INCLUDE_PATH=$C_INCLUDE_PATH LIBRARY_PATH=$packages/usr/lib/x86_64-linux-gnu
  export LD_LIBRARY_PATH=$packages/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}
build_programs() {
  local architecture
  if [ ! -e CMakeLists.txt ]; then echo "gpu-check: there are no sources to build them from" >&2; exit 1; fi
  if compgen -G '.gpu/packages/*.deb' > /dev/null; then
    unpack && use_packages
  else
    echo "gpu-check: .gpu/packages is missing (tools/gpu-pack.sh fills it): the system's own packages are taken"
  fi
  architecture=$(ask nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
  cmake --preset gpu -DTUTTI_WERROR=OFF "-DCMAKE_CUDA_ARCHITECTURES=${architecture:-90}" > "$scratch/build" 2>&1 &&
    timeout -k 5 "$(left)" cmake --build build/gpu -j "$(nproc)" --target gpu_checks >> "$scratch/build" 2>&1 && return
  echo "gpu-check: the programs do not build:" >&2
  tail -n 40 "$scratch/build" >&2
  exit 1
}

# What is checked -----------------------------------------------------------------------------------------------------
# shellcheck disable=SC2016 # another shell reads it
machine='nvidia-smi -q | head -n 60; nvidia-smi topo -m
for tool in g++ nvcc ldd cmake python3 git; do $tool --version | head -n 4; done
for tool in compute-sanitizer nvidia-cuda-mps-control dpkg-deb ninja; do command -v $tool || echo "no $tool"; done
ls -l /usr/local/cuda/lib64/libcudart_static.a; env | grep ^CUDA; nproc; head -n 3 /proc/meminfo; exit 0'
perf=(-g 1 -T 10 -J "$found")
on_card=("${perf[@]}" --transport cuda)  # by kernels, or not at all
benchmark=(--benchmark_out_format=json "--benchmark_out=$found")

first_checks() {
  local connections ranks
  check machine 20 bash -c "$machine"
  check facts-unset 20 gpu_facts
  for connections in 1 8 32; do check "facts-$connections" 20 CUDA_DEVICE_MAX_CONNECTIONS=$connections gpu_facts; done
  numbers=stdout check steps-copies 20 device_steps_bench copies
  numbers=stdout check steps-relays 20 device_steps_bench relays
  check kernels-first 30 test_kernels_cuda \
    --gtest_filter='*RandomData/*float32:*EveryPairOfValues/*float8*:*EveryPairOfValues/*bfloat16:DeviceCopy*'
  for ranks in 2 4 8; do
    check "ranks-$ranks" 30 tutti-perf all_reduce "${on_card[@]}" --ranks-per-gpu "$ranks" -b 4 -e 64M -f 16 -n 20
  done
  for ranks in 2 4; do
    check "latency-$ranks-stream" 20 tutti-perf all_reduce "${on_card[@]}" --ranks-per-gpu "$ranks" -b 8 -e 8
    may_be_refused=1 check "latency-$ranks-graph" 20 tutti-perf all_reduce "${on_card[@]}" --ranks-per-gpu "$ranks" -b 8 -e 8 -G 100
  done
  check bandwidth-first 30 device_kernels_bench "${benchmark[@]}" \
    --benchmark_filter='device_copy|copy_kernel|(sum|avg)/(float32|bfloat16|float8e4m3|int8)/67108864/k2/iterations'
  for connections in 8 1; do  # 8 is what a driver takes by itself; tutti-perf alone would ask for 32
    may_be_refused=1 check "processes-2-connections-$connections" 30 CUDA_DEVICE_MAX_CONNECTIONS=$connections \
      tutti-perf all_reduce "${perf[@]}" --ranks 2 -b 4 -e 64M -f 16 -n 20
  done
  mps_checks
  sanitize memcheck 45
}
# sanitize TOOL LIMIT ARGUMENTS...: one rank, so that nothing waits for another kernel while a tool slows all of them down.
sanitize() {
  check "$1" "$2" compute-sanitizer --tool "$1" --error-exitcode 9 "$programs/device_steps_bench" --batches 1 "${@:3}" copies
}
further_checks() {
  local ranks collective
  check kernels-all 60 test_kernels_cuda
  check types 30 tutti-perf all_reduce "${on_card[@]}" --ranks-per-gpu 3 -d all -o all -b 4000 -e 4000 -n 5
  for collective in reduce_scatter all_gather broadcast reduce gather scatter all_to_all all_gather_v all_to_all_v; do
    check "ranks-4-${collective//_/-}" 20 tutti-perf "$collective" "${on_card[@]}" --ranks-per-gpu 4 -b 1K -e 16M -f 128 -n 20
  done
  may_be_refused=1 check ranks-4-send-recv 20 tutti-perf send_recv "${perf[@]}" --ranks-per-gpu 4 -b 1K -e 16M -f 128 -n 20
  check ranks-4-mapped 20 TUTTI_MULTICAST=mapped tutti-perf all_reduce "${on_card[@]}" --ranks-per-gpu 4 -b 16 -e 16M -f 32
  for ranks in 2 4 8; do
    check "latency-$ranks-blocking" 20 tutti-perf all_reduce "${on_card[@]}" --ranks-per-gpu "$ranks" -b 8 -e 8 -z 1
  done
  check latency-8-stream 20 tutti-perf all_reduce "${on_card[@]}" --ranks-per-gpu 8 -b 8 -e 8
  nccl_checks
  check multicast 45 test_multicast_cuda
  check two-levels 45 test_two_level_cuda
  check bandwidth 60 device_kernels_bench "${benchmark[@]}"
  numbers=stdout check steps-launch 20 device_steps_bench launch
  numbers=stdout check start 20 device_start_bench
  check ranks-4-sizes 40 tutti-perf all_reduce "${on_card[@]}" --ranks-per-gpu 4 -b 16 -e 256M -f 4
  may_be_refused=1 check processes-4 40 tutti-perf all_reduce "${perf[@]}" --ranks 4 -b 4 -e 64M -f 16 -n 20
}
# Processes whose kernels run at the same time, as they do on a GPU each.
mps_checks() {
  local ranks
  for ranks in 2 4; do
    under_mps "processes-$ranks-mps" 30 "$programs/tutti-perf" all_reduce "${on_card[@]}" --ranks "$ranks" -b 4 -e 64M -f 16 -n 20
  done
}
# under_mps NAME LIMIT [VARIABLE=VALUE...] PROGRAM ARGUMENTS...: a check under a control daemon of MPS of its own.
under_mps() {
  local missing=${missing:-} settings=() name=$1 limit=$2
  local mps=$scratch/mps-$1
  shift 2
  while [[ $1 == *=* ]]; do settings+=("$1"); shift; done
  mkdir -p "$mps"
  command -v nvidia-cuda-mps-control > /dev/null || missing=${missing:-"there is no nvidia-cuda-mps-control"}
  # shellcheck disable=SC2016 # the arguments are the inner shell's
  check "$name" "$limit" ${settings[@]+"${settings[@]}"} "CUDA_MPS_PIPE_DIRECTORY=$mps" "CUDA_MPS_LOG_DIRECTORY=$mps" \
    bash -c 'nvidia-cuda-mps-control -d || { echo "nvidia-cuda-mps-control does not start"; exit 77; }; exec "$@"' - "$@"
  [ -e "$mps/control" ] || return 0
  tail -n 8 "$mps"/*.log >> "$results/log"
  echo quit | CUDA_MPS_PIPE_DIRECTORY=$mps timeout -k 1 10 nvidia-cuda-mps-control
}
nccl_checks() {
  local missing='' library race=(--pairs 5 -J "$found")
  library=$("$python" -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0] + "/lib")' 2> /dev/null)
  library=LD_LIBRARY_PATH=$LD_LIBRARY_PATH${library:+:$library}
  check nccl-2 45 "$library" nccl_race all_reduce --ranks 2 -b 8 -e 256M -f 32 "${race[@]}"
  check nccl-4 45 "$library" nccl_race all_reduce --ranks 4 -b 8 -e 8M -f 32 "${race[@]}"
  [ -e "$programs/nccl_race" ] || missing="there is no nccl_race"
  under_mps nccl-2-mps 45 "$library" "$programs/nccl_race" all_reduce --ranks 2 -b 8 -e 8M -f 32 "${race[@]}"
}
# The backend for PyTorch gives the library tensors of the GPU and their streams. Its ranks are processes, so on one GPU
# kernels connect them under MPS only; else the library moves the data through host memory.
torch_checks() {
  local missing='' site=$root/build/gpu-site home=$root/build/gpu-home
  local path=PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH} run=("$python" -m torch.distributed.run --standalone --nproc-per-node 2)
  export PYTHONFAULTHANDLER=1 OMP_NUM_THREADS=1  # Python tells where a signal ends a process
  if [ ! -d plugins/torch ]; then
    missing="there is no plugins/torch"
  elif [ -z "$card" ] || ! ask "$python" -c 'import torch; assert torch.cuda.is_available()'; then
    missing="$python has no torch that sees a GPU"
  else  # the library as if it were installed
    mkdir -p "$home/lib"
    ln -sfn "$root/include" "$home/include"
    cp -Lf "$programs/libtutti.so.0" "$home/lib/"
    ln -sf libtutti.so.0 "$home/lib/libtutti.so"
  fi
  check torch-build 120 "TUTTI_HOME=$home" "$python" -m pip install --no-build-isolation --no-index --no-deps --upgrade --target "$site" \
    ./plugins/torch
  check torch-stages 120 "$path" "$python" tests/torch/device_stages.py
  under_mps torch-device-mps 90 "$path" "$python" tests/torch/test_device.py
  check torch-device 90 "$path" "$python" tests/torch/test_device.py
  check torch-ddp 60 "$path" "${run[@]}" examples/torch/ddp.py --device cuda:0
  check torch-sync-batch-norm 60 "$path" "${run[@]}" examples/torch/syncbn_amp.py --device cuda:0
}

programs='' card=''
if [ -z "$list" ]; then
  find_programs
  card=$(card)
  begin
fi
export LD_LIBRARY_PATH=$programs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
first_checks
further_checks
torch_checks
# It is slow: what memcheck runs did not end in 45 s. So it runs less, last, and gets all the time that is left.
sanitize racecheck "$(left_or 60)" --launches 1
if [ -n "$list" ]; then
  cat "$scratch/order"
  exit
fi
"$python" tools/gpu_report.py "$results" "$card" "$scratch/order"
code=$?
keep
echo "gpu-check: $SECONDS s; results in $results"
exit "$code"
