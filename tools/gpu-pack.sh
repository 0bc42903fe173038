#!/usr/bin/env bash
# Makes what tools/gpu-check.sh takes to a machine with a GPU and without a network, in the ignored folder .gpu, which travels
# with the tree:
#   .gpu/programs.tar.xz  the programs, built here (CMake's preset gpu) and stripped, and the scripts that run them; unpacked
#                         anywhere it needs no tree: tutti-gpu/tools/gpu-check.sh
#   .gpu/packages         the Debian packages of all build dependencies, from which it builds there if the programs do not start
# Needs nvcc, and a network for the packages and for NCCL's header; without NCCL there is no race with it.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
packages=(libssl-dev libssl3 libfmt-dev libcli11-dev nlohmann-json3-dev libgtest-dev googletest libbenchmark-dev
          libbenchmark1debian)
programs=(gpu_facts device_steps_bench device_start_bench device_kernels_bench test_kernels_cuda test_multicast_cuda
          test_two_level_cuda tutti-perf)
archive_mib=50 all_mib=60
log=$(mktemp) place=$(mktemp -d)
trap 'rm -rf "$log" "$place" .gpu/packages.new' EXIT
logged() { "$@" > "$log" 2>&1 || { tail -n 40 "$log" >&2; echo "gpu-pack: failed: $*" >&2; exit 1; }; }

download() { (cd .gpu/packages.new && apt-get -o APT::Sandbox::User=root download "${packages[@]}") > "$log" 2>&1; }
fetch_packages() {
  local package
  command -v apt-get > /dev/null || { echo "tools/gpu-pack.sh knows Debian's apt-get only" >&2; exit 1; }
  rm -rf .gpu/packages.new
  mkdir -p .gpu/packages.new
  if ! download; then
    echo "gpu-pack: reading the package lists anew"
    apt-get -qq update > "$log" 2>&1 || true # one unreachable list need not matter; the download tells
    logged download
  fi
  rm -rf .gpu/packages
  mv .gpu/packages.new .gpu/packages
  for package in "${packages[@]}"; do
    ls .gpu/packages/"${package}"_*.deb > /dev/null || exit 1
  done
}

# The folder of NCCL's wheel; empty if it cannot be had.
nccl() {
  local site=$root/build/nccl-site
  python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])' 2> /dev/null && return
  [ -e "$site/nvidia/nccl/include/nccl.h" ] ||
    python3 -m pip --quiet --disable-pip-version-check install --no-deps --target "$site" 'nvidia-nccl-cu13<2.29' > "$log" 2>&1 || return 0
  echo "$site/nvidia/nccl"
}

build() {
  local wheel
  wheel=$(nccl)
  [ -n "$wheel" ] || echo "gpu-pack: without NCCL, which pip cannot load here"
  echo "gpu-pack: building"
  logged cmake --preset gpu ${wheel:+"-DNCCL_WHEEL=$wheel"}
  logged cmake --build build/gpu -j "$(nproc)" --target gpu_checks
  if [ -x build/gpu/bin/nccl_race ]; then programs+=(nccl_race); fi
}

# The library and Google Benchmark's, which Debian has as a shared library only, lie beside the programs.
pack() {
  local into=$place/tutti-gpu program library
  mkdir -p "$into/programs" "$into/tools"
  for program in "${programs[@]}"; do
    [ -x "build/gpu/bin/$program" ] || { echo "gpu-pack: $program was not built" >&2; exit 1; }
    cp "build/gpu/bin/$program" "$into/programs/"
  done
  cp -L build/gpu/bin/libtutti.so.0 "$into/programs/"
  for library in $(ldd build/gpu/bin/device_kernels_bench | awk '/libbenchmark/ {print $3}'); do cp -L "$library" "$into/programs/"; done
  find "$into/programs" -type f -exec strip {} +
  git describe --always --dirty --exclude '*' > "$into/programs/commit"
  cp tools/gpu-check.sh tools/gpu_report.py "$into/tools/"
  tar -C "$place" -c tutti-gpu | xz -T0 > .gpu/programs.tar.xz.new
  mv .gpu/programs.tar.xz.new .gpu/programs.tar.xz
}

# within MIB PATH...: together they are at most that large.
within() {
  local most=$1 kib
  shift
  kib=$(du -ck "$@" | tail -n 1 | cut -f 1)
  echo "gpu-pack: $* $((kib / 1024)).$((kib % 1024 * 10 / 1024)) MiB"
  [ "$kib" -le $((most * 1024)) ] || { echo "gpu-pack: more than $most MiB" >&2; exit 1; }
}

mkdir -p .gpu
fetch_packages
build
pack
within "$archive_mib" .gpu/programs.tar.xz
within "$all_mib" .gpu
