#!/usr/bin/env bash
# Installs the build into a temporary folder and uses it as a stranger would: by pkg-config and by find_package.
# install_test.sh BUILD SOURCE pkgconfig|cmake|moved
# Covers cmake/install.cmake.
set -euo pipefail
build=$1 source=$2 way=$3
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place/prefix" > "$place/log"
prefix=$place/prefix
libraries=$(dirname "$(find "$prefix" -name 'libtutti.so')")

by_pkgconfig() { # a C program and a C++ program, no build system
  export PKG_CONFIG_PATH=$libraries/pkgconfig
  local flags
  read -ra flags <<< "$(pkg-config --cflags --libs tutti)"
  c++ -std=c++20 -O1 -Wall -Wextra -Werror "-I$source/tests" "$source/tests/install/outside/outside.cc" \
    "$source"/tests/cases/*.cc "${flags[@]}" "-Wl,-rpath,$libraries" -o "$place/outside"
  cc -std=c99 -Wall -Wextra -Wpedantic -Werror "$source/examples/sum.c" "${flags[@]}" "-Wl,-rpath,$libraries" -o "$place/sum"
}

by_cmake() {
  cmake -S "$source/tests/install/outside" -B "$place/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release \
    -DTUTTI_CASES="$source/tests" -DTUTTI_EXAMPLE="$source/examples/sum.c" > "$place/log"
  cmake --build "$place/build" > "$place/log" || { cat "$place/log"; return 1; }
  cp "$place/build/outside" "$place/build/sum" "$place/"
}

case $way in
  pkgconfig)
    by_pkgconfig
    numbers=(3)
    [ "${TEST_DEPTH:-}" != all ] || numbers=(1 2 3 5 8)
    for ranks in "${numbers[@]}"; do "$place/outside" "$ranks" "$place/join"; done
    ;;
  cmake)
    by_cmake
    "$place/outside" 2 "$place/join"
    ;;
  moved) # an installed tree works where it is moved to
    mv "$prefix" "$place/elsewhere"
    prefix=$place/elsewhere
    libraries=$(dirname "$(find "$prefix" -name 'libtutti.so')")
    by_pkgconfig
    "$place/outside" 2 "$place/join"
    "$prefix/bin/tutti-perf" all_reduce --ranks 2 -e 64K -n 5
    ;;
esac
[ ! -e "$place/join" ] || { echo "the join left its file behind"; exit 1; }
"$place/sum"
