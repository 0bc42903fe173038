#!/usr/bin/env bash
# Builds and tests everything, from nothing: installs what is missing first. All stages, or those named:
#   style    format, include arrows, sizes of files and functions
#   release  the suites of the optimised build, the examples, tutti-perf's command line
#   install  the installed library used from outside; its exported symbols
#   mpi      the collective cases under mpirun
#   asan     the suites with the address and undefined-behaviour sanitizers
#   tsan     the suites with the thread sanitizer
#   clang    everything compiled by clang, warnings as errors; the parsers fuzzed for a few seconds
#   arm      the library cross-built for aarch64, the suites that need no peers' speed run by qemu-user
#   torch    the backend for PyTorch; among all stages only where tools/torch.sh has installed torch, by name it does so first
# The last line counts tests: N passed, N failed, N skipped. Exit code 1 if any failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
all_stages=(style release install mpi asan tsan clang arm torch)
stages=("$@")
named=$#
[ $# -gt 0 ] || stages=("${all_stages[@]}")
for stage in "${stages[@]}"; do
  case " ${all_stages[*]} " in
    *" $stage "*) ;;
    *) echo "no stage '$stage'; there are: ${all_stages[*]}" >&2; exit 2 ;;
  esac
done

tools/setup.sh --test || exit 1
if [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ] && command -v ccache > /dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
cores=$(nproc)
mkdir -p build
log=build/test.log
passed=0 failed=0 skipped=0
bad=() left_out=()

# watched COMMAND...: runs it with its output in the log and shows where it is: the log's last line, in place on a terminal,
# else twice a minute.
watched() {
  local pid ticks=0 last
  "$@" > "$log" 2>&1 &
  pid=$!
  trap 'kill "$pid" 2> /dev/null; exit 130' INT TERM
  while kill -0 "$pid" 2> /dev/null; do
    sleep 0.2
    ticks=$((ticks + 1))
    if [ -t 1 ] && [ $((ticks % 5)) -eq 0 ]; then
      last=$(tail -c 500 "$log" | tail -n 1 | cut -c 1-100)
      printf '\r\033[K    %s' "$last"
    elif [ $((ticks % 150)) -eq 0 ]; then
      echo "    ... $(tail -c 500 "$log" | tail -n 1 | cut -c 1-100)"
    fi
  done
  trap - INT TERM
  [ ! -t 1 ] || printf '\r\033[K'
  wait "$pid"
}

# check NAME COMMAND...: one test; its output is shown when it fails.
check() {
  local name=$1
  shift
  if watched "$@"; then
    passed=$((passed + 1))
    echo "  $name: passed"
  else
    failed=$((failed + 1))
    bad+=("$name")
    echo "  $name: FAILED ($*)"
    tail -n 60 "$log" | sed 's/^/    /'
  fi
}
skip() {
  skipped=$((skipped + 1))
  left_out+=("$1: $2")
  echo "  $1: skipped: $2"
}

# suites STAGE BUILD CTEST-ARGUMENTS...: runs CTest and adds its counts.
suites() {
  local stage=$1 build=$2 results=$2/results.xml line
  shift 2
  rm -f "$results"
  watched ${no_randomisation[@]+"${no_randomisation[@]}"} ctest --test-dir "$build" --output-on-failure -j "$cores" \
    --output-junit results.xml "$@"
  if [ ! -s "$results" ]; then
    check "$stage suites" false
    tail -n 20 "$log"
    return
  fi
  local counts
  counts=$(python3 tools/junit_counts.py "$results" "$stage") || true
  while IFS=$'\t' read -r kind name why; do
    case $kind in
      counts)
        read -r p f s <<< "$name"
        passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
        echo "  suites: $p passed, $f failed, $s skipped"
        [ "$((p + f + s))" -gt 0 ] || { failed=$((failed + 1)); bad+=("$stage: no test was found"); }
        ;;
      failed) bad+=("$name") ;;
      skipped) left_out+=("$name: $why") ;;
    esac
  done <<< "$counts"
}

