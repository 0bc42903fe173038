#!/usr/bin/env bash
# Builds and tests, from nothing: installs what is missing first.
#   tools/test.sh                    the short run: all behaviour, without repetition; at most 20 minutes on two cores
#   tools/test.sh all                everything there is
#   tools/test.sh [all] STAGE...     these stages alone
#   tools/test.sh changed [COMMIT]   whole, what the changes since COMMIT touch (default: since main, or the last commit)
#   tools/test.sh stress [ROUNDS [SEED]]   threads, failure and time on a busy machine, with random pauses (default: 10)
# The stages; docs/testing.md says what of each the short run leaves to `all`, and why:
#   style    format, include arrows, sizes of files and functions, figures of the documents
#   release  the suites of the optimised build, the examples, tutti-perf's command line
#   install  the installed library used from outside; its exported symbols
#   mpi      the collective cases under mpirun
#   asan     the suites with the address and undefined-behaviour sanitizers
#   tsan     the suites with the thread sanitizer
#   clang    src compiled by clang with -Wthread-safety, warnings as errors; clang-tidy; what takes messages fuzzed
#   arm      the library cross-built for aarch64, the suites that need no peers' speed run by qemu-user
#   python   tutti-comm's wheel, made, installed and tested; in the short run only by name
#   torch    the backend for PyTorch; among all stages only where tools/torch.sh has installed torch, by name it does so first
# At the end stand the seconds of each stage and the slowest cases. The last line counts tests: N passed, N failed,
# N skipped. Exit code 1 if any failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
all_stages=(style release install mpi asan tsan clang arm python torch)
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; }
mode=short
case ${1:-} in
  all | changed | stress) mode=$1; shift ;;
  -h | --help) usage; exit 0 ;;
esac
export TEST_DEPTH=$mode
[ "$mode" != changed ] || TEST_DEPTH=all
stages=() named=0
if [ "$mode" = changed ]; then
  since=${1:-}
elif [ "$mode" = stress ]; then
  rounds=${1:-10} seed=${2:-$RANDOM}
  case $rounds$seed in *[!0-9]*) echo "stress takes numbers: tools/test.sh stress [ROUNDS [SEED]]" >&2; exit 2 ;; esac
else
  stages=("$@") named=$#
  for stage in "$@"; do
    case " ${all_stages[*]} " in
      *" $stage "*) ;;
      *) echo "no stage '$stage'; there are: ${all_stages[*]}" >&2; exit 2 ;;
    esac
  done
  [ "$named" -gt 0 ] || stages=("${all_stages[@]}")
fi

tools/setup.sh --test || exit 1
if [ -z "${CCACHE_DISABLE:-}${CMAKE_CXX_COMPILER_LAUNCHER:-}" ] && command -v ccache > /dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}
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

# suites STAGE BUILD CTEST-ARGUMENTS...: runs CTest and adds the counts of all cases.
suites() {
  local stage=$1 build=$2
  shift 2
  rm -rf "$build/results.xml" "$build/results"
  mkdir -p "$build/results"
  watched ${no_randomisation[@]+"${no_randomisation[@]}"} ctest --test-dir "$build" --output-on-failure -j $((cores + 2)) \
    --output-junit results.xml "$@"
  if [ ! -s "$build/results.xml" ]; then
    check "$stage suites" false
    tail -n 20 "$log"
    return
  fi
  count_results "$stage" "$build/results.xml" "$build/results"
}

# count_results STAGE FILE-OR-FOLDER...: adds the cases of JUnit files.
count_results() {
  local counts kind name why p f s
  counts=$(python3 tools/junit_counts.py "$@" --times build/test-times.txt) || true
  while IFS=$'\t' read -r kind name why; do
    case $kind in
      counts)
        read -r p f s <<< "$name"
        passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
        echo "  suites: $p passed, $f failed, $s skipped"
        [ "$((p + f + s))" -gt 0 ] || { failed=$((failed + 1)); bad+=("$1: no test was found"); }
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

release_done=
release_is_built() {
  [ -z "$release_done" ] || return 0
  case $mode in
    all) build release build/release --preset release "-DCMAKE_CUDA_ARCHITECTURES=80-real;90" ;;
    *) build release build/release --preset release -DCMAKE_CUDA_ARCHITECTURES=90 -- tested ;;
  esac && release_done=1
}

