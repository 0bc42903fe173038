"""Training that survives the death of a worker: torchrun starts all workers again, they go on from the last checkpoint.
With --die-at a worker kills itself in that epoch of the first run, to show it.

    torchrun --nproc-per-node 2 --max-restarts 2 examples/torch/elastic.py --die-at 3 --folder /tmp/run
"""
import argparse
import os
import signal

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import digits
import tutti_torch  # noqa: F401


def save(path, model, optimizer, epoch, losses):
    """By rename: a worker that dies here leaves the last one whole."""
    torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch,
                "losses": losses}, path + ".new")
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--die-at", type=int, default=-1)
    parser.add_argument("--folder", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(arguments.backend)
    rank, restarts = dist.get_rank(), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    path = os.path.join(arguments.folder, "checkpoint.pt")
    torch.manual_seed(0)
    training, test = digits.load()
    sampler = DistributedSampler(training, seed=3)
    loader = DataLoader(training, batch_size=32, sampler=sampler)
    model = DistributedDataParallel(digits.Perceptron())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    first, losses = 0, []
    if os.path.exists(path):
        state = torch.load(path, weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first, losses = state["epoch"] + 1, state["losses"]
    for epoch in range(first, arguments.epochs):
        sampler.set_epoch(epoch)
        for step, (images, labels) in enumerate(loader):
            if restarts == 0 and epoch == arguments.die_at and step == 5 and rank == dist.get_world_size() - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
        if rank == 0:
            save(path, model, optimizer, epoch, losses)
        dist.barrier()
    digits.assert_same_on_all_ranks(model.module)
    right = digits.accuracy(model.module, test)
    if rank == 0:
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, accuracy {right:.4f} with {dist.get_world_size()} ranks "
              f"on {dist.get_backend()}, restart {restarts}, resumed at epoch {first}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
