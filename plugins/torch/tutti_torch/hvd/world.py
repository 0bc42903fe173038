"""Who takes part."""
import atexit
import os
import socket
import time

import torch
import torch.distributed as dist

import tutti_torch  # noqa: F401  registers the backend

from ..launcher import launched_as
from . import worker
from .engine import Engine
from .process_set import ProcessSet
from .timeline import Timeline

GOODBYE_SECONDS = 10

global_process_set = ProcessSet([0])  # all ranks, after init()

_made_world = False
_hosts = []
_sets = {}  # by id, without that of all ranks
_next_id = 1


def init(comm=None, process_sets=None):
    """Joins torch.distributed's world if it is there, else the one that torchrun, mpirun, srun or
    `python -m tutti_torch.hvd.elastic` describe; alone without any. torchrun says where the ranks meet; with mpirun or srun set MASTER_ADDR and MASTER_PORT, alike on all ranks. Adds
    the process sets of the list; sets can always be added later, as Horovod's "dynamic" asks for. `comm` must be None: for
    a part of the ranks there are process sets. HOROVOD_TIMELINE names a file for start_timeline(), or is DYNAMIC if
    the program calls that itself."""
    if comm is not None:
        raise ValueError("hvd.init() takes no communicator or list of ranks; add a process set")
    if is_initialized():
        return
    try:
        _join_world()
        for one in [] if process_sets in (None, "dynamic") else process_sets:
            add_process_set(one)
        if os.environ.get("HOROVOD_TIMELINE", "DYNAMIC") not in ("", "DYNAMIC"):
            start_timeline(os.environ["HOROVOD_TIMELINE"])
    except Exception:
        shutdown()
        raise


def _join_world():
    global _made_world
    _made_world = not dist.is_initialized()
    if not _made_world:
        return _use_world()
    if worker.launched():
        return _join_round()
    rank, size = launched_as()
    if size == 1 and "MASTER_ADDR" not in os.environ:
        dist.init_process_group("tutti", store=dist.HashStore(), rank=0, world_size=1)
    else:
        dist.init_process_group("tutti", rank=rank, world_size=size)
    _use_world()


def _join_round():
    """Meets the other workers of an elastic job; if one dies meanwhile, the rest of them."""
    this = worker.this()
    while True:
        try:
            this.make_world()
            _use_world()
            dist.group.WORLD._get_backend(torch.device("cpu")).set_timeout(this.timeout)
            this.join_timeout = worker.FIRST_JOIN_TIMEOUT
            return
        except (dist.DistBackendError, dist.DistStoreError) as error:
            this.tell_of(error)
            this.join_timeout = min(2 * this.join_timeout, this.timeout)
            if dist.is_initialized():
                dist.destroy_process_group()


def _new_group(ranks=None):
    if not worker.launched():
        return dist.new_group(ranks, backend="tutti")
    this = worker.this()
    group = dist.new_group(ranks, backend="tutti", timeout=this.join_timeout)
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        group._get_backend(torch.device("cpu")).set_timeout(this.timeout)  # its calls may last longer than a join
    return group


def _use_world():
    """With a group of its own."""
    global _hosts
    group = _new_group()
    _hosts = [None] * dist.get_world_size()
    dist.all_gather_object(_hosts, os.environ.get("TUTTI_HOSTID", socket.gethostname()), group=group)
    everybody = global_process_set
    everybody.ranks, everybody.process_set_id = list(range(dist.get_world_size())), 0
    everybody.group, everybody.engine = group, Engine(group)


def shutdown():
    """Waits for the other ranks to shut down as well, at most 10 s; whoever is left then gets errors from its next calls."""
    global _made_world, _next_id
    if not is_initialized():
        return
    until = time.monotonic() + GOODBYE_SECONDS
    for one in [*_sets.values(), global_process_set]:
        if one.engine is not None:
            one.engine.begin_to_stop()
    for one in list(_sets.values()):
        _close(one, until)
    _next_id = 1
    made_world, group, engine = _made_world, global_process_set.group, global_process_set.engine
    engine.stop(until)
    if engine.timeline is not None:
        engine.timeline.close()
    _forget(global_process_set)
    _made_world = False
    if not dist.is_initialized():
        return
    if made_world:
        return dist.destroy_process_group()
    _leave(group)


def abort():
    """Ends hvd on all ranks, with an error for those that go on."""
    if is_initialized():
        for one in [*_sets.values(), global_process_set]:
            if one.engine is not None:
                one.engine.backend.abort()


atexit.register(shutdown)


def add_process_set(process_set):
    """Called by all ranks, with the same ranks, also by those that do not belong to it. Takes a ProcessSet or a list of
    ranks; returns the ProcessSet."""
    global _next_id
    engine()
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    from .objects import allgather_object  # which needs this module

    told = allgather_object(process_set.ranks, "the ranks of a process set")  # in the order of all that is submitted
    odd = next((rank for rank in range(size()) if told[rank] != told[0]), None)
    if odd is not None:
        raise ValueError(f"rank 0 adds a process set of the ranks {told[0]}, rank {odd} one of {told[odd]}")
    if process_set.process_set_id is not None:
        raise ValueError(f"{process_set} was added before")
    if process_set.ranks[-1] >= size():
        raise ValueError(f"{process_set} has a rank that is none of {size()}")
    if any(one.ranks == process_set.ranks for one in [global_process_set, *_sets.values()]):
        raise ValueError(f"there is a process set of the ranks {process_set.ranks}")
    group = _new_group(process_set.ranks)
    process_set.process_set_id = _next_id
    if process_set.included():
        process_set.group, process_set.engine = group, Engine(group)
    _sets[_next_id] = process_set
    _next_id += 1
    return process_set


def remove_process_set(process_set):
    """Called by all ranks, when they have nothing under way on it. Returns whether it was there; the set of all ranks
    stays."""
    engine()
    if _sets.get(process_set.process_set_id) is not process_set:
        return False
    _close(process_set, time.monotonic() + GOODBYE_SECONDS)
    return True


def _close(process_set, until):
    del _sets[process_set.process_set_id]
    group, engine_there = process_set.group, process_set.engine
    _forget(process_set)
    if engine_there is None:
        return
    engine_there.stop(until)
    if dist.is_initialized():
        _leave(group)


def _forget(process_set):
    process_set.process_set_id, process_set.group, process_set.engine = None, None, None


def _leave(group):
    try:
        dist.destroy_process_group(group)
    except ValueError:  # the program has left that world itself
        pass


def engine(process_set=None):
    process_set = global_process_set if process_set is None else process_set
    if not is_initialized():
        raise RuntimeError("hvd.init() has not been called")
    process_set.rank()
    return process_set.engine


def start_timeline(path, mark_cycles=False):
    """Rank 0 writes to the file from now on when which tensor of all ranks waited for whom and was moved; with
    mark_cycles also each round in which ranks told something. Called by all ranks."""
    stop_timeline()
    if rank() == 0:
        engine().timeline = Timeline(path, mark_cycles)


def stop_timeline():
    timeline, engine().timeline = engine().timeline, None
    if timeline is not None:
        timeline.close()


def is_initialized():
    return global_process_set.engine is not None


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


def is_homogeneous():
    """Whether all hosts have as many ranks."""
    return len({_hosts.count(host) for host in _hosts}) == 1
