"""SyncBatchNorm and mixed precision. On a GPU autocast to float16 with a GradScaler, whose check for infinities must come
out alike on all ranks; on the CPU autocast to bfloat16. Batch statistics over all ranks by tutti_torch.SyncBatchNorm,
because torch's takes tensors on a GPU only.

    torchrun --nproc-per-node 2 examples/torch/syncbn_amp.py
"""
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import digits
import tutti_torch


def check_statistics(device):
    """The statistics of a split batch are those of the whole batch in one process."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    whole = torch.randn(8 * ranks, 4, 3, 3, generator=torch.Generator().manual_seed(5)).to(device)
    one, all_ranks = nn.BatchNorm2d(4).to(device), tutti_torch.SyncBatchNorm(4).to(device)
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
    model = tutti_torch.SyncBatchNorm.convert_sync_batchnorm(digits.Convolutions())
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
