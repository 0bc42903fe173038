"""What the calls that return a tensor do in a backward pass, which all ranks make in one order."""
import torch


class _Through(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, forward, backward):
        ctx.backward_call = backward
        result = forward(tensor.detach())
        if isinstance(result, tuple):  # of an alltoall: the rows that came from each rank have no gradient
            ctx.mark_non_differentiable(result[1])
        return result

    @staticmethod
    def backward(ctx, gradient, *_):
        return ctx.backward_call(gradient), None, None


def through(tensor, forward, backward):
    """forward(tensor); in a backward pass the tensor gets backward(gradient of the result)."""
    if not (tensor.requires_grad and torch.is_grad_enabled()):
        return forward(tensor)
    return _Through.apply(tensor, forward, backward)
