"""An optimizer whose gradients are averages over the ranks."""
import contextlib
import functools
import weakref

import torch

from .compression import Compression
from .operations import Average, Sum, allreduce_async_, sparse_allreduce_async
from .world import engine, global_process_set


class _Distributed:
    """Mixed in front of the optimizer's class. A gradient is submitted when the backward pass has made it."""

    def _prepare(self, named_parameters, compression, passes, op, predivide, sparse_as_dense, process_set):
        self._compression, self._passes, self._op, self._predivide = compression, passes, op, predivide
        self._sparse_as_dense, self._process_set = sparse_as_dense, process_set
        if predivide != 1.0 and op != Average:
            raise ValueError("gradient_predivide_factor is for op=hvd.Average")
        if passes < 1:
            raise ValueError(f"backward_passes_per_step is {passes}")
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
        self._sparse = {}  # parameters whose gradients have been sparse: the number of sparse dimensions
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad and process_set.included():
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
            parameter.grad = self._no_gradient(parameter)
        name = f"gradient.{self._names[parameter]}"
        if parameter.grad.is_sparse and self._sparse_as_dense:
            parameter.grad = parameter.grad.to_dense()
        if parameter.grad.is_sparse:
            self._sparse[parameter] = parameter.grad.sparse_dim()
            self._handles[parameter] = sparse_allreduce_async(parameter.grad, name, self._op, self._process_set)
            return
        op, before, after = self._op, 1.0, 1.0
        if self._predivide != 1.0:
            op, before = Sum, 1.0 / self._predivide
            after = self._predivide / engine(self._process_set).size
        self._handles[parameter] = allreduce_async_(
            parameter.grad, name=name, op=op, prescale_factor=before, postscale_factor=after,
            process_set=self._process_set, compression=self._compression)

    def _no_gradient(self, parameter):
        if parameter not in self._sparse:
            return torch.zeros_like(parameter)
        sparse = self._sparse[parameter]
        return torch.sparse_coo_tensor(torch.zeros(sparse, 0, dtype=torch.int64),
                                       parameter.detach().new_zeros(0, *parameter.shape[sparse:]), parameter.shape)

    def synchronize(self):
        """Waits for all gradients. step() calls it; call it yourself to clip them, and step in skip_synchronize(). Raises
        the first error when all are over; the next backward pass starts anew."""
        errors = []
        try:
            for parameter in self._left:
                if parameter not in self._handles:  # not reached by this rank's backward pass; others wait for it
                    self._submit(parameter)
            for parameter, handle in self._handles.items():
                try:
                    value = handle.wait()
                    if value.is_sparse:
                        parameter.grad = value
                except Exception as error:
                    errors.append(error)
        finally:
            self._handles.clear()
            for parameter in self._left:
                self._left[parameter] = self._passes
        if errors:
            raise errors[0]

    def load_state_dict(self, state_dict):
        """Drops the gradients, also those that are under way: the next backward pass starts anew."""
        super().load_state_dict(state_dict)
        for handle in self._handles.values():
            with contextlib.suppress(Exception):  # they may have failed, and are not needed
                handle.wait()
        self._handles.clear()
        for parameter in self._left:
            self._left[parameter] = self._passes
            parameter.grad = None

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
                         op=Average, gradient_predivide_factor=1.0, num_groups=0, groups=None, sparse_as_dense=False,
                         process_set=global_process_set):
    """The optimizer, made to average gradients over all ranks, or those of the process set; on a rank outside of the set
    it steps alone. Its class is a subclass of what it was. An average is a sum of gradients over
    gradient_predivide_factor, times it, over the number of ranks. The gradients of several backward passes a step
    add up, as in Horovod: divide the loss by their number to get a mean. Sparse gradients are gathered and stay sparse, unless
    sparse_as_dense. num_groups and groups are Horovod's and not used: small gradients of one type travel together by
    themselves."""
    kind = type(optimizer)
    optimizer.__class__ = type(kind.__name__, (_Distributed, kind), {})
    optimizer._prepare(named_parameters, compression, backward_passes_per_step, op, gradient_predivide_factor,
                       sparse_as_dense, process_set)
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
