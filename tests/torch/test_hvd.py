"""tutti_torch.hvd: order, fusion, disagreement, types, optimizer."""
import os
import random
import sys
import unittest

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks  # noqa: E402


def start():
    import tutti_torch.hvd as hvd

    hvd.init()
    return hvd


def any_order(rank, n):
    hvd = start()
    assert (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size()) == (rank, n, rank, n)
    for _ in range(3):  # later rounds go by numbers
        names = [f"tensor {i}" for i in range(200)]
        random.Random(rank).shuffle(names)
        handles = {}
        for name in names:
            i = int(name.split()[1])
            dtype = (torch.float32, torch.float64, torch.int32)[i % 3]
            handles[name] = hvd.allreduce_async(torch.full((i % 7, i), rank + i).to(dtype), name=name, op=hvd.Sum)
        for name, handle in handles.items():
            i = int(name.split()[1])
            have = hvd.synchronize(handle)
            assert hvd.poll(handle)
            assert torch.equal(have, torch.full((i % 7, i), n * i + n * (n - 1) // 2).to(have.dtype)), name
    hvd.shutdown()


def other_operations(rank, n):
    hvd = start()
    mine = torch.full((rank + 1, 2), float(rank))
    have = hvd.allgather(mine, name="uneven")
    assert torch.equal(have, torch.cat([torch.full((r + 1, 2), float(r)) for r in range(n)]))
    kept = torch.full((5,), float(rank))
    assert torch.equal(hvd.broadcast(kept, n - 1, name="b"), torch.full((5,), n - 1.0))
    assert kept[0] == rank
    hvd.broadcast_(kept, 0, name="b")
    assert kept[0] == 0
    assert torch.equal(hvd.allreduce(torch.full((3,), float(rank)), name="mean"), torch.full((3,), (n - 1) / 2))
    assert hvd.broadcast_object({"rank": rank}, root_rank=1) == {"rank": 1}
    assert [value["rank"] for value in hvd.allgather_object({"rank": rank, "text": "y" * 5000 * rank})] == list(range(n))
    scaled = hvd.allreduce(torch.ones(4), name="scaled", op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    assert torch.equal(scaled, torch.full((4,), 2.0 * n))
    half = hvd.allreduce(torch.full((100,), 1 + 2.0 ** -14), name="half", op=hvd.Sum, compression=hvd.Compression.fp16)
    assert torch.equal(half, torch.full((100,), float(n))), half  # rounded to 11 bits on the way
    many = hvd.grouped_allreduce([torch.ones(3), torch.ones(4)], op=hvd.Sum, name="group")
    assert all(torch.equal(t, torch.full_like(t, float(n))) for t in many)
    hvd.barrier()
    hvd.shutdown()


def disagreements(rank, n):
    hvd = start()
    odd = rank == 1
    cases = [
        ("shape", lambda: hvd.allreduce(torch.ones(5 if odd else 3), name="a"), ("'allreduce.a'", "rank 1", "[5]", "[3]")),
        ("type", lambda: hvd.allreduce(torch.ones(3, dtype=torch.float64 if odd else torch.float32), name="b"),
         ("'allreduce.b'", "rank 1", "torch.float64")),
        ("operation", lambda: hvd.allreduce(torch.ones(3), name="c", op=hvd.Max if odd else hvd.Sum),
         ("'allreduce.c'", "rank 1", "MAX")),
        ("root", lambda: hvd.broadcast(torch.ones(3), 1 if odd else 0, name="d"), ("'broadcast.d'", "rank 1", "root")),
    ]
    for what, call, words in cases:
        try:
            call()
        except hvd.Disagreement as error:
            for word in words:
                assert word in str(error), (word, str(error))
        else:
            raise AssertionError(f"no error for a wrong {what}")
    assert torch.equal(hvd.allreduce(torch.ones(3), name="a", op=hvd.Sum), torch.full((3,), float(n)))  # goes on
    if rank == 0:
        handle = hvd.allreduce_async(torch.ones(2), name="twice", op=hvd.Sum)
        try:
            hvd.allreduce_async(torch.ones(2), name="twice", op=hvd.Sum)
        except hvd.DuplicateName as error:
            assert "twice" in str(error)
        else:
            raise AssertionError("no error for a name that is open")
        handle.wait()
    else:
        hvd.allreduce(torch.ones(2), name="twice", op=hvd.Sum)
    hvd.shutdown()


def optimizer(rank, n):
    """Two passes a step, a layer that only rank 0 uses, state that rank 0 alone had: all ranks end alike, and where one
    process with all the data would."""
    hvd = start()
    torch.manual_seed(rank)
    model = torch.nn.ModuleDict({"used": torch.nn.Linear(5, 3), "rare": torch.nn.Linear(5, 3)})
    inner = torch.optim.Adam(model.parameters(), lr=0.1 if rank == 0 else 0.7)
    if rank == 0:
        (model["used"](torch.ones(1, 5)).sum() + model["rare"](torch.ones(1, 5)).sum()).backward()
        inner.step()
        inner.zero_grad()
    hvd.broadcast_parameters(model.state_dict(), 0)
    hvd.broadcast_optimizer_state(inner, 0)
    assert inner.param_groups[0]["lr"] == 0.1
    outer = hvd.DistributedOptimizer(inner, model.named_parameters(), backward_passes_per_step=2)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    inputs = torch.arange(float(n * 2 * 5)).view(n, 2, 1, 5) / 10
    for step in range(2):
        loss = model["used"](inputs[rank, step]).square().sum()
        if rank == 0:
            loss = loss + model["rare"](inputs[rank, step]).square().sum()
        loss.backward()
    outer.synchronize()
    want = torch.nn.Linear(5, 3)
    want.load_state_dict({"weight": before["used.weight"], "bias": before["used.bias"]})
    (want(inputs.view(-1, 5)).square().sum() / (2 * n)).backward()
    torch.testing.assert_close(model["used"].weight.grad, want.weight.grad)
    with outer.skip_synchronize():
        outer.step()
    for name, tensor in model.state_dict().items():
        copies = hvd.allgather(tensor.reshape(1, -1), name=f"check {name}")
        assert torch.equal(copies, copies[:1].expand_as(copies)), name
        assert not torch.equal(tensor, before[name]), name
    hvd.shutdown()


class Hvd(unittest.TestCase):
    def test_any_order(self):
        ranks.run(any_order, 3)

    def test_other_operations(self):
        ranks.run(other_operations, 3)

    def test_disagreements(self):
        ranks.run(disagreements, 3)

    def test_optimizer(self):
        ranks.run(optimizer, 2)


if __name__ == "__main__":
    unittest.main()
