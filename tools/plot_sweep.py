#!/usr/bin/env python3
"""Draws what tutti-perf --sweep -J measured: plot_sweep.py OUT.svg|OUT.png SWEEP.json [SWEEP.json ...]

One panel a collective and file: the time of every algorithm over that of the best, by size; the chosen one is thick.
Needs matplotlib (Debian: python3-matplotlib).
"""
import json
import pathlib
import sys

from matplotlib import pyplot

from plot import COLORS


def panels_of(paths):
    """(title, cells) for each collective of each file."""
    for path in paths:
        report = json.loads(pathlib.Path(path).read_text())
        collectives = dict.fromkeys(cell["collective"] for cell in report["sweep"])
        for collective in collectives:
            cells = [cell for cell in report["sweep"] if cell["collective"] == collective]
            if len(cells) > 1:
                yield f"{collective}, {report['config']['ranks']} ranks, {cells[0]['transport']}", cells


def draw(axes, title, cells):
    best = [min(cell["time_us"].values()) for cell in cells]
    sizes = [cell["size"] for cell in cells]
    for name in cells[0]["time_us"]:
        ratios = [cell["time_us"][name] / least for cell, least in zip(cells, best)]
        style = "--" if name.startswith("hierarchical") else "-"
        axes.plot(sizes, ratios, style, color=COLORS[name], linewidth=1.2, label=name)
    chosen = [cell["time_us"][cell["chosen"]] / least for cell, least in zip(cells, best)]
    axes.plot(sizes, chosen, "o", color="black", markersize=5, fillstyle="none", label="chosen")
    axes.set_title(title, fontsize=9)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_ylim(0.9, 8)
    axes.set_yticks([1, 2, 4, 8]), axes.set_yticklabels(["1", "2", "4", "8"])
    axes.grid(True, linewidth=0.3)
    axes.legend(fontsize=5, ncol=2)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    panels = list(panels_of(sys.argv[2:]))
    if not panels:
        sys.exit("these files have no collective with several sizes")
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(rows, columns, figsize=(4 * columns, 3 * rows), squeeze=False)
    for axes, panel in zip(grid.flat, panels):
        draw(axes, *panel)
    for axes in grid.flat[len(panels):]:
        axes.set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel("size (bytes)", fontsize=8)
    for axes in grid[:, 0]:
        axes.set_ylabel("time / time of the best", fontsize=8)
    figure.tight_layout()
    figure.savefig(sys.argv[1], dpi=110, metadata={"Date": None} if sys.argv[1].endswith(".svg") else None)


if __name__ == "__main__":
    main()
