"""Sums an array across ranks. Alone: python sum.py, or with ranks: mpirun -n 4 python sum.py, torchrun ... sum.py."""
import numpy
import tutti_comm

with tutti_comm.init() as comm:  # rank and size from the launcher
    mine = (comm.rank + 1) * numpy.arange(1, 5, dtype="float32")
    total = numpy.empty_like(mine)
    comm.all_reduce(mine, total)
    if comm.rank == 0:
        print(f"sum over {comm.size} ranks:", *total.astype(int))
