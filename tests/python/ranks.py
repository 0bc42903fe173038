"""Runs a case on several ranks, which are threads of this process or processes of their own."""
import concurrent.futures
import contextlib
import multiprocessing
import os
import tempfile
import threading
import types

import tutti_comm

TIMEOUT = 20  # seconds that a call waits for a silent rank


def in_threads(case, size, *arguments):
    """case(comm, *arguments) on `size` ranks in a thread each; returns what it returned, by rank."""
    comms = tutti_comm.init_all(size)
    with concurrent.futures.ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(_in_thread, comm, case, arguments) for comm in comms]
        return [future.result() for future in futures]


def _in_thread(comm, case, arguments):
    with comm:
        comm.set_timeout(TIMEOUT)
        return case(comm, *arguments)


def in_processes(case, size, *arguments):
    """case(comm, *arguments) on `size` ranks in a process each. `case` is a function of a module."""
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ProcessPoolExecutor(
            size, multiprocessing.get_context("spawn")) as pool:
        url = f"file://{os.path.join(folder, 'join')}"
        futures = [pool.submit(_in_process, url, size, rank, case, arguments) for rank in range(size)]
        return [future.result() for future in futures]


def _in_process(url, size, rank, case, arguments):
    config = tutti_comm.Config(timeout=TIMEOUT, join_timeout=TIMEOUT)
    with tutti_comm.init(url, size=size, rank=rank, config=config) as comm:
        return case(comm, *arguments)


def later(seconds, function):
    """Calls `function` in another thread after some seconds."""
    timer = threading.Timer(seconds, function)
    timer.start()
    return timer


@contextlib.contextmanager
def raises(kind, text):
    """The block raises such an exception with this in its text; it is the attribute `error` of what this gives."""
    seen = types.SimpleNamespace(error=None)
    try:
        yield seen
    except kind as error:
        assert text in str(error), error
        seen.error = error
    else:
        raise AssertionError(f"nothing was raised: {text}")
