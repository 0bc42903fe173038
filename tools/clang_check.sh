#!/usr/bin/env bash
# clang_check.sh syntax: each file of src compiled alone by clang, without output, with -Wthread-safety and warnings as
#   errors. It also shows that a file includes what it uses: builds have precompiled headers, and compile files together.
# clang_check.sh tidy [COMMIT]: clang-tidy on the files of src that differ from COMMIT; without it, on all.
# Both take the commands from build/clang/compile_commands.json (cmake --preset clang).
set -euo pipefail
cd "$(dirname "$0")/.."
files() { find src -name '*.cc' ! -name 'cuda*.cc' | sort; }
case ${1:-} in
  syntax)
    includes=(-Isrc -Iinclude)
    fmt=$(sed -n 's/^TUTTI_FMT_INCLUDE:PATH=//p' build/clang/CMakeCache.txt)
    [ "$fmt" = /usr/include ] || includes+=(-isystem "$fmt")
    # Files that need another instruction set get it.
    files | xargs -P "$(nproc)" -I{} sh -c 'case $1 in
        *avx512*) set -- "$@" -mavx512f -mavx512bw -mavx512dq -mavx512vl -mf16c ;;
        *avx2*) set -- "$@" -mavx2 -mf16c ;;
      esac
      file=$1; shift
      clang++ -std=c++20 -fsyntax-only -DNDEBUG -Wall -Wextra -Wpedantic -Werror -Wthread-safety "$@" "$file"' \
      clang {} "${includes[@]}"
    ;;
  tidy)
    if [ -n "${2:-}" ]; then
      mapfile -t chosen < <(git diff --name-only --diff-filter=d "$2" -- 'src/*.cc' | grep -v '/cuda[a-z_]*[.]cc$' || true)
    else
      mapfile -t chosen < <(files)
    fi
    echo "${#chosen[@]} files"
    [ ${#chosen[@]} -eq 0 ] || printf '%s\n' "${chosen[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy -p build/clang --quiet
    ;;
  *) echo "usage: tools/clang_check.sh syntax | tidy [COMMIT]" >&2; exit 2 ;;
esac
