"""Who takes part."""
import atexit
import os
import socket

import torch.distributed as dist

import tutti_torch  # noqa: F401  registers the backend

from ..launcher import launched_as
from .engine import Engine

GOODBYE_SECONDS = 10

_engine = None
_group = None
_made_world = False
_hosts = []


def init():
    """Joins torch.distributed's world if it is there, else the one that torchrun, mpirun or srun describe; alone without
    any. torchrun says where the ranks meet; with mpirun or srun set MASTER_ADDR and MASTER_PORT, alike on all ranks."""
    global _engine, _group, _made_world, _hosts
    if _engine is not None:
        return
    if not dist.is_initialized():
        rank, size = launched_as()
        if size == 1 and "MASTER_ADDR" not in os.environ:
            dist.init_process_group("tutti", store=dist.HashStore(), rank=0, world_size=1)
        else:
            dist.init_process_group("tutti", rank=rank, world_size=size)
        _made_world = True
    _group = dist.new_group(backend="tutti")
    _hosts = [None] * dist.get_world_size()
    dist.all_gather_object(_hosts, os.environ.get("TUTTI_HOSTID", socket.gethostname()), group=_group)
    _engine = Engine(_group)


def shutdown():
    """Waits for the other ranks to shut down as well, at most 10 s; whoever is left then gets errors from its next calls."""
    global _engine, _group, _made_world
    if _engine is None:
        return
    _engine.stop(GOODBYE_SECONDS)
    made_world, group = _made_world, _group
    _engine, _group, _made_world = None, None, False
    if not dist.is_initialized():
        return
    if made_world:
        return dist.destroy_process_group()
    try:
        dist.destroy_process_group(group)
    except ValueError:  # the program has left that world itself
        pass


atexit.register(shutdown)


def engine():
    if _engine is None:
        raise RuntimeError("hvd.init() has not been called")
    return _engine


def is_initialized():
    return _engine is not None


def rank():
    return engine().rank


def size():
    return engine().size


def local_rank():
    """This rank's place among the ranks of its host."""
    return _hosts[:rank()].count(_hosts[rank()])


def local_size():
    return _hosts.count(_hosts[rank()])


def cross_rank():
    """This host's place among the hosts."""
    return list(dict.fromkeys(_hosts)).index(_hosts[rank()])


def cross_size():
    return len(set(_hosts))
