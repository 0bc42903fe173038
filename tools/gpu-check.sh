#!/usr/bin/env bash
# Checks that need a GPU, in one command and within eight minutes. All parts, or those named:
#   build      for this card in Release, with the packages that tools/gpu-pack.sh brought into .gpu where there are any
#   tests      every test with the label cuda; the machine code of the kernels
#   sanitizer  compute-sanitizer over a few of these tests
#   kernels    bandwidth of all types and operations against the card's own copy
#   ranks      collectives of 2, 4 and 8 ranks that share the card as threads, 16 bytes to 256 MiB, checked, against the
#              floor of the bytes; of 2 and 4 as processes where the library offers that
#   latency    8 bytes on 2, 4 and 8 ranks: on a stream, blocking, captured into a graph; a step's and a launch's time
#   nccl       GPU buffers over TCP against NCCL's socket transport, in turn, where NCCL was found; with MPS, too
#   start      the device's and the communicators' beginning
#   torch      the backend for PyTorch, if PYTHON (default python3) has a torch that sees the GPU: DDP, SyncBatchNorm
# What is missing is skipped and said. Numbers go to bench/results/gpu-CARD-DATE.json, a short table comes last.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
all_parts=(build tests sanitizer kernels ranks latency nccl start torch)
parts=("$@")
[ $# -gt 0 ] || parts=("${all_parts[@]}")
for part in "${parts[@]}"; do
  case " ${all_parts[*]} " in
    *" $part "*) ;;
    *) echo "no part '$part'; there are: ${all_parts[*]}" >&2; exit 2 ;;
  esac
done
python=${PYTHON:-python3}
limit_s=480
cores=$(nproc)
root=$PWD/build/gpu-packages  # of .gpu, unpacked
build=$PWD/build/gpu
results=$PWD/build/gpu-results
rm -rf "$results"
mkdir -p "$results"
log=$results/log
passed=0 failed=0 skipped=0

left() { echo $((limit_s - SECONDS)); }
note() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "${4:-}" >> "$results/checks.tsv"; }
# check NAME COMMAND...: runs it for as long as time is left.
check() {
  local name=$1 begin=$SECONDS code=0
  shift
  if [ "$(left)" -lt 10 ]; then skip "$name" "no time is left of $limit_s s"; return 1; fi
  local limited=(timeout "$(left)")
  declare -F "$1" > /dev/null && limited=()  # a function of this file
  ${limited[@]+"${limited[@]}"} "$@" > "$log" 2>&1 || code=$?
  if [ "$code" -eq 0 ]; then
    passed=$((passed + 1))
    note "$name" passed "$((SECONDS - begin))"
    echo "  $name: passed, $((SECONDS - begin)) s  $(grep -o 'loss .*' "$log" | tail -n 1)"
  else
    failed=$((failed + 1))
    note "$name" failed "$((SECONDS - begin))" "$*"
    echo "  $name: FAILED with $code ($*)"
    tail -n 40 "$log" | sed 's/^/    /'
    return 1
  fi
}
# offered NAME COMMAND...: the same; what the library says that it does not offer is skipped.
offered() {
  local name=$1 code=0 reason
  shift
  if [ "$(left)" -lt 10 ]; then skip "$name" "no time is left of $limit_s s"; return 1; fi
  timeout "$(left)" "$@" > "$results/refusal" 2>&1 || code=$?
  reason=$(grep -m 1 -o '[^:]*\(not offered\|are offered where\|is not offered\).*' "$results/refusal")
  if [ "$code" -ne 0 ] && [ -n "$reason" ]; then skip "$name" "${reason# }"; return 1; fi
  # shellcheck disable=SC2016 # the arguments are the inner shell's
  check "$name" bash -c 'cat "$0"; exit "$1"' "$results/refusal" "$code"
}
skip() {
  skipped=$((skipped + 1))
  note "$1" skipped 0 "$2"
  echo "  $1: skipped: $2"
}
card() { nvidia-smi --query-gpu=name --format=csv,noheader 2> /dev/null | head -n 1; }
# The parts but build need a card.
have_card() {
  [ -n "$(card)" ] && return
  skip "$1" "no GPU"
  return 1
}

