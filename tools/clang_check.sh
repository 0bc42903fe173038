#!/usr/bin/env bash
# clang_check.sh syntax: each file of src and tests/fuzz compiled by clang, without output, with -Wthread-safety and
#   warnings as errors. Headers of the system are precompiled; that each file includes what it uses is shown by a build
#   of the preset clang.
# clang_check.sh tidy [COMMIT]: clang-tidy on the files of src that differ from COMMIT; without it, on all.
# Both take what they need of build/clang (cmake --preset clang).
set -euo pipefail
cd "$(dirname "$0")/.."
files() { find src -name '*.cc' ! -path 'src/device/cuda_*' ! -path 'src/kernels/device/cuda_*' | sort; }
fuzz_targets() { find tests/fuzz -name '*.cc'; }
case ${1:-} in
  syntax)
    flags=(-std=c++20 -DNDEBUG -Wall -Wextra -Wpedantic -Werror -Wthread-safety -Isrc -Iinclude -Itests)
    fmt=$(sed -n 's/^TUTTI_FMT_INCLUDE:PATH=//p' build/clang/CMakeCache.txt)
    [ "$fmt" = /usr/include ] || flags+=(-isystem "$fmt")
    sed -n '/^set(TUTTI_PRECOMPILED/,/)/p' cmake/precompiled.cmake | tr -d ')' | tr -s ' ' '\n' | grep -v '^set(' |
      sed 's/.*/#include <&>/' > build/clang/precompiled.h
    clang++ -x c++-header "${flags[@]}" build/clang/precompiled.h -o build/clang/precompiled.pch
    # Ten files of a room are compiled as one, much as in CMake's unity builds. Files that need another instruction set get it,
    # alone; precompiled headers are without.
    files | awk -F/ '/avx/ { print; next }
        $2 != room || count == 10 { if (group != "") print group; group = ""; count = 0; room = $2 }
        { group = group (count++ ? "," : "") $0 }
        END { print group }' | cat - <(fuzz_targets) |
      xargs -P "$(nproc)" -I{} sh -c 'files=$1; shift; case $files in
        *avx512*) exec clang++ "$@" -mavx512f -mavx512bw -mavx512dq -mavx512vl -mf16c "$files" ;;
        *avx2*) exec clang++ "$@" -mavx2 -mf16c "$files" ;;
      esac
      echo "$files" | tr , "\n" | sed "s/.*/#include \"&\"/" |
        clang++ -include-pch build/clang/precompiled.pch "$@" -I. -x c++ -' clang {} -fsyntax-only "${flags[@]}"
    ;;
  tidy)
    if [ -n "${2:-}" ]; then
      mapfile -t chosen < <(git diff --name-only --diff-filter=d "$2" -- 'src/*.cc' | grep -vE '^src/(kernels/)?device/cuda_' || true)
    else
      mapfile -t chosen < <(files)
    fi
    echo "${#chosen[@]} files"
    [ ${#chosen[@]} -eq 0 ] || printf '%s\n' "${chosen[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy -p build/clang --quiet
    ;;
  *) echo "usage: tools/clang_check.sh syntax | tidy [COMMIT]" >&2; exit 2 ;;
esac
