#!/usr/bin/env bash
# Random calls of random ranks while processes are killed and stopped, connections cut, and memory, descriptors and room
# for files run out: every result is exact, or an error names the cause, and every run ends. It all follows from a seed.
#   tools/chaos.sh [--minutes M] [--seed S] [--round N] [--tell]      one minute, and another seed each time, if not given
# Exit code 1 if anything is wrong; the command that repeats it is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${TUTTI_BUILD:-build/release}
if [ ! -f "$build/CMakeCache.txt" ]; then
  mkdir -p build
  cmake -S . --preset release > "$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
fi
cmake --build "$build" -j "$(nproc)" --target chaos > "$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
exec "$build/tests/chaos/chaos" "$@"
