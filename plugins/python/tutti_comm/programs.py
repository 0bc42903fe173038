"""The programs of Tutti, and where its library, headers and CMake package are."""
import os
import pathlib
import sys


def prefix() -> pathlib.Path:
    """The folder that has include/tutti/tutti.h, lib/libtutti.so.0, lib/pkgconfig, lib/cmake/tutti and bin."""
    return pathlib.Path(__file__).resolve().parent


def _run(name: str) -> None:
    program = prefix() / "bin" / name
    os.execv(program, [name, *sys.argv[1:]])


def perf() -> None:
    _run("tutti-perf")


def plan() -> None:
    _run("tutti-plan")


def sim() -> None:
    _run("tutti-sim")


def probe() -> None:
    _run("tutti-probe")
