#!/usr/bin/env bash
# Fuzzes what takes messages from outside: tools/fuzz.sh [SECONDS A TARGET [TARGET...]], 600 and all if not given.
# New inputs go to build/fuzz/corpus, what breaks something to build/fuzz/finds. Exit code 1 if anything did.
# After a change of a message: tools/fuzz.sh --corpus writes the corpus in the tree anew.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/fuzz
mkdir -p build
cmake -S . --preset fuzz > "$build.log" || { cat "$build.log" >&2; exit 1; }

if [ "${1:-}" = --corpus ]; then
  cmake --build "$build" --target make_corpus
  exec "$build/tests/fuzz/make_corpus" tests/fuzz/corpus
fi

seconds=${1:-600}
shift || true
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in tests/fuzz/*_fuzz.cc; do targets+=("$(basename "$source" _fuzz.cc)"); done
fi
cmake --build "$build" -j "$(nproc)" --target "${targets[@]/#/fuzz_}"
mkdir -p "$build/finds"
# fuzz TARGET: one at a time on each core.
fuzz() {
  local target=$1 log="$build/$1.log" runs
  mkdir -p "$build/corpus/$target"
  # 512 MiB and 4 KiB an input: a parser that wants more for a message of that size believes a length it was sent.
  if "$build/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -rss_limit_mb=512 -malloc_limit_mb=64 -timeout=10 -max_len=4096 \
    -artifact_prefix="$build/finds/$target-" -print_final_stats=1 "$build/corpus/$target" "tests/fuzz/corpus/$target" \
    > "$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "$target: ${runs:-0} inputs, nothing found"
    [ "${runs:-0}" -gt 0 ]
  else
    echo "$target: FOUND something" >&2
    tail -n 40 "$log" >&2
    return 1
  fi
}
export build seconds
export -f fuzz
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz {}' || exit 1