unpack() {
  local package
  rm -rf "$root"
  mkdir -p "$root"
  for package in .gpu/packages/*.deb; do
    if command -v dpkg-deb > /dev/null; then
      dpkg-deb -x "$package" "$root" || return
    else
      ar p "$package" data.tar.xz | tar -xJ -C "$root" || return
    fi
  done
}
use_packages() { # as a system's own headers: without warnings
  export CMAKE_PREFIX_PATH=$root/usr OPENSSL_ROOT_DIR=$root/usr
  export C_INCLUDE_PATH=$root/usr/include:$root/usr/include/x86_64-linux-gnu
  export CPLUS_INCLUDE_PATH=$C_INCLUDE_PATH LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu
  export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}
part_build() {
  if ! command -v nvcc > /dev/null; then skip build "no nvcc"; return; fi
  local architecture generator=()
  architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | head -n 1 | tr -d .)
  command -v ninja > /dev/null && generator=(-G Ninja)
  if compgen -G '.gpu/packages/*.deb' > /dev/null; then
    check "packages of .gpu" unpack || return
    use_packages
  fi
  check configure cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DTUTTI_CUDA=ON \
    -DCMAKE_CUDA_ARCHITECTURES="${architecture:-90}" || return
  check build cmake --build "$build" -j "$cores" --target gpu_checks
}
is_built() {
  [ -d "$root/usr" ] && use_packages
  [ -f "$build/CTestTestfile.cmake" ] && return
  skip "$1" "nothing is built"
  return 1
}
part_tests() {
  is_built tests || return
  check "machine code of the kernels" ctest --test-dir "$build" -L '^cuda_binary$' --output-on-failure
  have_card tests || return
  check "tests with the label cuda" ctest --test-dir "$build" -L '^cuda$' --output-on-failure
}
part_sanitizer() {
  is_built sanitizer || return
  have_card sanitizer || return
  if ! command -v compute-sanitizer > /dev/null; then skip sanitizer "no compute-sanitizer"; return; fi
  local some='Types/DeviceKernels.RandomData/*float*:DeviceCopyKernel.*' tool
  for tool in memcheck racecheck; do
    check "$tool of kernels" compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/tests/kernels_cuda/test_kernels_cuda" \
      --gtest_filter="$some"
  done
}
part_kernels() {
  is_built kernels || return
  have_card kernels || return
  check "bandwidth of kernels" "$build/bench/device_kernels_bench" --benchmark_out_format=json \
    --benchmark_out="$results/kernels.json"
}
perf=$build/tools/tutti-perf
on_card=(-g 1 --transport cuda)  # by kernels, or not at all
part_ranks() {
  is_built ranks || return
  have_card ranks || return
  local ranks collective
  for ranks in 2 4 8; do
    check "all_reduce of $ranks ranks on the card" "$perf" all_reduce "${on_card[@]}" --ranks-per-gpu "$ranks" -b 16 -e 256M -f 4 -T 20 \
      -J "$results/ranks-$ranks.json"
  done
  for collective in reduce_scatter all_gather broadcast reduce gather scatter all_to_all all_gather_v all_to_all_v; do
    check "$collective of 4 ranks on the card" "$perf" "$collective" "${on_card[@]}" --ranks-per-gpu 4 -b 1K -e 16M -f 128 -n 20 -T 20 \
      -J "$results/ranks-4-$collective.json"
  done
  check "all_reduce of 4 ranks on the card, told by two addresses of one memory" env TUTTI_MULTICAST=mapped "$perf" all_reduce \
    "${on_card[@]}" --ranks-per-gpu 4 -b 16 -e 16M -f 32 -T 20 -J "$results/ranks-4-mapped.json"
  offered "send_recv of 4 ranks on the card" "$perf" send_recv -g 1 --ranks-per-gpu 4 -b 1K -e 16M -f 128 -n 20 -T 20 \
    -J "$results/ranks-4-send_recv.json"
  check "all types and operations of 3 ranks on the card" "$perf" all_reduce "${on_card[@]}" --ranks-per-gpu 3 -d all -o all -b 4000 -e 4000 \
    -n 5 -T 20 -J "$results/ranks-3-types.json"
  for ranks in 2 4; do
    offered "all_reduce of $ranks processes on the card" "$perf" all_reduce -g 1 --ranks "$ranks" -b 16 -e 256M -f 4 -T 20 \
      -J "$results/processes-$ranks.json"
  done
}
part_latency() {
  is_built latency || return
  have_card latency || return
  local ranks small=("${on_card[@]}" -b 8 -e 8 -T 20)
  for ranks in 2 4 8; do
    check "8 bytes on $ranks ranks, on a stream" "$perf" all_reduce "${small[@]}" --ranks-per-gpu "$ranks" \
      -J "$results/latency-$ranks-stream.json"
    check "8 bytes on $ranks ranks, blocking" "$perf" all_reduce "${small[@]}" --ranks-per-gpu "$ranks" -z 1 \
      -J "$results/latency-$ranks-blocking.json"
    offered "8 bytes on $ranks ranks, in a graph" "$perf" all_reduce "${small[@]}" --ranks-per-gpu "$ranks" -G 100 \
      -J "$results/latency-$ranks-graph.json"
  done
  # shellcheck disable=SC2016 # the arguments are the inner shell's
  check "a step and a launch" bash -c '"$0" > "$1"' "$build/bench/device_steps_bench" "$results/steps.json"
}
# under_mps COMMAND...: with a daemon of this user's own, which lets processes run on the card at the same time.
under_mps() {
  local code=0
  CUDA_MPS_PIPE_DIRECTORY=$(mktemp -d) CUDA_MPS_LOG_DIRECTORY=$results/mps
  export CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
  nvidia-cuda-mps-control -d || return
  timeout "$(left)" "$@" || code=$?
  echo quit | nvidia-cuda-mps-control
  rm -rf "$CUDA_MPS_PIPE_DIRECTORY"
  unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
  return "$code"
}
part_nccl() {
  is_built nccl || return
  have_card nccl || return
  local race=$build/bench/nccl_race name="NCCL's sockets and Tutti's, 2 ranks, with MPS"
  if [ ! -x "$race" ]; then skip nccl "NCCL was not found when this was built"; return; fi
  check "NCCL's sockets and Tutti's, 2 ranks" "$race" all_reduce --ranks 2 -b 8 -e 256M -f 32 --pairs 5 -J "$results/nccl-2.json"
  check "NCCL's sockets and Tutti's, 4 ranks" "$race" all_reduce --ranks 4 -b 8 -e 8M -f 32 --pairs 5 -J "$results/nccl-4.json"
  if ! command -v nvidia-cuda-mps-control > /dev/null; then skip "$name" "no nvidia-cuda-mps-control"; return; fi
  if [ "$(left)" -lt 30 ]; then skip "$name" "no time is left of $limit_s s"; return; fi
  if under_mps "$race" all_reduce --ranks 2 -b 8 -e 8M -f 32 --pairs 5 -J "$results/nccl-2-mps.json" > "$results/refusal" 2>&1; then
    check "$name" cat "$results/refusal"
  else # where MPS may not run is no fault of Tutti's
    skip "$name" "$(tail -n 1 "$results/refusal")"
  fi
}
part_start() {
  is_built start || return
  have_card start || return
  # shellcheck disable=SC2016
  check "beginnings" bash -c '"$0" > "$1"' "$build/bench/device_start_bench" "$results/start.json"
}
part_torch() {
  have_card torch || return
  if ! "$python" -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null; then
    skip torch "$python has no torch with a GPU"
    return
  fi
  [ -d "$root/usr" ] && use_packages
  local site=$PWD/build/gpu-site
  export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
  check "torch: plugin builds" "$python" -m pip install --no-build-isolation --no-index --no-deps --upgrade \
    --target "$site" ./plugins/torch || return
  check "torch: tensors on the GPU" "$python" -c 'import tutti_torch; assert tutti_torch._C.cuda' || return
  # The suites of the backend, on host tensors, with this torch.
  check "torch: backend" "$python" tests/torch/test_backend.py
  if ! "$python" -c 'import sklearn' 2> /dev/null; then
    skip "torch: training" "scikit-learn, which has the digits, is missing"
    return
  fi
  export OMP_NUM_THREADS=1
  local run=("$python" -m torch.distributed.run --standalone --nproc-per-node 2)
  check "torch: DDP, 2 ranks on one card" "${run[@]}" examples/torch/ddp.py --device cuda:0
  check "torch: SyncBatchNorm and GradScaler, 2 ranks on one card" "${run[@]}" examples/torch/syncbn_amp.py --device cuda:0
}

for part in "${parts[@]}"; do
  echo "== $part ($SECONDS s)"
  "part_$part"
done
echo
"$python" tools/gpu_report.py "$results" "$(card)" || failed=$((failed + 1))
echo "total: $SECONDS s"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
