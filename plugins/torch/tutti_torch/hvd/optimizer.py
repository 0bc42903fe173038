"""An optimizer whose gradients are averages over the ranks."""
import contextlib
import functools
import weakref

import torch

from .compression import Compression
from .operations import Average, allreduce_async_


class _Distributed:
    """Mixed in front of the optimizer's class. A gradient is submitted when the backward pass has made it."""

    def _prepare(self, named_parameters, compression, passes, op):
        self._compression, self._passes, self._op = compression, passes, op
        named = list(named_parameters) if named_parameters is not None else [
            (f"parameter.{i}.{j}", parameter)
            for i, group in enumerate(self.param_groups) for j, parameter in enumerate(group["params"])]
        names = [name for name, _ in named]
        if len(set(names)) != len(names):
            raise ValueError("named_parameters has a name twice")
        self._names = {parameter: name for name, parameter in named}
        unnamed = sum(parameter not in self._names for group in self.param_groups for parameter in group["params"])
        if unnamed:
            raise ValueError(f"named_parameters lacks {unnamed} of the optimizer's parameters")
        self._handles, self._left, self._skip = {}, {}, False
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad:
                    self._left[parameter] = passes
                    parameter.register_post_accumulate_grad_hook(self._came)

    def _came(self, parameter):
        if parameter in self._handles:
            raise AssertionError("gradients were made more often than backward_passes_per_step before step()")
        self._left[parameter] -= 1
        if self._left[parameter] == 0:
            self._submit(parameter)

    def _submit(self, parameter):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        self._handles[parameter] = allreduce_async_(
            parameter.grad, name=f"gradient.{self._names[parameter]}", op=self._op,
            prescale_factor=1.0 / self._passes, compression=self._compression)

    def synchronize(self):
        """Waits for all gradients. step() calls it; call it yourself to clip them, and step in skip_synchronize(). Raises
        the first error when all are over; the next backward pass starts anew."""
        errors = []
        try:
            for parameter in self._left:
                if parameter not in self._handles:  # not reached by this rank's backward pass; others wait for it
                    self._submit(parameter)
            for handle in self._handles.values():
                try:
                    handle.wait()
                except Exception as error:
                    errors.append(error)
        finally:
            self._handles.clear()
            for parameter in self._left:
                self._left[parameter] = self._passes
        if errors:
            raise errors[0]

    @contextlib.contextmanager
    def skip_synchronize(self):
        self._skip = True
        try:
            yield
        finally:
            self._skip = False

    def step(self, closure=None):
        if not self._skip:
            self.synchronize()
        return super().step(closure)

    def zero_grad(self, *arguments, **named):
        if self._handles:
            raise AssertionError("zero_grad() between backward() and step(): the gradients are under way")
        return super().zero_grad(*arguments, **named)


def DistributedOptimizer(optimizer, named_parameters=None, compression=Compression.none, backward_passes_per_step=1,
                         op=Average):
    """The optimizer, made to average gradients over all ranks. Its class is a subclass of what it was."""
    kind = type(optimizer)
    optimizer.__class__ = type(kind.__name__, (_Distributed, kind), {})
    optimizer._prepare(named_parameters, compression, backward_passes_per_step, op)
    if "step" in vars(optimizer):
        optimizer.step = _synchronized(optimizer, optimizer.step)
    return optimizer


def _synchronized(optimizer, patched):
    """Of a step() that somebody, as a scheduler does, has put into the optimizer itself, where it hides the class's."""
    optimizer = weakref.ref(optimizer)

    @functools.wraps(patched)  # with its attributes, by which schedulers know their own
    def step(*arguments, **named):
        self = optimizer()
        if not self._skip:
            self.synchronize()
        return patched(*arguments, **named)
    return step
