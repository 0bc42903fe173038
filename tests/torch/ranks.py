"""Runs a function on several ranks, each a process, and brings back what it returned or the traceback of what it raised."""
import importlib
import multiprocessing
import os
import queue
import sys
import tempfile
import time
import traceback

os.environ.setdefault("OMP_NUM_THREADS", "1")


def _rank(module, name, rank, ranks, store, backend, arguments, results, device, environment):
    import datetime

    import torch

    os.environ.update(environment)
    if device is not None:
        import devices  # before tutti_torch
        torch.set_default_device(devices.begin(rank, **device))
        backend = backend and devices.BACKEND
    import torch.distributed as dist

    import tutti_torch  # noqa: F401

    torch.set_num_threads(1)
    try:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        function = getattr(importlib.import_module(module), name)
        if backend:
            dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=ranks,
                                    timeout=datetime.timedelta(seconds=120))
        value = function(rank, ranks, *arguments)
        if backend and dist.is_initialized():
            dist.destroy_process_group()
        results.put((rank, True, value))
    except BaseException:
        results.put((rank, False, traceback.format_exc()))


def expect_error(kind, call, *words):
    """The call raises that error, and its text has these words."""
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), (word, str(error))
    else:
        raise AssertionError(f"no {kind.__name__}")


def _answers(results, processes, expect_dead):
    """(values, failures): what ranks returned, by rank, and sentences. Waits for all but those expected to be dead; when
    another one's process has ended without an answer, for nobody any more: then the others are killed."""
    values, failures, end = {}, [], time.monotonic() + 240
    silent = set(range(len(processes))).difference(expect_dead)
    while len(values) + len(failures) < len(processes) - len(expect_dead):
        gone = [rank for rank in sorted(silent) if processes[rank].exitcode is not None]
        try:
            rank, fine, value = results.get(timeout=0.2)
        except queue.Empty:  # what a process puts there is there before it ends
            for rank in gone:
                failures.append(f"rank {rank} ended with exit code {processes[rank].exitcode} and without an answer")
            if gone:
                for process in processes:
                    if process.is_alive():
                        process.kill()
                break
            if time.monotonic() > end:
                failures.append(f"only ranks {sorted(values)} of {len(processes)} came to an end within 240 s")
                break
            continue
        end = time.monotonic() + 240
        silent.discard(rank)
        if fine:
            values[rank] = value
        else:
            failures.append(f"rank {rank}:\n{value}")
    return values, failures


def run(function, ranks=2, *arguments, backend="tutti", expect_dead=(), device=None, environment=None):
    """The values of all ranks, in order. `function` stands in a module of this folder and takes (rank, ranks, ...). With
    `device`, arguments of devices.begin(), tensors are made on a device by default."""
    context = multiprocessing.get_context("forkserver")
    first = ["devices"] if "devices" in sys.modules else []
    context.set_forkserver_preload(first + ["torch", "tutti_torch", "torch.distributed"])
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            context.Process(target=_rank, args=(function.__module__, function.__name__, rank, ranks,
                                                os.path.join(folder, "store"), backend, arguments, results, device,
                                                environment or {}))
            for rank in range(ranks)]
        for process in processes:
            process.start()
        values, failures = _answers(results, processes, expect_dead)
        for process in processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
    if failures:
        raise AssertionError("\n".join(failures))
    return [values.get(rank) for rank in range(ranks)]
