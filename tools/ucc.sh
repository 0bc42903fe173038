#!/usr/bin/env bash
# ucc.sh [FOLDER]: UCC with UCX and the C library that they need, unpacked into .cache/peers without installing anything.
# This Debian has no UCC: it is taken from Debian's next release (binary packages of forky), UCX from PyPI's wheel
# (libucx-cu12, 43 MB; it works without CUDA), because Debian's UCX is compiled with assertions: 8 bytes take 1.3 times
# as long. Nothing is done when the folder is complete.
set -euo pipefail
folder=${1:-$(dirname "${BASH_SOURCE[0]}")/../.cache/peers}
[ ! -e "$folder/complete" ] || exit 0
machine=$(dpkg --print-architecture)
triplet=$(uname -m)-linux-gnu
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
echo "setup: fetching UCC and UCX"
log=$(mktemp)
trap '[ -e "$folder/complete" ] || { tail -n 20 "$log" >&2; echo "setup: UCC cannot be had here" >&2; }; rm -f "$log"' EXIT
work=$folder/work
rm -rf "$work"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/packages"
mirror=$(apt-get indextargets --format '$(REPO_URI)' | sort -u | grep '/debian/$') || { echo 'no mirror of Debian is set up' > "$log"; exit 1; }
touch "$work/status"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keys] $mirror forky main" > "$work/sources.list"
options=(-qq -o APT::Architecture="$machine" -o APT::Architectures="$machine" -o Dir::State::lists="$work/lists"
         -o Dir::Cache="$work/cache" -o Dir::State::status="$work/status" -o Dir::Etc::SourceList="$work/sources.list"
         -o Dir::Etc::SourceParts=/dev/null -o APT::Sandbox::User="$(id -un)")
cd "$work/packages"
fetch() {
  apt-get "${options[@]}" update
  apt-get "${options[@]}" download libucc1 libucc-dev libc6 libgcc-s1 libstdc++6
  for package in *.deb; do dpkg-deb -x "$package" "$folder"; done
  python3 -m pip download -q --no-deps -d . libucx-cu12
  unzip -qo libucx_cu12*.whl 'libucx/lib/*' -d wheel
  cp -a wheel/libucx/lib/libuc*.so* wheel/libucx/lib/ucx "$folder/usr/lib/$triplet/"
}
(fetch) >> "$log" 2>&1 # in a process of its own: what ends it must still be told
rm -rf "$work"
touch "$folder/complete"
echo "setup: UCC is in $folder"
