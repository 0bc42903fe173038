#!/usr/bin/env bash
# Installs the Debian packages that are missing, and only those. tools/setup.sh: to build; --test: to test as well;
# --torch: to build the backend for PyTorch; --peers: the libraries that tutti-perf --compare knows; --figures: to draw
# the pictures of docs/performance.md, and nothing else.
set -euo pipefail

build_packages=(g++ cmake ninja-build pkg-config git libssl-dev libfmt-dev libcli11-dev nlohmann-json3-dev
                libgtest-dev libbenchmark-dev openmpi-bin libopenmpi-dev
                librsvg2-bin)  # tutti-plan --png
test_packages=(python3 procps clang clang-format clang-tidy libclang-rt-14-dev binutils qemu-user g++-aarch64-linux-gnu util-linux
               iproute2 mpich slurmctld slurmd)  # launchers and hosts to test with: 12 MB to load, 60 MB installed
peer_packages=(mpich libmpich-dev libgloo-dev python3-pip unzip)

wanted=("${build_packages[@]}")
case ${1:-} in
  "") ;;
  --test)
    wanted+=("${test_packages[@]}")
    ! { command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ]; } > /dev/null || wanted+=(python3-pip)
    ;;
  --torch) wanted+=(python3-venv python3-dev) ;;
  --peers) wanted+=("${peer_packages[@]}") ;;
  --figures) wanted=(python3 python3-matplotlib) ;;
  *) echo "usage: tools/setup.sh [--test|--torch|--peers|--figures]" >&2; exit 2 ;;
esac

if ! command -v apt-get > /dev/null || ! command -v dpkg-query > /dev/null; then
  echo "tools/setup.sh knows Debian's apt-get only. Here, please install what these packages hold:" >&2
  echo "  ${wanted[*]}" >&2
  exit 1
fi

missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
# What comes after the packages.
finish() {
  [ "${1:-}" != --peers ] || "$(dirname "${BASH_SOURCE[0]}")/ucc.sh"
  [ "${1:-}" != --test ] || add_cuobjdump
  exit 0
}
# A CUDA compiler may come without the tools that look into what it made. Without them one check is skipped, and says so.
add_cuobjdump() {
  local root
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  command -v nvcc > /dev/null || [ -x /usr/local/cuda/bin/nvcc ] || return 0
  if python3 "$root/tools/device_kernels.py" tool > /dev/null; then return; fi
  python3 -m pip --quiet --disable-pip-version-check --timeout 10 --retries 2 install --no-deps --target "$root/build/cuda-tools" \
    nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm > /dev/null 2>&1 || echo "setup: no cuobjdump could be had"
}
[ ${#missing[@]} -gt 0 ] || finish "$@"

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo > /dev/null || { echo "not root and no sudo; as root: apt-get install ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >> "$log" 2>&1; }
install() { apt install -y --no-install-recommends "${missing[@]}"; }

echo "setup: installing ${missing[*]}"
started=$SECONDS
if ! install; then
  echo "setup: reading the package lists anew"
  apt update || true # one unreachable list need not matter; the installation tells
  install || { tail -n 30 "$log" >&2; echo "setup: the installation failed" >&2; exit 1; }
fi
echo "setup: done in $((SECONDS - started)) s"
finish "$@"
