"""Collective communications between threads, processes and hosts, on numpy arrays and everything that lends its memory.

    import numpy, tutti_comm

    with tutti_comm.init() as comm:              # under mpirun, torchrun, srun, or alone
        values = numpy.full(4, comm.rank, dtype="float32")
        comm.all_reduce(values)                  # the sum over all ranks, in place

Arrays may be numpy arrays, buffers (bytearray, array.array, memoryview) and objects with __dlpack__ (torch, JAX, CuPy).
"""
import atexit

from . import errors
from ._C import (Communicator, Config, DataType, Future, Group, Op, Result, Stream, close_all, group, init, init_all,
                 init_by_id, init_newcomer, unique_id, version)
from .errors import Error
from .programs import prefix

__all__ = ["Communicator", "Config", "DataType", "Error", "Future", "Group", "Op", "Result", "Stream", "close_all",
           "errors", "group", "init", "init_all", "init_by_id", "init_newcomer", "prefix", "unique_id", "version"]
__version__ = version()

atexit.register(close_all)
