#!/usr/bin/env bash
# arm_sysroot.sh FOLDER: OpenSSL and GoogleTest for arm64, taken from Debian's packages without installing them or
# adding an architecture to this system. Nothing is done when the folder is complete.
set -euo pipefail
folder=$1
[ ! -e "$folder/complete" ] || exit 0
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" "$folder/packages"
options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists="$folder/apt/lists"
         -o Dir::Cache="$folder/apt/cache" -o Dir::State::status=/dev/null -o APT::Sandbox::User="$(id -un)")
cd "$folder/packages"
apt-get "${options[@]}" update
apt-get "${options[@]}" download libssl-dev libgtest-dev libfmt-dev libcli11-dev nlohmann-json3-dev
for package in *.deb; do dpkg-deb -x "$package" "$folder"; done
rm -rf "$folder/apt" "$folder/packages"
cp -r "$folder/usr/include/aarch64-linux-gnu/." "$folder/usr/include/" # the cross compiler looks in no such subfolder
find "$folder" -name '*.so' -delete # links to libraries that are not here: the static ones are used
touch "$folder/complete"
