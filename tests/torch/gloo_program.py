"""A program that says "gloo" (or what its first argument is) and has never heard of Tutti. Prints what it came to, as JSON.

    torchrun --nproc-per-node 4 tests/torch/gloo_program.py [BACKEND]
"""
import datetime
import json
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

# With them torch 2.15 crashes in split_group, and on Gloo in DistributedDataParallel, too.
CHECKS = os.environ.get("TORCH_DISTRIBUTED_DEBUG") == "DETAIL"


def squares(rank, backend, port, results):
    """A child's part, which torch.multiprocessing starts."""
    dist.init_process_group(backend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    mine = torch.tensor([float(rank + 2)]) ** 2
    dist.all_reduce(mine)
    results.put((rank, made_of(), mine.item()))
    dist.destroy_process_group()


def made_of(group=None):
    return (group or dist.group.WORLD)._get_backend(torch.device("cpu")).name()


def summed(group, value):
    tensor = torch.tensor([float(value)])
    dist.all_reduce(tensor, group=group)
    return tensor.item()


def groups(rank, size):
    """Sums in groups of every kind."""
    yield "world", summed(None, rank + 1)
    for name, group in (("pairs", dist.new_group([0, size - 1])), ("named", dist.new_group(backend=dist.get_backend()))):
        yield name, summed(group, rank + 1) if group != dist.GroupMember.NON_GROUP_MEMBER else None
    mine, _ = dist.new_subgroups(2)
    yield "subgroups", summed(mine, rank + 1)
    if dist.get_backend() != "mpi" and not CHECKS:  # torch gives groups of MPI no Store to meet in
        halves = [list(range(size // 2)), list(range(size // 2, size))]
        yield "split", summed(dist.split_group(split_ranks=halves), rank + 1)
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("rows", "columns"))
    yield "rows", summed(mesh.get_group("rows"), rank + 1)
    yield "columns", summed(mesh.get_group("columns"), rank + 1)


def trained(rank):
    """The parameters after some steps with DDP, whose data come from processes of a DataLoader."""
    torch.manual_seed(3)
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.arange(64, dtype=torch.float32).view(16, 4) / 64 + rank
    for batch in DataLoader(list(data), batch_size=4, num_workers=2):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    return [round(value, 5) for value in torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()]


def children(backend):
    """Two processes of torch.multiprocessing make a world of their own."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    results = torch.multiprocessing.get_context("spawn").SimpleQueue()
    torch.multiprocessing.spawn(squares, (backend, port, results), nprocs=2)
    return sorted(results.get() for _ in range(2))


def main():
    backend = sys.argv[1] if len(sys.argv) > 1 else "gloo"
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60
    torch.set_num_threads(1)
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=seconds))
    rank, size = dist.get_rank(), dist.get_world_size()
    outcome = {"backend": dist.get_backend(), "made of": made_of(), **dict(groups(rank, size))}
    if not CHECKS or made_of() == "tutti":
        outcome["trained"] = trained(rank)
    everybody = [None] * size
    dist.all_gather_object(everybody, {"rank": rank})
    outcome["everybody"] = [one["rank"] for one in everybody]
    if rank == 0 and backend != "mpi":
        outcome["children"] = children(backend)
    dist.barrier()
    if rank == 0:
        print("OUTCOME " + json.dumps(outcome), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
