"""What torch builds on its process groups, on tutti: functional collectives, torch.compile, DTensor, tensor and pipeline
parallelism, FSDP2, distributed checkpoints, large objects, torch's own checks. The yardstick is the same in one process."""
import os
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.testing import assert_close

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks  # noqa: E402


def functional_collectives(rank, n):
    group = dist.group.WORLD
    mine = torch.arange(8.0) + rank
    total = sum(torch.arange(8.0) + r for r in range(n))
    assert torch.equal(functional.all_reduce(mine, "sum", group).wait(), total)
    all_gather = getattr(functional, "all_gather_single", functional.all_gather_tensor)  # their names since 2.15
    every = torch.cat([torch.arange(8.0) + r for r in range(n)])
    assert torch.equal(all_gather(mine, 0, group).wait(), every)
    reduce_scatter = getattr(functional, "reduce_scatter_single", functional.reduce_scatter_tensor)
    assert torch.equal(reduce_scatter(mine, "sum", 0, group).wait(), total.chunk(n)[rank])
    assert torch.equal(functional.broadcast(mine, 1, group).wait(), torch.arange(8.0) + 1)
    swapped = functional.all_to_all_single(mine, None, None, group).wait()
    assert torch.equal(swapped, torch.cat([(torch.arange(8.0) + r).chunk(n)[rank] for r in range(n)]))
    both = functional.all_reduce_coalesced([mine, mine * 2], "max", group)
    assert torch.equal(both[1].wait(), (torch.arange(8.0) + n - 1) * 2)


def compiled(rank, n):
    """Collectives inside a graph, and DistributedDataParallel around a compiled model."""
    def step(tensor):
        total = functional.all_reduce(tensor * 2, "sum", dist.group.WORLD)
        return functional.all_gather_tensor(total + rank, 0, dist.group.WORLD) * 3

    tensor = torch.arange(6.0) + rank
    want = step(tensor)
    assert torch.equal(torch.compile(step, fullgraph=True, backend="aot_eager")(tensor), want)
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))
    model = nn.parallel.DistributedDataParallel(torch.compile(plain, backend="aot_eager"))
    model(torch.full((2, 6), 1.0 + rank)).sum().backward()
    have = [parameter.grad.clone() for parameter in plain.parameters()]
    plain.zero_grad()
    plain(torch.cat([torch.full((2, 6), 1.0 + r) for r in range(n)])).sum().div(n).backward()
    for mine, parameter in zip(have, plain.parameters(), strict=True):
        assert_close(mine, parameter.grad)


def inductor(rank, n):
    """torch's own compiler, which places and joins collectives itself."""
    def step(one, other):
        first = functional.all_reduce(one.sin(), "sum", dist.group.WORLD)
        second = functional.all_reduce(other.cos(), "sum", dist.group.WORLD)
        return first * 2 + second

    one, other = torch.arange(32.0) + rank, torch.arange(32.0) - rank
    assert_close(torch.compile(step, fullgraph=True)(one, other), step(one, other))


def distributed_tensors(rank, n):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (n,))
    torch.manual_seed(0)
    left, right = torch.randn(6, 10), torch.randn(10, 7)  # neither can be shared out evenly among 4
    for places in ((Shard(0), Replicate()), (Shard(1), Shard(0)), (Replicate(), Shard(1))):
        product = distribute_tensor(left, mesh, [places[0]]) @ distribute_tensor(right, mesh, [places[1]])
        assert_close(product.full_tensor(), left @ right)
        assert_close(product.redistribute(mesh, [Shard(1)]).full_tensor(), left @ right)
    shard = DTensor.from_local(torch.full((2, 2), float(rank)), mesh, [Shard(0)])
    assert shard.mean().full_tensor().item() == (n - 1) / 2
    assert torch.equal(shard.redistribute(mesh, [Shard(1)]).full_tensor(), shard.full_tensor())


