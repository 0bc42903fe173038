"""What a training has come to: it can be committed, restored, and taken over from rank 0."""
import copy

import torch

from .. import worker, world
from ..objects import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from ..operations import broadcast
from .run import HostsUpdatedInterrupt
from .sampler import ElasticSampler


class State:
    """Base class: a subclass has save(), restore() and sync()."""

    def __init__(self):
        self._callbacks = []

    def register_reset_callbacks(self, callbacks):
        """They run, without arguments, after each change of the workers, before the next sync(): to suit the learning rate
        to hvd.size(), say, or to add process sets anew."""
        self._callbacks.extend(callbacks)

    def on_reset(self):
        self.reset()
        for callback in self._callbacks:
            callback()

    def commit(self):
        """Called by all ranks: save(), then check_host_updates()."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self):
        """Called by all ranks. Raises HostsUpdatedInterrupt if workers wait to be taken in."""
        if not worker.launched():
            return
        waiting = world.rank() == 0 and worker.this().has_newcomers()
        if broadcast(torch.tensor([waiting]), 0, "elastic.newcomers").item():
            raise HostsUpdatedInterrupt

    def save(self):
        """Remembers, in this process's memory, what restore() goes back to."""
        raise NotImplementedError

    def restore(self):
        """Goes back to the last save()."""
        raise NotImplementedError

    def sync(self):
        """Called by all ranks: takes over what rank 0 has, and saves it."""
        raise NotImplementedError

    def reset(self):
        """After a change of the workers, before the callbacks."""


class ObjectState(State):
    """Its attributes are the arguments: anything that can be copied and pickled. What has a state_dict() keeps its identity,
    and is saved and restored by that: modules, optimizers, schedulers, samplers."""

    def __init__(self, **named):
        super().__init__()
        self._names = list(named)
        for name, value in named.items():
            setattr(self, name, value)
        self.save()

    def save(self):
        self._saved = {name: copy.deepcopy(_state_of(getattr(self, name))) for name in self._names}

    def restore(self):
        for name in self._names:
            self._set(name, copy.deepcopy(self._saved[name]))

    def sync(self):
        self._sync_objects(self._names)
        self.save()

    def _sync_objects(self, names):
        states = broadcast_object({name: _state_of(getattr(self, name)) for name in names}, 0, "elastic.state")
        for name, state in states.items():
            self._set(name, state)

    def _set(self, name, state):
        if _has_state(getattr(self, name)):
            getattr(self, name).load_state_dict(state)
        else:
            setattr(self, name, state)


class TorchState(ObjectState):
    """An ObjectState whose models travel as tensors, and whose samplers learn what the samples of all ranks are."""

    def __init__(self, model=None, optimizer=None, **named):
        self.model, self.optimizer = model, optimizer
        super().__init__(**{name: value for name, value in (("model", model), ("optimizer", optimizer)) if value is not None},
                         **named)

    def sync(self):
        rest = []
        for name in self._names:
            value = getattr(self, name)
            if isinstance(value, torch.nn.Module):
                broadcast_parameters({f"{name}.{key}": tensor for key, tensor in value.state_dict().items()}, 0)
            elif isinstance(value, torch.optim.Optimizer):
                broadcast_optimizer_state(value, 0)
            elif isinstance(value, ElasticSampler):
                states = allgather_object(value.state_dict(), f"elastic.{name}")
                epoch = states[0]["epoch"]  # a rank that missed the last commit may be at the one before
                processed = set().union(*(state["processed_indices"] for state in states if state["epoch"] == epoch))
                value.load_state_dict({"epoch": epoch, "processed_indices": processed})
            else:
                rest.append(name)
        self._sync_objects(rest)
        self.save()


def _has_state(value):
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _state_of(value):
    return value.state_dict() if _has_state(value) else value
