#!/usr/bin/env bash
# Runs one file of this folder with the Python that has torch and the plugin; 77 (skipped) without.
cd "$(dirname "$0")/../.." || exit
if ! python=$(tools/torch.sh python); then
  echo "skipped: no torch 2.6 or newer; tools/torch.sh setup installs it"
  exit 77
fi
if ! "$python" -c 'import torch, tutti_torch' 2> /dev/null; then
  echo "skipped: the plugin is not installed; tools/torch.sh build does"
  exit 77
fi
if ! "$python" -c 'import numpy, sklearn, expecttest' 2> /dev/null; then
  echo "skipped: numpy, scikit-learn or expecttest is missing"
  exit 77
fi
unset TUTTI_TORCH_VENV TUTTI_TORCH_PYTHON  # Tutti warns of TUTTI_ variables that it does not know
export OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=
arguments=()
[ "$1" != torch_suite.py ] || arguments=(--short)
exec "$python" "tests/torch/$1" ${arguments[@]+"${arguments[@]}"}
