"""What torch calls on every member of a new group."""
import copy
import datetime
import multiprocessing.util
import os

import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout

from ._C import Options, ProcessGroupTutti, wait_for_goodbyes
from .launcher import launched_as

_mpi_store = None  # torch has none for groups of MPI


def create(group, options):
    """A group of the backend "tutti"."""
    if options is not None and not isinstance(options, Options):
        raise TypeError(f"pg_options of a tutti group are tutti_torch.Options, not {type(options).__name__}")
    return _make(group, options)


def create_as(name, group, options):
    """A group of the backend `name`, made of tutti. Options of that backend say nothing to tutti and are passed over."""
    if name == "mpi":
        _meet_like_mpi(group)
    return _make(group, options if isinstance(options, Options) else None, stands_for=name)


def _make(group, options, stands_for="tutti"):
    timeout = group.timeout
    if not isinstance(timeout, datetime.timedelta):
        timeout = datetime.timedelta(seconds=float(timeout))
    if options is None:
        options = Options(timeout=timeout)
    else:
        options = copy.copy(options)  # the program's own may serve several groups
        if timeout != default_pg_timeout:  # else nobody gave torch one
            options._timeout = timeout
    options.label = str(group.group_id)
    options.stands_for = stands_for
    if getattr(group, "enable_reconfigure", False):  # torch 2.14 and newer
        options.enable_reconfigure = True
    wait_for_goodbyes_at_exit()
    return ProcessGroupTutti(group.store, group.group_rank, group.group_size, options)


def _meet_like_mpi(group):
    """Where the world is MPI's, torch leaves it to the launcher who the ranks are, and gives groups neither a Store nor,
    the first one, a rank. So they meet where MASTER_ADDR and MASTER_PORT say."""
    global _mpi_store
    if group.group_size >= 0 and not (dist.is_initialized() and dist.get_backend() == "mpi"):
        return
    if group.group_size < 0:
        rank, size = launched_as()
        _mpi_store, group.group_rank, group.group_size = next(
            dist.rendezvous("env://", rank, size, timeout=group.timeout))
    group.store = dist.PrefixStore(f"tutti/{group.group_id}", _mpi_store)


_waits = None  # the process that waits for goodbyes at its end


def wait_for_goodbyes_at_exit():
    """Groups that were destroyed say goodbye behind the program's back; what they still owe their peers must be sent. The
    children of multiprocessing run no atexit handlers, so this is one of its own, which the main program runs too."""
    global _waits
    if _waits != os.getpid():
        _waits = os.getpid()
        multiprocessing.util.Finalize(None, wait_for_goodbyes, (datetime.timedelta(seconds=10),), exitpriority=0)
