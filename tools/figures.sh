#!/usr/bin/env bash
# Makes the figures of the documents from docs/measured and bench/results alone: the tables between marks in docs/performance.md,
# docs/measuring.md, docs/gpu.md and other pages, and the pictures of the first. bench/measure.sh and tools/gpu-check.sh measure anew.
#   tools/figures.sh           needs matplotlib, and installs it (tools/setup.sh --figures)
#   tools/figures.sh --check   fails if a table is not what the data say; needs no matplotlib, and looks at no picture
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in
  "") ;;
  --check) exec python3 tools/figures.py check ;;
  *) sed -n '2,5p' "$0" | cut -c 3- >&2; exit 2 ;;
esac
python3 tools/figures.py write
python3 -c 'import matplotlib' 2> /dev/null || tools/setup.sh --figures || true
python3 -c 'import matplotlib' 2> /dev/null ||
  { echo "figures: the tables are new, the pictures are not: there is no matplotlib (Debian: python3-matplotlib)" >&2; exit 1; }
python3 -B tools/plot_measured.py
