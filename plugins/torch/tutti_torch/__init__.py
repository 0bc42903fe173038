"""The backend "tutti" of torch.distributed.

    import tutti_torch
    torch.distributed.init_process_group("tutti")

Importing registers it for tensors on cpu, and on cuda where it was built against a torch with CUDA. Options of a group:
`pg_options=tutti_torch.Options(wire_dtype=torch.bfloat16)`, see docs/torch.md.
"""
import copy
import datetime
import multiprocessing.util
import os

import torch
import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout

from ._C import Options, ProcessGroupTutti, cuda, version, wait_for_goodbyes

__all__ = ["Options", "ProcessGroupTutti", "version"]


def _create(group, options):
    """What torch calls on every member of a new group."""
    timeout = group.timeout
    if not isinstance(timeout, datetime.timedelta):
        timeout = datetime.timedelta(seconds=float(timeout))
    if options is None:
        options = Options(timeout=timeout)
    elif not isinstance(options, Options):
        raise TypeError(f"pg_options of a tutti group are tutti_torch.Options, not {type(options).__name__}")
    else:
        options = copy.copy(options)  # the program's own may serve several groups
        if timeout != default_pg_timeout:  # else nobody gave torch one
            options._timeout = timeout
    options.label = str(group.group_id)
    if getattr(group, "enable_reconfigure", False):  # torch 2.14 and newer
        options.enable_reconfigure = True
    _wait_for_goodbyes_at_exit()
    return ProcessGroupTutti(group.store, group.group_rank, group.group_size, options)


_waits = None  # the process that waits for goodbyes at its end


def _wait_for_goodbyes_at_exit():
    """Groups that were destroyed say goodbye behind the program's back; what they still owe their peers must be sent. The
    children of multiprocessing run no atexit handlers, so this is one of its own, which the main program runs too."""
    global _waits
    if _waits != os.getpid():
        _waits = os.getpid()
        multiprocessing.util.Finalize(None, wait_for_goodbyes, (datetime.timedelta(seconds=10),), exitpriority=0)


def _register():
    if "TUTTI" not in dist.Backend._plugins:
        dist.Backend.register_backend("tutti", _create, extended_api=True, devices=["cpu", "cuda"] if cuda else ["cpu"])


if dist.is_available():
    _register()