stage_style() {
  local version
  version=$(clang-format --version 2> /dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p')
  if [ "$version" = 14 ]; then
    check format sh -c "find include src tests tools bench examples plugins -name '*.h' -o -name '*.cc' -o -name '*.c' -o -name '*.cu' | xargs clang-format --dry-run -Werror"
  else
    skip format "clang-format is version ${version:-none}, the format is that of version 14"
  fi
  check "arrows and sizes" python3 tools/check_style.py
  check "arrows and sizes, planted violations" python3 tests/tools/check_style_test.py
}
not_here='^(mpi|install|torch)$'
stage_release() {
  release_is_built || return
  local whole=()
  [ "$mode" != all ] || whole=(-C whole)
  suites release build/release ${whole[@]+"${whole[@]}"} -LE "$not_here"
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
# Reports name functions; for lines as well, which take a sixth of the compile time: tools/test.sh all asan. Kernels of
# three instruction sets take a quarter of the compile time, so the short run has those of one.
no_lines=(-DCMAKE_CXX_FLAGS_DEBUG=-O1 -DTUTTI_TESTS_UNOPTIMISED=ON -DTUTTI_BASELINE_KERNELS=ON) lines='-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1'
# What is repeated at many points or places repeats the same code: with a sanitizer, all cases run at the short depth.
stage_asan() {
  if [ "$mode" = all ]; then
    build asan build/asan --preset asan "$lines" && TEST_DEPTH=short suites asan build/asan -C whole -LE "$not_here|^strict$"
  else
    build asan build/asan --preset asan "${no_lines[@]}" -- test_core test_net test_comm test_fault test_hostile test_api || return
    suites asan build/asan -C sample -L '^(core|net|comm|fault|hostile_sample|sample)$'
  fi
}
stage_tsan() {
  if [ "$mode" = all ]; then
    build tsan build/tsan --preset tsan "$lines" || return
    TEST_DEPTH=short suites tsan build/tsan -C sample -LE "$not_here|^(plan|sim|probe|tools|api|device|hostile_sample)$"
  else
    build tsan build/tsan --preset tsan "${no_lines[@]}" -- test_net test_comm test_transport test_api || return
    suites tsan build/tsan -C sample -L '^(net|comm|transport|sample)$'
  fi
}
stage_clang() {
  local before=$failed
  check "clang configure" cmake -S . --preset clang
  [ "$failed" -eq "$before" ] || return
  if [ "$mode" = all ]; then
    check "clang build" cmake --build build/clang -j "$cores"
    [ "$failed" -eq "$before" ] || return
    suites clang build/clang -L '^(kernels|core|examples)$'
    check "clang-tidy, all of src" tools/clang_check.sh tidy
    check "fuzzing, ten seconds a parser" tools/fuzz.sh 10 connection frame handshake id launcher message text
    check "fuzzing, a minute of whoever has the secret" tools/fuzz.sh 60 join link membership root
  else
    check "src by clang, thread safety" tools/clang_check.sh syntax
    check "clang-tidy, changed files" tools/clang_check.sh tidy "$(python3 tools/changed.py base)"
  fi
}
stage_arm() {
  local before=$failed targets=(test_core test_kernels) labels='^(core|kernels)$' rooms="core;kernels"
  if [ "$mode" = all ]; then
    targets+=(tutti test_net test_transport test_executor) labels='^(core|kernels|net|transport|executor)$'
    rooms=""
  fi
  check "arm packages" tools/arm_sysroot.sh build/arm-sysroot
  [ "$failed" -eq "$before" ] || return
  build arm build/arm -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DTUTTI_SYSROOT="$PWD/build/arm-sysroot" \
    -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG" -DTUTTI_BENCH=OFF -DTUTTI_CUDA=OFF -DTUTTI_UNITY=ON \
    "-DTUTTI_ONLY_ROOMS=$rooms" -- "${targets[@]}" || return
  suites arm build/arm -L "$labels"
}

stage_python() {
  if [ "$mode" != all ] && [ "$named" -eq 0 ]; then
    skip python "it compiles the library once more; tools/test.sh all does, or tools/test.sh python"
    return
  fi
  check "tutti-comm's wheel" tools/wheels.sh --comm build/wheels
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

# Whole, and nothing else: the suites of the rooms that the changes touch.
stage_changed() {
  local labels
  labels=$(python3 tools/changed.py labels ${since:+"$since"}) || exit 2
  if [ -z "$labels" ]; then
    echo "  no change touches anything that is compiled or tested"
    return
  fi
  echo "  suites of: $labels"
  release_is_built || return
  suites changed build/release -L "^(${labels// /|})$" -LE '^torch$'
  check "src by clang, thread safety" tools/clang_check.sh syntax
  check "clang-tidy, changed files" tools/clang_check.sh tidy "$(python3 tools/changed.py base ${since:+"$since"})"
}

# Rounds of the suites of threads, failure and time beside eight busy processes; processes of cases are stopped for
# moments, but not of those that time a promise.
stage_stress() {
  local busy=() round
  release_is_built || return
  for _ in 1 2 3 4 5 6 7 8; do
    (while :; do :; done) &
    busy+=($!)
  done
  trap 'kill "${busy[@]}" 2> /dev/null' EXIT
  echo "  seed $seed"
  for ((round = 1; round <= rounds; ++round)); do
    local begin=$SECONDS before=$failed
    TEST_SEED=$((seed + round)) suites "stress, round $round" build/release -C stress -L '^stress$'
    echo "  round $round of $rounds: $((failed - before)) failed, $((SECONDS - begin)) s"
  done
  kill "${busy[@]}"
  trap - EXIT
}

started=$SECONDS
rm -f build/test-times.txt
case $mode in
  changed) stages=(style changed) ;;
  stress) stages=(stress) ;;
esac
times=()
for stage in "${stages[@]}"; do
  echo "== $stage"
  begin=$SECONDS
  "stage_$stage"
  echo "== $stage: $((SECONDS - begin)) s"
  times+=("$(printf '%6d s  %s' $((SECONDS - begin)) "$stage")")
done
echo
for line in ${left_out[@]+"${left_out[@]}"}; do echo "skipped: $line"; done
for line in ${bad[@]+"${bad[@]}"}; do echo "failed: $line"; done
if [ -s build/test-times.txt ]; then
  echo "The slowest cases:"
  sort -rn build/test-times.txt | head -n 20
fi
echo "Stages:"
printf '%s\n' "${times[@]}"
echo "total: $((SECONDS - started)) s"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
