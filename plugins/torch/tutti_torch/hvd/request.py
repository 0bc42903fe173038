"""What a rank submits under a name, and what is wrong if the ranks do not agree on it."""
import json
import threading

import torch


class DuplicateName(ValueError):
    """A tensor was submitted under a name that is still open on this rank."""


class Disagreement(ValueError):
    """Ranks submitted different things under one name. Raised on all ranks; nothing was moved."""


class HorovodInternalError(RuntimeError):
    """What ended hvd for the job: a rank died or left, or memory ran out in the middle of a call."""


class Request:
    """A named tensor and what is to be done with it. The settings are equal on all ranks; `own` need not be, and is
    something that JSON can hold. wait() returns `value`, which is the output unless the operation sets another one."""

    def __init__(self, name, kind, tensor, output, own=None, **settings):
        self.name, self.kind, self.tensor, self.output, self.settings = name, kind, tensor, output, settings
        self.own, self.value = own, output
        self.ready = None
        if tensor is not None and tensor.is_cuda:
            self.ready = torch.cuda.Event()
            self.ready.record()
        self.done = threading.Event()
        self.error = None

    def description(self):
        return [self.name, self.kind, str(self.tensor.dtype), list(self.tensor.shape), self.tensor.device.type,
                {key: str(value) for key, value in sorted(self.settings.items())}, self.own]

    def is_done(self):
        return self.done.is_set()

    def wait(self):
        self.done.wait()
        if self.error is not None:
            raise self.error
        return self.value

    __call__ = wait  # Horovod's handles of sparse tensors are functions

    def finish(self, error=None):
        self.error = error
        self.tensor = self.tensor if error is None else None
        self.done.set()


def goes_on_without(description):
    """Whether a rank that has joined can take part with zeros."""
    return description[1] == "allreduce" and description[5]["op"] in ("SUM", "AVG")


def stand_in(description, cuda_device):
    """The request of a rank that has joined: it takes part in a sum with zeros."""
    name, kind, dtype, shape, device, settings, _ = description
    device = device if device == "cpu" else cuda_device
    zeros = torch.zeros(shape, dtype=getattr(torch, dtype.removeprefix("torch.")), device=device)
    wire = None if settings["wire"] == "None" else getattr(torch, settings["wire"].removeprefix("torch."))
    return Request(name, kind, zeros, zeros, op=settings["op"], prescale=float(settings["prescale"]),
                   postscale=float(settings["postscale"]), wire=wire)


_FIELDS = ("name", "operation", "type", "shape", "device", "settings")


def disagreement(name, ranks):
    """The error of ranks that submitted different things as `name`; the culprits are those who differ from most."""
    def essence(description):
        description = list(description[:len(_FIELDS)])
        if description[1] in ("allgather", "alltoall"):
            description[3] = description[3][1:]  # the first dimension may differ
        return json.dumps(description)

    kinds = {}
    for rank in sorted(ranks):
        kinds.setdefault(essence(ranks[rank]), []).append(rank)
    if len(kinds) == 1:
        return None
    usual = max(kinds.values(), key=len)
    culprits = [rank for rank in sorted(ranks) if rank not in usual]
    mine, theirs = ranks[culprits[0]], ranks[usual[0]]
    field = next(i for i in range(len(_FIELDS)) if mine[i] != theirs[i])
    return Disagreement(
        f"'{name}': rank {', '.join(map(str, culprits))} submitted {_FIELDS[field]} {mine[field]} where rank "
        f"{', '.join(map(str, usual))} submitted {_FIELDS[field]} {theirs[field]}")
