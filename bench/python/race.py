#!/usr/bin/env python3
"""tutti_comm against mpi4py on numpy arrays: what Python adds to a call, and all-reduce from 8 B to 16 MiB.

    mpirun -n 2 python bench/python/race.py [-J FILE]

Both run in the same processes, in turn, in small lots; a lot counts as its slowest rank, and the table has the medians of
the lots and of their ratios. What Python adds is measured on one rank: the same call from Python and from a loop in C,
which cc compiles.
"""
import argparse
import ctypes
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy
import tutti_comm
from mpi4py import MPI

SIZES = [8, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20]
LOTS = 31
LOOP = r"""
#include <stddef.h>
#include <time.h>
double seconds_of(int (*call)(const void*, void*, size_t, int, int, void*, void*), const void* in, void* out,
                  size_t count, int type, int op, void* comm, int times) {
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < times; ++i) call(in, out, count, type, op, comm, 0);
  clock_gettime(CLOCK_MONOTONIC, &end);
  return (end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) * 1e-9) / times;
}
double seconds_of_mpi(int (*call)(const void*, void*, int, void*, void*, void*), const void* in, void* out, int count,
                      void* type, void* op, void* comm, int times) {
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < times; ++i) call(in, out, count, type, op, comm);
  clock_gettime(CLOCK_MONOTONIC, &end);
  return (end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) * 1e-9) / times;
}
"""


def compiled_loop(folder):
    source = pathlib.Path(folder, "loop.c")
    source.write_text(LOOP)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", source.with_suffix(".so")], check=True)
    loop = ctypes.CDLL(source.with_suffix(".so"))
    loop.seconds_of.restype = loop.seconds_of_mpi.restype = ctypes.c_double
    return loop


def seconds(call, times):
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times


def added_by_python(times=20000):
    """Nanoseconds a call of one rank, of tutti_comm and mpi4py, over the same call in C."""
    send, recv = numpy.ones(1, dtype="float32"), numpy.empty(1, dtype="float32")
    pointers = ctypes.c_void_p(send.ctypes.data), ctypes.c_void_p(recv.ctypes.data)
    library = ctypes.CDLL(str(tutti_comm.prefix() / "lib" / "libtutti.so.0"))
    handle = ctypes.c_void_p()
    assert library.tuttiCommInitAll(ctypes.byref(handle), 1, None) == 0
    mpi = ctypes.CDLL(MPI.__file__)

    def mpi_handle(value):  # a pointer with Open MPI, an int with MPICH
        return ctypes.c_void_p.from_address(MPI._addressof(value)) if MPI._sizeof(value) == 8 else ctypes.c_void_p(
            ctypes.c_int.from_address(MPI._addressof(value)).value)

    lots = {"tutti_comm": [], "mpi4py": []}
    comm = tutti_comm.init_all(1)[0]
    with tempfile.TemporaryDirectory() as folder:
        loop = compiled_loop(folder)
        for _ in range(LOTS):
            in_c = loop.seconds_of(library.tuttiAllReduce, *pointers, ctypes.c_size_t(1), 7, 0, handle, times)
            lots["tutti_comm"].append(seconds(lambda: comm.all_reduce(send, recv), times) - in_c)
            in_c = loop.seconds_of_mpi(mpi.MPI_Allreduce, *pointers, 1, mpi_handle(MPI.FLOAT), mpi_handle(MPI.SUM),
                                       mpi_handle(MPI.COMM_SELF), times)
            lots["mpi4py"].append(seconds(lambda: MPI.COMM_SELF.Allreduce(send, recv), times) - in_c)
    library.tuttiCommDestroy(handle)
    comm.close()
    return {name: 1e9 * statistics.median(values) for name, values in lots.items()}


def race(comm, size):
    """Seconds of an all-reduce of `size` bytes, lot by lot: the slowest rank's."""
    send, recv = numpy.ones(size // 4, dtype="float32"), numpy.empty(size // 4, dtype="float32")
    times = max(3, min(500, (8 << 20) // size))
    calls = {"tutti_comm": lambda: comm.all_reduce(send, recv), "mpi4py": lambda: MPI.COMM_WORLD.Allreduce(send, recv)}
    lots = {name: [] for name in calls}
    for number in range(LOTS + 2):
        for name in list(calls) if number % 2 else reversed(calls):
            recv[:] = 0
            calls[name]()
            assert (recv == comm.size).all(), name
            MPI.COMM_WORLD.Barrier()
            slowest = MPI.COMM_WORLD.allreduce(seconds(calls[name], times), MPI.MAX)
            if number >= 2:
                lots[name].append(slowest)
    return lots


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-J", "--json", help="writes the numbers there too")
    arguments = parser.parse_args()
    if MPI.COMM_WORLD.rank == 0:
        added = added_by_python()
        print("Python adds to a call: " + ", ".join(f"{name} {ns:.0f} ns" for name, ns in added.items()), flush=True)
    MPI.COMM_WORLD.Barrier()
    rows = []
    with tutti_comm.init() as comm:
        for size in SIZES:
            lots = race(comm, size)
            medians = {name: 1e6 * statistics.median(values) for name, values in lots.items()}
            ratio = statistics.median(ours / theirs for ours, theirs in zip(*lots.values()))
            rows.append({"bytes": size, "ratio": ratio, **medians})
            if comm.rank == 0:
                print(f"{size:>9} B   tutti_comm {medians['tutti_comm']:9.2f} us   mpi4py {medians['mpi4py']:9.2f} us   "
                      f"ratio {ratio:.3f}", flush=True)
        if comm.rank == 0 and arguments.json:
            record = {"ranks": comm.size, "mpi": MPI.Get_library_version().split(",")[0], "added_ns": added, "rows": rows}
            pathlib.Path(arguments.json).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
