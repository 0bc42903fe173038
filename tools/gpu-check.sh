#!/usr/bin/env bash
# Checks that need a GPU. So far: the backend for PyTorch. It builds plugins/torch for this machine's Python (PYTHON, default
# python3) without a network and runs DDP, SyncBatchNorm and GradScaler with 2 ranks on one card. What is missing is skipped
# and said. Libraries to build with that the system lacks may lie unpacked below .gpu/usr.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
python=${PYTHON:-python3}
passed=0 failed=0 skipped=0
check() {
  local name=$1 log=build/gpu-check.log
  shift
  mkdir -p build
  if "$@" > "$log" 2>&1; then
    passed=$((passed + 1))
    echo "  $name: passed  $(grep -o 'loss .*' "$log" | tail -n 1)"
  else
    failed=$((failed + 1))
    echo "  $name: FAILED ($*)"
    tail -n 40 "$log" | sed 's/^/    /'
    return 1
  fi
}
skip() {
  skipped=$((skipped + 1))
  echo "  $1: skipped: $2"
}
end() {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
  exit
}

echo "== torch"
if ! "$python" -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null; then
  skip torch "$python has no torch with a GPU"
  end
fi
if [ -d .gpu/usr ]; then
  export CMAKE_PREFIX_PATH=$PWD/.gpu/usr CPATH=$PWD/.gpu/usr/include
  export LIBRARY_PATH=$PWD/.gpu/usr/lib/x86_64-linux-gnu
fi
site=$PWD/build/gpu-site
export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
check "plugin builds" "$python" -m pip install --no-build-isolation --no-index --no-deps --upgrade --target "$site" \
  ./plugins/torch || end
check "tensors on the GPU" "$python" -c 'import tutti_torch; assert tutti_torch._C.cuda' || end
# The suites of the backend, on host tensors, with this torch.
check "backend" "$python" tests/torch/test_backend.py
if ! "$python" -c 'import sklearn' 2> /dev/null; then
  skip "training" "scikit-learn, which has the digits, is missing"
  end
fi
export OMP_NUM_THREADS=1
run() { "$python" -m torch.distributed.run --standalone --nproc-per-node 2 "$@"; }
check "DDP, 2 ranks on one card" run examples/torch/ddp.py --device cuda:0
check "SyncBatchNorm and GradScaler, 2 ranks on one card" run examples/torch/syncbn_amp.py --device cuda:0
end
