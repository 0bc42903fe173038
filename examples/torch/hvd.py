"""Training in Horovod's manner: tutti_torch.hvd in the place of horovod.torch.

    torchrun --nproc-per-node 2 examples/torch/hvd.py --fp16
"""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler

import digits
import tutti_torch.hvd as hvd


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--fp16", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    hvd.init()
    torch.manual_seed(hvd.rank())  # the broadcast makes the ranks equal
    training, test = digits.load()
    sampler = DistributedSampler(training, num_replicas=hvd.size(), rank=hvd.rank(), seed=3)
    loader = DataLoader(training, batch_size=32, sampler=sampler)
    model = digits.Perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05 * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                         compression=hvd.Compression.fp16 if arguments.fp16 else hvd.Compression.none)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    losses = []
    for epoch in range(arguments.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        losses.append(hvd.allreduce(loss.detach(), name="loss").item())
    for name, parameter in model.named_parameters():
        all_ranks = hvd.allgather(parameter.detach().reshape(1, -1), name=name)
        assert torch.equal(all_ranks, all_ranks[:1].expand_as(all_ranks)), f"{name} differs between ranks"
    if hvd.rank() == 0:
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, accuracy {digits.accuracy(model, test):.4f} "
              f"with {hvd.size()} ranks, {hvd.local_size()} on this host", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
