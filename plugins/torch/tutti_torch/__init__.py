"""The backend "tutti" of torch.distributed.

    import tutti_torch
    torch.distributed.init_process_group("tutti")

Importing registers it for tensors on cpu and cuda. Options of a group: `pg_options=tutti_torch.Options(wire_dtype=
torch.bfloat16)`, see docs/torch.md.
"""
import atexit
import datetime

import torch
import torch.distributed as dist

from ._C import Options, ProcessGroupTutti, version, wait_for_goodbyes

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
        options._timeout = timeout
    options.label = str(group.group_id)
    return ProcessGroupTutti(group.store, group.group_rank, group.group_size, options)


def _register():
    if "TUTTI" not in dist.Backend._plugins:
        dist.Backend.register_backend("tutti", _create, extended_api=True, devices=["cpu", "cuda"])


if dist.is_available():
    _register()
    # Groups that were destroyed say goodbye behind the program's back; what they still owe their peers must be sent.
    atexit.register(lambda: wait_for_goodbyes(datetime.timedelta(seconds=10)))
