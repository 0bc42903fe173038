#!/usr/bin/env bash
# The all_reduce table of this machine, from nothing: installs what is missing, builds, runs one rank a core.
# Arguments go to tutti-perf: tools/bench.sh -d half --ranks 4
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
if [ -z "${CCACHE_DISABLE:-}${CMAKE_CXX_COMPILER_LAUNCHER:-}" ] && command -v ccache > /dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}
fi
# The CUDA parts take as long to compile as all the rest, and are of use only where there is a GPU.
preset=bench
if compgen -G '/dev/nvidia[0-9]*' > /dev/null; then preset=release; fi
build=build/$preset
echo "bench: building $build/tools/tutti-perf"
mkdir -p build
cmake --preset "$preset" > build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
cmake --build "$build" -j "$(nproc)" --target tutti-perf > build/bench.log 2>&1 || { tail -n 60 build/bench.log; exit 1; }
echo "bench: built after $SECONDS s; measuring (about a minute)"
exec "$build/tools/tutti-perf" all_reduce "$@"
