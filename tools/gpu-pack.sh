#!/usr/bin/env bash
# Brings what tools/gpu-check.sh needs to build on a machine without a network into the ignored folder .gpu: the Debian
# packages of all build dependencies, as archives. Run where there is a network; the folder then travels with the tree.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(libssl-dev libssl3 libfmt-dev libcli11-dev nlohmann-json3-dev libgtest-dev googletest libbenchmark-dev
          libbenchmark1debian)
limit_mib=60

command -v apt-get > /dev/null || { echo "tools/gpu-pack.sh knows Debian's apt-get only" >&2; exit 1; }
rm -rf .gpu/packages.new
mkdir -p .gpu/packages.new
log=$(mktemp)
trap 'rm -f "$log"; rm -rf .gpu/packages.new' EXIT
download() { (cd .gpu/packages.new && apt-get -o APT::Sandbox::User=root download "${packages[@]}") > "$log" 2>&1; }
if ! download; then
  echo "gpu-pack: reading the package lists anew"
  apt-get -qq update > "$log" 2>&1 || true # one unreachable list need not matter; the download tells
  download || { tail -n 30 "$log" >&2; exit 1; }
fi
rm -rf .gpu/packages
mv .gpu/packages.new .gpu/packages
for package in "${packages[@]}"; do
  ls .gpu/packages/"${package}"_*.deb > /dev/null || exit 1
done
size=$(du -sm .gpu | cut -f1)
echo "gpu-pack: ${#packages[@]} packages, $size MiB in .gpu"
[ "$size" -lt "$limit_mib" ] || { echo "gpu-pack: .gpu must stay below $limit_mib MiB" >&2; exit 1; }
