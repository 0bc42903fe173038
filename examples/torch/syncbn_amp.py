"""SyncBatchNorm and mixed precision. On a GPU autocast to float16 with a GradScaler, whose check for infinities must come
out alike on all ranks; on the CPU autocast to bfloat16, and batch statistics over all ranks by a module of our own,
because torch's SyncBatchNorm takes tensors on a GPU only.

    torchrun --nproc-per-node 2 examples/torch/syncbn_amp.py
"""
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import digits
import tutti_torch  # noqa: F401


class SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(context, tensor):
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(context, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


class HostSyncBatchNorm(nn.BatchNorm2d):
    """Means and variances over the batches of all ranks; the gradient goes through the sum."""

    def forward(self, images):
        if not self.training:
            return super().forward(images)
        images = images.float()
        count = images.numel() // images.size(1)
        sums = torch.cat([images.sum((0, 2, 3)), (images * images).sum((0, 2, 3)), images.new_tensor([float(count)])])
        sums = SumOverRanks.apply(sums)
        channels = images.size(1)
        mean, square = sums[:channels] / sums[-1], sums[channels:-1] / sums[-1]
        variance = square - mean * mean
        with torch.no_grad():
            unbiased = variance * (sums[-1] / (sums[-1] - 1))
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(unbiased, self.momentum)
        shape = (1, channels, 1, 1)
        normal = (images - mean.view(shape)) * torch.rsqrt(variance + self.eps).view(shape)
        return normal * self.weight.view(shape) + self.bias.view(shape)

    @classmethod
    def convert(cls, module):
        for name, child in module.named_children():
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, cls(child.num_features))
            else:
                cls.convert(child)
        return module


def check_statistics(device):
    """The statistics of a split batch are those of the whole batch in one process."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    whole = torch.randn(8 * ranks, 4, 3, 3, generator=torch.Generator().manual_seed(5)).to(device)
    one, all_ranks = nn.BatchNorm2d(4).to(device), HostSyncBatchNorm(4)
    if device != "cpu":
        all_ranks = nn.SyncBatchNorm(4)
    all_ranks = all_ranks.to(device)
    want = one(whole)[8 * rank:8 * (rank + 1)]
    have = all_ranks(whole[8 * rank:8 * (rank + 1)])
    torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(all_ranks.running_var, one.running_var, rtol=1e-4, atol=1e-5)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=4)
    arguments = parser.parse_args()
    device = arguments.device
    torch.set_num_threads(1)
    dist.init_process_group(arguments.backend)
    check_statistics(device)
    torch.manual_seed(0)
    training, test = digits.load()
    sampler = DistributedSampler(training, seed=3)
    loader = DataLoader(training, batch_size=32, sampler=sampler)
    model = digits.Convolutions()
    model = HostSyncBatchNorm.convert(model) if device == "cpu" else nn.SyncBatchNorm.convert_sync_batchnorm(model)
    model = DistributedDataParallel(model.to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    half = torch.bfloat16 if device == "cpu" else torch.float16
    kind = torch.device(device).type
    scaler = torch.amp.GradScaler(kind, enabled=device != "cpu")
    losses = []
    for epoch in range(arguments.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            with torch.autocast(kind, dtype=half):
                loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        mean = loss.detach().float()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
    digits.assert_same_on_all_ranks(model.module)
    right = digits.accuracy(model.module, test, device)
    if dist.get_rank() == 0:
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, accuracy {right:.4f} with {dist.get_world_size()} ranks "
              f"on {dist.get_backend()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
