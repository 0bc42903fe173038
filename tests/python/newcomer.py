"""newcomer.py ID SIZE: joins a communicator of SIZE ranks that grows by one."""
import sys

import numpy
import tutti_comm

size = int(sys.argv[2])
with tutti_comm.init_newcomer(bytes.fromhex(sys.argv[1]), size + 1, size) as comm:
    assert (comm.all_reduce(numpy.ones(2)) == size + 1).all()
