"""One process, several ranks: a replica a thread, as DataParallel has a replica a device. Each thread joins a group of its
own through a store in the process's memory; what C programs do with tuttiCommInitAll.

    python examples/torch/threads.py --ranks 2
"""
import argparse
import datetime
import threading

import torch
import torch.distributed as dist
from torch import nn

import digits
import tutti_torch


def replica(rank, ranks, store, epochs, results):
    options = tutti_torch.Options(timeout=datetime.timedelta(seconds=60))
    group = tutti_torch.ProcessGroupTutti(store, rank, ranks, options)
    training, test = digits.load()
    images, labels = (tensor[rank::ranks] for tensor in training.tensors)
    generator = torch.Generator().manual_seed(rank)
    model = digits.Perceptron()
    for parameter in model.parameters():
        group.broadcast([parameter.data], dist.BroadcastOptions()).wait()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(epochs):
        order = torch.randperm(len(training) // ranks, generator=generator)
        for batch in order.split(64 // ranks):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            for parameter in model.parameters():
                parameter.grad /= ranks
            works = [group.allreduce([parameter.grad], dist.AllreduceOptions()) for parameter in model.parameters()]
            for work in works:
                work.wait()
            optimizer.step()
        losses.append(loss.item())
    results[rank] = (losses, digits.accuracy(model, test), [parameter.detach() for parameter in model.parameters()])
    group.shutdown()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=8)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    store, results = dist.HashStore(), [None] * arguments.ranks
    threads = [threading.Thread(target=replica, args=(rank, arguments.ranks, store, arguments.epochs, results))
               for rank in range(arguments.ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if None in results:
        raise SystemExit("a replica failed")
    for rank, (_, _, parameters) in enumerate(results):
        for mine, first in zip(parameters, results[0][2]):
            assert torch.equal(mine, first), f"rank {rank}'s parameters differ from rank 0's"
    losses, right, _ = results[0]
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, accuracy {right:.4f} with {arguments.ranks} ranks on threads")


if __name__ == "__main__":
    main()