# build NAME DIRECTORY CONFIGURE-ARGUMENTS... [-- TARGETS...]: false when it does not build.
build() {
  local name=$1 directory=$2 before=$failed configure=()
  shift 2
  while [ $# -gt 0 ] && [ "$1" != -- ]; do configure+=("$1"); shift; done
  check "$name configure" cmake -S . -B "$directory" "${configure[@]}"
  [ "$failed" -eq "$before" ] || return 1
  echo "  building $directory"
  check "$name build" cmake --build "$directory" -j "$cores" ${1:+--target "${@:2}"}
  [ "$failed" -eq "$before" ]
}

release_is_built() { build release build/release --preset release; }

stage_style() {
  local version
  version=$(clang-format --version 2> /dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p')
  if [ "$version" = 14 ]; then
    check format sh -c "find include src tests tools bench examples plugins/torch/csrc -name '*.h' -o -name '*.cc' -o -name '*.c' -o -name '*.cu' | xargs clang-format --dry-run -Werror"
  else
    skip format "clang-format is version ${version:-none}, the format is that of version 14"
  fi
  check "arrows and sizes" python3 tools/check_style.py
  check "arrows and sizes, planted violations" python3 tests/tools/check_style_test.py
}
stage_release() {
  release_is_built || return
  suites release build/release -LE '^(mpi|install|torch)$'
}
stage_install() {
  release_is_built || return
  check "exported symbols" tools/check_abi.sh build/release/src/libtutti.so
  suites install build/release -L '^install$'
}
stage_mpi() {
  release_is_built || return
  suites mpi build/release -L '^mpi$'
}
stage_asan() {
  build asan build/asan --preset asan || return
  suites asan build/asan -LE '^(mpi|install|torch)$'
}
stage_tsan() {
  build tsan build/tsan --preset tsan || return
  suites tsan build/tsan -LE '^(mpi|install|torch)$'
}
stage_clang() {
  CMAKE_C_COMPILER_LAUNCHER='' CMAKE_CXX_COMPILER_LAUNCHER='' build clang build/clang -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DTUTTI_CUDA=OFF || return
  suites clang build/clang -L '^(kernels|core|examples)$'
  check "fuzzing, a second a parser" tools/fuzz.sh 1
}
stage_arm() {
  local before=$failed
  check "arm packages" tools/arm_sysroot.sh build/arm-sysroot
  [ "$failed" -eq "$before" ] || return
  build arm build/arm -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DTUTTI_SYSROOT="$PWD/build/arm-sysroot" \
    -DCMAKE_BUILD_TYPE=Release -DTUTTI_BENCH=OFF -DTUTTI_CUDA=OFF \
    -- tutti test_core test_kernels test_transport test_executor || return
  suites arm build/arm -L '^(core|kernels|transport|executor)$'
}

stage_torch() {
  local before=$failed
  if [ "$named" -gt 0 ]; then
    check "torch packages" tools/torch.sh setup
    [ "$failed" -eq "$before" ] || return
  elif ! tools/torch.sh python > /dev/null; then
    skip torch "torch (several GB) is not installed; tools/test.sh torch does that"
    return
  fi
  release_is_built || return
  check "torch plugin" tools/torch.sh build
  [ "$failed" -eq "$before" ] || return
  suites torch build/release -L '^torch$'
}

# The thread sanitizer of g++ 12 cannot map its shadow where the system randomises addresses widely.
no_randomisation=()
if setarch "$(uname -m)" -R true 2> /dev/null; then no_randomisation=(setarch "$(uname -m)" -R); fi

started=$SECONDS
for stage in "${stages[@]}"; do
  echo "== $stage"
  begin=$SECONDS
  "stage_$stage"
  echo "== $stage: $((SECONDS - begin)) s"
done
echo
for line in ${left_out[@]+"${left_out[@]}"}; do echo "skipped: $line"; done
for line in ${bad[@]+"${bad[@]}"}; do echo "failed: $line"; done
echo "total: $((SECONDS - started)) s"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
