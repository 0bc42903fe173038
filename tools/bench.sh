#!/usr/bin/env bash
# The all_reduce table of this machine, from nothing: installs what is missing, builds, runs one rank a core.
# Arguments go to tutti-perf: tools/bench.sh -d half --ranks 4
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
if [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ] && command -v ccache > /dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
echo "bench: configuring build/release"
mkdir -p build
cmake --preset release > build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
echo "bench: building tutti-perf"
cmake --build build/release --target tutti-perf
echo "bench: measuring (about a minute)"
exec build/release/tools/tutti-perf all_reduce "$@"
