"""FSDP2 (parameters, gradients and optimizer state spread over the ranks) and ZeRO (optimizer state only).

    torchrun --nproc-per-node 2 examples/torch/sharded.py --kind fsdp
    torchrun --nproc-per-node 2 examples/torch/sharded.py --kind zero
"""
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import digits
import tutti_torch  # noqa: F401


def fsdp(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def zero(model):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(model)
    return model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)


def whole(model, kind):
    """An ordinary model with the parameters put together, the same on all ranks."""
    if kind == "zero":
        return model.module
    plain = digits.Perceptron()
    plain.load_state_dict({name: tensor.full_tensor() for name, tensor in model.state_dict().items()})
    return plain


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--kind", choices=["fsdp", "zero"], default="fsdp")
    parser.add_argument("--epochs", type=int, default=6)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(arguments.backend)
    torch.manual_seed(0)
    training, test = digits.load()
    sampler = DistributedSampler(training, seed=3)
    loader = DataLoader(training, batch_size=32, sampler=sampler)
    model, optimizer = (fsdp if arguments.kind == "fsdp" else zero)(digits.Perceptron())
    losses = []
    for epoch in range(arguments.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
    result = whole(model, arguments.kind)
    digits.assert_same_on_all_ranks(result)
    right = digits.accuracy(result, test)
    if dist.get_rank() == 0:
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, accuracy {right:.4f} with {dist.get_world_size()} ranks "
              f"on {dist.get_backend()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