def tensor_and_data_parallel(rank, n, folder):
    """FSDP2 over one dimension of a mesh, tensor parallelism over the other. A checkpoint of it fits FSDP2 over all ranks."""
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    def made(seed):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 4))

    def trained(model, inputs, steps=3):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(steps):
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
        return model

    torch.manual_seed(7)
    every = torch.randn(2, 5, 8)
    plain = trained(made(0), every.reshape(10, 8))
    mesh = init_device_mesh("cpu", (2, n // 2), mesh_dim_names=("data", "tensor"))
    model = parallelize_module(made(0), mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    trained(model, every[mesh["data"].get_local_rank()])
    state = get_model_state_dict(model)
    for name, tensor in plain.state_dict().items():
        assert_close(state[name].full_tensor(), tensor)
    checkpoint.save(state, checkpoint_id=folder)
    other = fully_shard(made(1), mesh=init_device_mesh("cpu", (n,)))
    read = get_model_state_dict(other)
    checkpoint.load(read, checkpoint_id=folder)
    set_model_state_dict(other, read)
    assert_close(other(every[0]), plain(every[0]))


def pipeline(rank, n):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(n)]
    inputs, target = torch.randn(8, 6), torch.randn(8, 6)
    whole = nn.Sequential(*layers)
    loss = nn.functional.mse_loss(whole(inputs), target)
    loss.backward()
    want = [parameter.grad.clone() for parameter in layers[rank].parameters()]
    for schedule in (ScheduleGPipe, Schedule1F1B):
        whole.zero_grad()
        stage = PipelineStage(layers[rank], rank, n, torch.device("cpu"))
        losses = []
        run = schedule(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
        run.step(*([inputs] if rank == 0 else []), **({"target": target, "losses": losses} if rank == n - 1 else {}))
        if rank == n - 1:
            assert_close(torch.stack(losses).mean(), loss)
        for parameter, gradient in zip(layers[rank].parameters(), want, strict=True):
            assert_close(parameter.grad, gradient)


def exchanges(rank, n):
    """Everybody with everybody in one batch, in an order of its own."""
    got = {other: torch.zeros(1000 + other) for other in range(n) if other != rank}
    operations = [dist.P2POp(dist.isend, torch.full((1000 + rank,), float(rank)), other) for other in got]
    operations += [dist.P2POp(dist.irecv, tensor, other) for other, tensor in reversed(got.items())]
    for work in dist.batch_isend_irecv(operations if rank % 2 else operations[::-1]):
        work.wait()
    for other, tensor in got.items():
        assert torch.equal(tensor, torch.full((1000 + other,), float(other)))


def everything_checked(rank, n, store):
    """With TORCH_DISTRIBUTED_DEBUG=DETAIL torch compares the ranks' calls before it makes them."""
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    dist.init_process_group("tutti", init_method=f"file://{store}", rank=rank, world_size=n)
    total = torch.full((4,), rank + 1.0)
    dist.all_reduce(total)
    assert total[0].item() == n * (n + 1) / 2
    blocks = [torch.zeros(3) for _ in range(n)]
    dist.all_gather(blocks, torch.full((3,), float(rank)))
    assert [block[0].item() for block in blocks] == list(range(n))
    exchanges(rank, n)
    ranks.expect_error(RuntimeError, lambda: dist.all_reduce(torch.zeros(5 if rank == 2 else 4)),
                       "etected mismatch between collectives")


def large_broadcast(rank, n):
    objects = [bytes(1 << 30) if rank == 0 else None, "end"]
    dist.broadcast_object_list(objects, src=0)
    assert len(objects[0]) == 1 << 30 and objects[0][-1] == 0 and objects[1] == "end"


def large_gather(rank, n):
    objects = [None] * n if rank == 0 else None
    dist.gather_object(bytes([rank]) * (128 << 20), objects, dst=0)
    if rank == 0:
        assert [(len(one), one[0], one[-1]) for one in objects] == [(128 << 20, r, r) for r in range(n)]


class Parallel(unittest.TestCase):
    def test_functional_collectives(self):
        ranks.run(functional_collectives, 4)

    def test_compiled(self):
        ranks.run(compiled, 4)

    def test_inductor(self):
        ranks.run(inductor, 2)

    def test_distributed_tensors(self):
        ranks.run(distributed_tensors, 4)

    def test_tensor_and_data_parallel(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(tensor_and_data_parallel, 4, folder)

    def test_pipeline(self):
        ranks.run(pipeline, 4)

    def test_exchanges(self):
        ranks.run(exchanges, 4)

    def test_everything_checked(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(everything_checked, 4, os.path.join(folder, "store"), backend=None)

    def test_large_broadcast(self):
        ranks.run(large_broadcast, 2)

    def test_large_gather(self):
        ranks.run(large_gather, 4)


if __name__ == "__main__":
    unittest.main()
