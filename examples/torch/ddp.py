"""DistributedDataParallel with torchrun: sampler, distributed evaluation, a checkpoint.

    torchrun --nproc-per-node 2 examples/torch/ddp.py
"""
import argparse
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import digits
import tutti_torch  # noqa: F401  registers the backend "tutti"


def train_epoch(model, loader, optimizer, device):
    """The mean loss over all ranks' batches."""
    total = torch.zeros(2, device=device)
    for images, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        total += torch.tensor([loss.item() * len(labels), len(labels)], device=device)
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


def evaluate(model, dataset, device):
    """Each rank answers its share; the predictions of all are gathered and counted on every rank."""
    sampler = DistributedSampler(dataset, shuffle=False)
    model.eval()
    mine, truth = [], []
    with torch.no_grad():
        for images, labels in DataLoader(dataset, batch_size=64, sampler=sampler):
            mine.append(model(images.to(device)).argmax(1))
            truth.append(labels.to(device))
    model.train()
    mine, truth = torch.cat(mine), torch.cat(truth)
    ranks = dist.get_world_size()
    predictions = [torch.empty_like(mine) for _ in range(ranks)]
    labels = [torch.empty_like(truth) for _ in range(ranks)]
    dist.all_gather(predictions, mine)
    dist.all_gather(labels, truth)
    right = (torch.cat(predictions) == torch.cat(labels)).float().mean().item()
    share = (mine == truth).float().mean()
    dist.all_reduce(share, op=dist.ReduceOp.AVG if dist.get_backend() != "gloo" else dist.ReduceOp.SUM)
    if dist.get_backend() == "gloo":
        share /= ranks
    assert abs(share.item() - right) < 1e-5
    return right


def train(epochs, device, checkpoint):
    rank = dist.get_rank()
    torch.manual_seed(0)
    training, test = digits.load()
    sampler = DistributedSampler(training, seed=3)
    loader = DataLoader(training, batch_size=32, sampler=sampler)
    model = DistributedDataParallel(digits.Perceptron().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        losses.append(train_epoch(model, loader, optimizer, device))
    right = evaluate(model, test, device)
    digits.assert_same_on_all_ranks(model.module)

    if rank == 0:
        torch.save(model.state_dict(), checkpoint)
    dist.barrier()
    fresh = DistributedDataParallel(digits.Perceptron().to(device))
    fresh.load_state_dict(torch.load(checkpoint, map_location=device, weights_only=True))
    assert evaluate(fresh, test, device) == right
    if rank == 0:
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, accuracy {right:.4f} with {dist.get_world_size()} ranks "
              f"on {dist.get_backend()}", flush=True)
    dist.barrier()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--checkpoint", default=os.path.join(tempfile.gettempdir(), f"tutti-ddp-{os.getppid()}.pt"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(arguments.backend)
    train(arguments.epochs, arguments.device, arguments.checkpoint)
    if dist.get_rank() == 0:
        os.unlink(arguments.checkpoint)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
