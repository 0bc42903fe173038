"""A program that does not close its communicators. With an argument, rank 0 raises while the other one waits for it."""
import sys

import numpy
import tutti_comm

comm = tutti_comm.init()
part = comm.split(0)
print(part.all_reduce(numpy.ones(1))[0])
if sys.argv[1:] and comm.rank == 0:
    1 / 0
if sys.argv[1:]:
    comm.barrier()
