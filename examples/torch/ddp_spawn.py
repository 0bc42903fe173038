"""The training of ddp.py, started by torch.multiprocessing with a tcp:// address.

    python examples/torch/ddp_spawn.py --ranks 2
"""
import argparse
import os
import socket
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import ddp
import tutti_torch  # noqa: F401


def worker(rank, ranks, port, backend, epochs, checkpoint):
    torch.set_num_threads(1)
    dist.init_process_group(backend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    ddp.train(epochs, "cpu", checkpoint)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--epochs", type=int, default=8)
    arguments = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = os.path.join(folder, "model.pt")
        mp.spawn(worker, (arguments.ranks, port, arguments.backend, arguments.epochs, checkpoint),
                 nprocs=arguments.ranks)


if __name__ == "__main__":
    main()
