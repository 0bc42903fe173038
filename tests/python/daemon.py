"""A program that ends while a daemon thread calls."""
import threading

import numpy
import tutti_comm

(comm,) = tutti_comm.init_all(1)
begun = threading.Event()


def call():
    values = numpy.ones(1)
    while True:
        comm.all_reduce(values)
        begun.set()


threading.Thread(target=call, daemon=True).start()
begun.wait()
