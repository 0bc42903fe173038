#!/usr/bin/env bash
# PyTorch with the backend tutti, in a Python environment of its own (TUTTI_TORCH_VENV, default build/torch-venv).
#   tools/torch.sh setup     makes it and installs torch (several GB, from PyPI) and what tests and examples need
#   tools/torch.sh build     builds plugins/torch into it
#   tools/torch.sh test      the tests of plugin, tutti_torch.hvd and examples, and a short selection of torch's own suite
#   tools/torch.sh suite     torch's whole distributed suite on tutti (20 minutes and more); arguments go to unittest
#   tools/torch.sh bench     tutti against gloo through torch.distributed; arguments go to bench/torch/race.py
#   tools/torch.sh python    prints the interpreter, if it has torch 2.6 or newer
# Without a word: setup, build, test. TUTTI_TORCH_PYTHON names an interpreter that has torch already; then nothing is
# installed but the plugin.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=${TUTTI_TORCH_VENV:-$PWD/build/torch-venv}
python=${TUTTI_TORCH_PYTHON:-$environment/bin/python}
given=${TUTTI_TORCH_PYTHON:-}
unset TUTTI_TORCH_VENV TUTTI_TORCH_PYTHON  # Tutti warns of TUTTI_ variables that it does not know

has_torch() {
  [ -n "$(command -v "$python")" ] && "$python" -c '
import sys, torch
sys.exit(tuple(int(p) for p in torch.__version__.split("+")[0].split(".")[:2]) < (2, 6))' > /dev/null 2>&1
}

setup() {
  [ -z "$given" ] || { has_torch || { echo "$python has no torch 2.6 or newer" >&2; exit 1; }; return 0; }
  tools/setup.sh --torch
  [ -x "$python" ] || python3 -m venv "$environment"
  has_torch || echo "torch: installing torch from PyPI (several GB)"
  "$python" -m pip install --quiet torch numpy scikit-learn expecttest ninja 2>&1 | grep -v '^\[notice\]' || true
  has_torch || { echo "torch: no torch 2.6 or newer could be installed" >&2; exit 1; }
  "$python" -m pip install --quiet torchft-nightly parameterized 2> /dev/null || echo "torch: no torchft, so its tests are skipped"
}

build() {
  has_torch || { echo "torch: no torch in $python; tools/torch.sh setup installs it" >&2; exit 1; }
  local log=build/torch-plugin.log
  mkdir -p build
  MAX_JOBS=${MAX_JOBS:-$(nproc)} TUTTI_TORCH_BUILD=${TUTTI_TORCH_BUILD:-$PWD/build/torch-plugin} PATH=$(dirname "$(command -v "$python")"):$PATH \
    "$python" -m pip install -v ./plugins/torch > "$log" 2>&1 || { tail -n 60 "$log" >&2; exit 1; }
}

# A build of the tests that has the stand-in for a GPU.
stand_in() {
  local library
  for library in build/*/tests/torch/stand_in/libtutti.so.0; do
    [ ! -e "$library" ] || { echo "$PWD/$library"; return; }
  done
}

test_all() {
  export TUTTI_TEST_STAND_IN=${TUTTI_TEST_STAND_IN:-$(stand_in)}
  export OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=
  "$python" tests/torch/test_ranks.py
  "$python" tests/torch/test_backend.py
  "$python" tests/torch/test_device.py || [ $? = 77 ]  # there is no stand-in for a GPU
  "$python" tests/torch/test_as.py
  "$python" tests/torch/test_sync_batch_norm.py
  "$python" tests/torch/test_reconfigure.py
  "$python" tests/torch/test_ft.py || [ $? = 77 ]  # there is no torchft
  "$python" tests/torch/test_window.py || [ $? = 77 ]  # this torch has no windows
  "$python" tests/torch/test_hvd.py
  "$python" tests/torch/test_hvd_operations.py
  "$python" tests/torch/test_hvd_elastic.py
  "$python" tests/torch/test_parallel.py
  "$python" tests/torch/test_examples.py
  "$python" tests/torch/torch_suite.py --short
}

[ $# -gt 0 ] || set -- all
command=$1
shift
case $command in
  all) setup && build && test_all ;;
  setup) setup ;;
  build) build ;;
  test) test_all ;;
  suite) exec "$python" tests/torch/torch_suite.py "$@" ;;
  bench) exec "$python" bench/torch/race.py "$@" ;;
  python) has_torch && echo "$python" ;;
  *) sed -n '2,11p' "$0" >&2; exit 2 ;;
esac
