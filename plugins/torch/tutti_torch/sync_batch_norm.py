"""Batch normalisation over the batches of all ranks, for tensors in host memory too."""
import torch
import torch.distributed as dist
import torch.nn.functional as F


class SyncBatchNorm(torch.nn.modules.batchnorm._BatchNorm):
    """torch.nn.SyncBatchNorm, which refuses tensors in host memory. These are normalised here; others by torch.

    Shapes, arguments, buffers and parameters are torch's, so state_dicts go from one to the other. Ranks may have batches
    of different sizes, empty ones too. float16 and bfloat16 are calculated in float32. Any backend serves. It is no
    subclass of torch's, because DistributedDataParallel refuses those in host memory."""

    _check_input_dim = torch.nn.SyncBatchNorm._check_input_dim
    _check_non_zero_input_channels = torch.nn.SyncBatchNorm._check_non_zero_input_channels

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, process_group=None,
                 device=None, dtype=None):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)
        self.process_group = process_group

    def forward(self, input):
        if input.device.type != "cpu":
            return torch.nn.SyncBatchNorm.forward(self, input)
        self._check_input_dim(input)
        self._check_non_zero_input_channels(input)
        uses_batch = self.training or self.running_mean is None
        if not (self.training and dist.is_initialized() and dist.get_world_size(self._group()) > 1):
            factor = self._next_factor() if self.training else 0.0
            return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, uses_batch, factor,
                                self.eps)
        output, mean, variance, total = _Normalize.apply(input, self.weight, self.bias, self._group(), self.eps)
        factor = self._next_factor()
        if self.running_mean is not None:
            with torch.no_grad():
                unbiased = variance * (total / (total - 1))
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), factor)
        return output

    def _group(self):
        return self.process_group or dist.group.WORLD

    def _next_factor(self):
        """The weight of this batch in the running statistics; without a momentum all batches weigh the same."""
        if self.num_batches_tracked is None:
            return 0.0 if self.momentum is None else self.momentum
        self.num_batches_tracked.add_(1)
        return 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """`module` with every BatchNorm in it replaced, parameters and buffers kept."""
        made = module
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            made = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                       process_group)
            made.weight, made.bias = module.weight, module.bias
            made.running_mean, made.running_var = module.running_mean, module.running_var
            made.num_batches_tracked = module.num_batches_tracked
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


class _Normalize(torch.autograd.Function):
    """Means and squared deviations of the ranks are put together as in Chan, Golub and LeVeque, "Updating formulae and a
    pairwise algorithm for computing sample variances" (1979)."""

    @staticmethod
    def forward(context, input, weight, bias, group, eps):
        values = input.to(_precise(input.dtype))
        channels, over = input.size(1), _all_but_channels(input)
        count = input.numel() // channels
        mean = values.mean(over) if count else values.new_zeros(channels)
        deviation = (values - _by_channel(mean, input)).square().sum(over)
        mine = torch.cat([mean, deviation, mean.new_tensor([float(count)])]).double()
        of_all = mine.new_empty(dist.get_world_size(group) * mine.numel())
        dist.all_gather_into_tensor(of_all, mine, group=group)
        of_all = of_all.view(-1, mine.numel())
        means, deviations, counts = of_all[:, :channels], of_all[:, channels:-1], of_all[:, -1:]
        total = counts.sum()
        if total <= 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.size()}")
        mean = (means * counts).sum(0) / total
        variance = (deviations + counts * (means - mean).square()).sum(0) / total
        scale = torch.rsqrt(variance + eps).to(values.dtype)
        normal = (values - _by_channel(mean.to(values.dtype), input)) * _by_channel(scale, input)
        context.group, context.total = group, total.item()
        context.save_for_backward(normal, scale, weight)
        context.mark_non_differentiable(mean, variance, total)
        output = normal if weight is None else normal * _by_channel(weight, input) + _by_channel(bias, input)
        return output.to(input.dtype, copy=output is normal), mean, variance, total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context, gradient, *_):
        normal, scale, weight = context.saved_tensors
        over = _all_but_channels(gradient)
        kind = gradient.dtype
        gradient = gradient.to(normal.dtype)
        of_bias, of_weight = gradient.sum(over), (gradient * normal).sum(over)
        sums = torch.cat([of_bias, of_weight])
        dist.all_reduce(sums, group=context.group)
        mean, along = (sums / context.total).chunk(2)
        of_input = gradient - _by_channel(mean, gradient) - normal * _by_channel(along, gradient)
        factor = scale if weight is None else scale * weight
        of_input = (of_input * _by_channel(factor, gradient)).to(kind)
        if weight is None:
            return of_input, None, None, None, None
        return of_input, of_weight.to(weight.dtype), of_bias.to(weight.dtype), None, None


def _precise(dtype):
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _all_but_channels(tensor):
    return [0, *range(2, tensor.dim())]


def _by_channel(values, tensor):
    return values.view(1, -1, *[1] * (tensor.dim() - 2))
