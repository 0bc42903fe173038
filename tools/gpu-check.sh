#!/usr/bin/env bash
# Checks that need a GPU, in one command and within eight minutes. All parts, or those named:
#   build      for this card in Release, with the packages that tools/gpu-pack.sh brought into .gpu where there are any
#   tests      every test with the label cuda; the machine code of the kernels
#   sanitizer  compute-sanitizer over a few of these tests
#   kernels    bandwidth of all types and operations against the card's own copy
#   torch      the backend for PyTorch, if PYTHON (default python3) has a torch that sees the GPU: DDP, SyncBatchNorm
# What is missing is skipped and said. Numbers go to bench/results/gpu-CARD-DATE.json, a short table comes last.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
all_parts=(build tests sanitizer kernels torch)
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
