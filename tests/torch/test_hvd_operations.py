"""tutti_torch.hvd: alltoall, reducescatter, groups, join, process sets, sparse gradients, the timeline."""
import json
import os
import sys
import tempfile
import unittest

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks  # noqa: E402
from ranks import expect_error  # noqa: E402
from test_hvd import start  # noqa: E402


def alltoall(rank, n):
    hvd = start()
    even = hvd.alltoall(torch.arange(2.0 * n).view(2 * n, 1) + 100 * rank)
    assert torch.equal(even, torch.tensor([[100.0 * r + 2 * rank + i] for r in range(n) for i in range(2)])), even
    splits = [(rank + to) % 3 for to in range(n)]
    rows = [rank * 10 + to for to in range(n) for _ in range(splits[to])]
    have, received = hvd.alltoall(torch.tensor(rows, dtype=torch.int64), splits=torch.tensor(splits), name="uneven")
    assert received.tolist() == [(r + rank) % 3 for r in range(n)]
    assert have.tolist() == [r * 10 + rank for r in range(n) for _ in range((r + rank) % 3)]
    nothing, received = hvd.alltoall(torch.zeros(0, 4), splits=[0] * n, name="nothing")
    assert nothing.shape == (0, 4) and received.tolist() == [0] * n
    expect_error(ValueError, lambda: hvd.alltoall(torch.zeros(n + 1)), "give splits")
    expect_error(ValueError, lambda: hvd.alltoall(torch.zeros(3), splits=[1] * (n + 1)), "splits")
    expect_error(ValueError, lambda: hvd.alltoall(torch.tensor(1.0)), "dimensions")
    expect_error(hvd.Disagreement, lambda: hvd.alltoall(torch.zeros(n, 2 if rank == 1 else 3), name="odd"), "rank 1")
    hvd.shutdown()


def reducescatter(rank, n):
    hvd = start()
    for rows in (2 * n, 2 * n + 1, n - 1, 0):
        mine = torch.arange(rows * 3.0).view(rows, 3) * (rank + 1)
        have = hvd.reducescatter(mine, op=hvd.Sum)
        counts = [rows // n + (r < rows % n) for r in range(n)]
        first = sum(counts[:rank])
        want = torch.arange(rows * 3.0).view(rows, 3)[first:first + counts[rank]] * (n * (n + 1) // 2)
        assert torch.equal(have, want), (rows, have)
    mean = hvd.reducescatter(torch.full((n,), float(rank)), prescale_factor=2.0, postscale_factor=3.0)
    assert torch.equal(mean, torch.full((1,), 3.0 * (n - 1))), mean
    most = hvd.reducescatter(torch.full((n,), rank, dtype=torch.int32), op=hvd.Max)
    assert most.tolist() == [n - 1]
    half = hvd.reducescatter(torch.full((n,), 1 + 2.0 ** -14), op=hvd.Sum, compression=hvd.Compression.fp16)
    assert half.dtype == torch.float32 and half.tolist() == [float(n)]
    many = hvd.grouped_reducescatter([torch.ones(n), torch.ones(2 * n, 2)], name="group", op=hvd.Sum)
    assert [tuple(piece.shape) for piece in many] == [(1,), (2, 2)] and all((piece == n).all() for piece in many)
    handle = hvd.grouped_allgather_async([torch.full((1,), rank), torch.full((2, 2), rank)], name="gathers")
    assert [tuple(piece.shape) for piece in hvd.synchronize(handle)] == [(n,), (2 * n, 2)] and hvd.poll(handle)
    tensors = [torch.ones(3), torch.ones(4, dtype=torch.float64)]
    hvd.grouped_allreduce_(tensors, name="in place", op=hvd.Sum)
    assert all((tensor == n).all() for tensor in tensors)
    expect_error(ValueError, lambda: hvd.reducescatter(torch.tensor(1.0)), "dimensions")
    hvd.shutdown()


def join(rank, n):
    """Ranks have 2 + rank batches. Whoever has no more takes part with zeros."""
    hvd = start()
    for epoch in range(2):
        for batch in range(2 + rank):
            there = [r for r in range(n) if 2 + r > batch]
            names = ["a", "b"] if (rank + batch) % 2 else ["b", "a"]
            handles = {name: hvd.allreduce_async(torch.full((3,), rank + 1.0), name=name, op=hvd.Sum) for name in names}
            mean = hvd.allreduce(torch.full((2,), float(n * (rank + 1))), name="mean")
            total = float(sum(r + 1 for r in there))
            assert all(torch.equal(handle.wait(), torch.full((3,), total)) for handle in handles.values()), batch
            assert torch.equal(mean, torch.full((2,), total)), mean
        if rank == n - 1:
            expect_error(ValueError, lambda: hvd.allgather(torch.ones(2), name="all"), "has joined", "allgather.all")
            expect_error(ValueError, lambda: hvd.allreduce(torch.ones(2), name="most", op=hvd.Max), "has joined")
        assert hvd.join() == n - 1
    assert torch.equal(hvd.allgather(torch.full((1,), rank)), torch.arange(n))
    hvd.shutdown()


def process_sets(rank, n):
    import torch.distributed as dist

    import tutti_torch.hvd as hvd

    low = hvd.ProcessSet([0, 1])
    expect_error(ValueError, low.size, "was not added")
    hvd.init(process_sets=[low, [n - 1, 1]])
    assert hvd.global_process_set.size() == n and hvd.global_process_set.process_set_id == 0
    assert (low.size(), low.included(), low.process_set_id) == (2, rank < 2, 1)
    if rank < 2:
        assert low.rank() == rank
        assert torch.equal(hvd.allreduce(torch.ones(3), op=hvd.Sum, process_set=low), torch.full((3,), 2.0))
        assert hvd.broadcast_object({"rank": rank}, root_rank=1, process_set=low) == {"rank": 1}
        expect_error(ValueError, lambda: hvd.broadcast(torch.ones(1), n - 1, process_set=low), "root_rank")
        expect_error(hvd.Disagreement, lambda: hvd.allreduce(torch.ones(2 + rank), name="x", process_set=low), "rank 1")
    else:
        expect_error(ValueError, lambda: hvd.allreduce(torch.ones(3), process_set=low), f"rank {rank} is not in")
    high = hvd.add_process_set([n - 1, n - 2])
    expect_error(ValueError, lambda: hvd.add_process_set([n - 2, n - 1]), "there is a process set")
    expect_error(ValueError, lambda: hvd.add_process_set([0, n]), "none of")
    expect_error(ValueError, lambda: hvd.add_process_set([0, 2] if rank == 0 else [0, 3]), "rank 1")
    if high.included():
        have = hvd.allgather(torch.full((1,), rank), process_set=high)
        assert have.tolist() == [n - 2, n - 1]
        values = hvd.broadcast(torch.full((2,), float(rank)), n - 1, process_set=high)
        assert values.tolist() == [n - 1.0] * 2
        parameter = torch.nn.Parameter(torch.zeros(2))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), process_set=high)
        (parameter * rank).sum().backward()
        optimizer.step()
        assert parameter.tolist() == [-(2 * n - 3) / 2] * 2
    assert torch.equal(hvd.allreduce(torch.ones(1), op=hvd.Sum), torch.full((1,), float(n)))  # unnamed, on all
    assert hvd.remove_process_set(high) and not hvd.remove_process_set(high)
    assert not hvd.remove_process_set(hvd.global_process_set)
    expect_error(ValueError, lambda: hvd.allreduce(torch.ones(1), process_set=high), "was not added")
    assert dist.is_initialized()
    hvd.shutdown()
    hvd.init()
    hvd.barrier()
    hvd.shutdown()


def sparse(rank, n):
    hvd = start()
    indices = torch.tensor([[rank, n, rank], [0, 1, 0]])
    mine = torch.sparse_coo_tensor(indices, torch.tensor([1.0, 2.0, 3.0]), (n + 1, 2))
    want = torch.zeros(n + 1, 2)
    want[:n, 0], want[n, 1] = 4, 2 * n
    total = hvd.synchronize(hvd.sparse_allreduce_async(mine, name="sum", op=hvd.Sum))
    assert total.is_sparse and torch.equal(total.to_dense(), want)
    assert torch.equal(hvd.sparse_allreduce_async(mine, name="mean").wait().to_dense(), want / n)
    few = hvd.sparse_allreduce_async(torch.sparse_coo_tensor(size=(n + 1, 2)) if rank else mine, name="few").wait()
    assert few._nnz() == 2 and few.to_dense()[0, 0] == 4 / n
    expect_error(ValueError, lambda: hvd.sparse_allreduce_async(torch.ones(2)), "layout")
    expect_error(hvd.Disagreement, lambda: hvd.synchronize(
        hvd.sparse_allreduce_async(mine, name="odd") if rank else hvd.allreduce_async(mine.to_dense(), name="odd")), "rank 0")
    for sparse_as_dense in (False, True):
        torch.manual_seed(1)
        table, dense = torch.nn.Embedding(10, 3, sparse=True), torch.nn.Linear(3, 1)
        named = [("table", table.weight), *dense.named_parameters()]
        before = table.weight.detach().clone()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter for _, parameter in named], lr=1.0), named,
                                             backward_passes_per_step=2, sparse_as_dense=sparse_as_dense)
        for word in (rank, 9):
            dense(table(torch.tensor([word]))).sum().backward()
        optimizer.step()
        assert table.weight.grad.is_sparse != sparse_as_dense
        weight = before - table.weight.detach()
        torch.testing.assert_close(weight[9], n * weight[0])  # the second word of all ranks
        torch.testing.assert_close(weight[0], weight[n - 1])
        assert weight[0].abs().sum() > 0 and not weight[n:9].any()
    hvd.shutdown()


def predivide(rank, n):
    hvd = start()
    parameter = torch.nn.Parameter(torch.zeros(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), gradient_predivide_factor=2.0)
    (parameter * (rank + 1)).sum().backward()
    optimizer.step()
    torch.testing.assert_close(parameter.detach(), torch.full((3,), -(n + 1) / 2))
    expect_error(ValueError, lambda: hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), op=hvd.Sum,
                                                              gradient_predivide_factor=2.0), "Average")
    hvd.shutdown()


def timeline(rank, n, folder):
    import time

    hvd = start()
    path = os.path.join(folder, "timeline.json")
    hvd.start_timeline(path, mark_cycles=True)
    hvd.barrier()
    if rank == 1:
        time.sleep(0.1)
    hvd.allreduce(torch.ones(3), name="late", op=hvd.Sum)
    hvd.barrier()
    hvd.stop_timeline()
    hvd.allreduce(torch.ones(3), name="unseen", op=hvd.Sum)
    hvd.shutdown()
    if rank != 0:
        return
    with open(path) as file:
        events = json.load(file)
    rows = {event["args"]["name"]: event["tid"] for event in events if event["ph"] == "M"
            and "tid" in event}
    assert "allreduce.unseen" not in rows and "rounds" in rows
    late = [event for event in events if event.get("tid") == rows["allreduce.late"] and event["ph"] != "M"]
    assert [event["ph"] for event in late if event["ph"] in "BE"] == ["B", "E", "B", "E"], late
    assert {event["name"] for event in late if event["ph"] == "i"} == {str(r) for r in range(n)}
    waited = [event["ts"] for event in late if event["ph"] in "BE"]
    assert waited[1] - waited[0] > 50_000 and late[0]["name"] == "NEGOTIATE_ALLREDUCE", late


def late(rank, n):
    """Who comes late to what all ranks do, or has something open meanwhile."""
    import time

    hvd = start()
    handle = hvd.allreduce_async(torch.ones(2), name="open", op=hvd.Sum) if rank else None
    time.sleep(1.3 * rank)  # others idle meanwhile
    some = hvd.add_process_set([0, 1])
    if handle is None:
        handle = hvd.allreduce_async(torch.ones(2), name="open", op=hvd.Sum)
    assert handle.wait().tolist() == [float(n)] * 2
    if some.included():
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=some).item() == 2
    hvd.shutdown()


def kinds_of_tensors(rank, n):
    """Metrics in inference mode, tensors that cannot take a result, plain lists of parameters."""
    hvd = start()
    with torch.inference_mode():
        metric = torch.full((2,), float(rank))
        assert hvd.allreduce(metric).tolist() == [(n - 1) / 2] * 2
        assert hvd.broadcast(metric, 1).tolist() == [1.0] * 2
        hvd.broadcast_(metric, 1)
        hvd.allreduce_(metric, op=hvd.Sum)
        assert metric.tolist() == [float(n)] * 2
    expect_error(ValueError, lambda: hvd.allreduce_(torch.zeros(1).expand(3)), "share memory")
    sparse_one = torch.ones(2).to_sparse()
    for call in (hvd.allgather, hvd.alltoall, hvd.reducescatter, lambda t: hvd.broadcast(t, 0)):
        expect_error(ValueError, lambda: call(sparse_one), "layout")
    z = torch.full((2,), complex(1, rank))
    assert hvd.allreduce(z.conj(), op=hvd.Sum).tolist() == [complex(n, -n * (n - 1) // 2)] * 2
    assert hvd.allgather(z.conj()).tolist() == [complex(1, -r) for r in range(n) for _ in range(2)]
    assert hvd.broadcast(z.conj(), 1).tolist() == [complex(1, -1)] * 2
    expect_error(ValueError, lambda: hvd.broadcast_(z.conj(), 1), "conjugated")
    if rank == 0:
        expect_error(ValueError, lambda: hvd.allreduce_async(sparse_one), "layout")
        assert hvd.allreduce(torch.full((2,), 10.0), op=hvd.Sum).tolist() == [20.0] * 2
    else:  # its first one stays alone, and is not taken for rank 0's second
        alone = hvd.allreduce_async(torch.ones(2), op=hvd.Sum)
        assert hvd.allreduce(torch.full((2,), 10.0), op=hvd.Sum).tolist() == [20.0] * 2
        assert not hvd.poll(alone)
    name = hvd.broadcast_object(None if rank == 0 else alone.name.removeprefix("allreduce."), 1)
    if rank == 0:
        alone = hvd.allreduce_async(torch.ones(2), name=name, op=hvd.Sum)
    assert alone.wait().tolist() == [2.0] * 2
    strided = torch.full((3, 2), float(rank)).t()
    hvd.allreduce_(strided, op=hvd.Max)
    assert strided.tolist() == [[n - 1.0] * 3] * 2
    plain = [torch.full((2,), float(rank)), torch.full((2, 2), float(rank))]
    hvd.broadcast_parameters(plain, 1)
    assert all((tensor == 1).all() for tensor in plain)
    hvd.shutdown()


def join_odds(rank, n):
    """Unnamed tensors in different numbers, scale factors of different kinds, a rank that is slow to join."""
    import contextlib
    import io
    import time

    from tutti_torch.hvd import engine

    engine.STALL_SECONDS, engine.IDLE_SECONDS = 0.3, 0.05
    hvd = start()
    for _ in range(2 + rank):
        hvd.allreduce(torch.ones(2))
    handles = [hvd.allreduce_async(torch.ones(2), name=name, op=hvd.Sum, prescale_factor=2)
               for name in (["a"] if rank == 0 else ["a", "b"])]
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        if rank == 1:
            time.sleep(1)
        hvd.join()
    total = handles[-1].wait()
    assert total.tolist() == [2.0 * (n if rank == 0 else n - 1)] * 2, total
    assert rank or "have joined wait for rank 1" in said.getvalue(), said.getvalue()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == n
    hvd.shutdown()


def broken_engine(rank, n):
    """If the thread of one rank fails, calls of all ranks say so."""
    from tutti_torch.hvd import world

    hvd = start()
    hvd.barrier()
    if rank == 1:
        def fail(*_):
            raise MemoryError("planted")
        world.engine().execution.sum = fail
    for _ in range(2):
        expect_error(Exception, lambda: [hvd.allreduce(torch.ones(2), name="x") for _ in range(2)],
                     "planted" if rank == 1 else "rank 1")
    hvd.shutdown()


def gradients(rank, n):
    hvd = start()

    def gradient_of(call, rows=3):
        tensor = torch.ones(rows, requires_grad=True)
        result = call(tensor)
        (result * torch.arange(1.0, len(result) + 1)).sum().backward()
        return tensor.grad.tolist()

    assert gradient_of(lambda t: hvd.allreduce(t, op=hvd.Sum, name="s")) == [n * 1.0, n * 2.0, n * 3.0]
    assert gradient_of(lambda t: hvd.allreduce(t, prescale_factor=2.0)) == [2.0, 4.0, 6.0]
    first = sum(r + 1 for r in range(rank))
    assert gradient_of(hvd.allgather, rank + 1) == [first + i + 1.0 for i in range(rank + 1)]
    assert gradient_of(lambda t: hvd.broadcast(t, 1)) == ([1.0, 2.0, 3.0] if rank == 1 else [0.0] * 3)
    assert gradient_of(hvd.alltoall, n) == [rank + 1.0] * n
    have = gradient_of(lambda t: hvd.alltoall(t, splits=[2] + [0] * (n - 1))[0], 2)
    assert have == [2 * rank + 1.0, 2 * rank + 2.0], have
    assert gradient_of(lambda t: hvd.reducescatter(t, op=hvd.Sum), n + 1) == [1.0, 2.0] + [1.0] * (n - 1)
    expect_error(NotImplementedError, lambda: gradient_of(lambda t: hvd.allreduce(t, op=hvd.Max)), "MAX")
    assert not hvd.allreduce(torch.ones(1)).requires_grad
    hvd.shutdown()


def optimizer_odds(rank, n):
    """A sparse gradient that a rank skips, ranks outside of the process set, groups."""
    hvd = start()
    table = torch.nn.Embedding(5, 2, sparse=True)
    torch.nn.init.zeros_(table.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=1.0), None, hvd.Compression.none, 1,
                                         hvd.Sum, 1.0, 2)
    for step in range(2):
        optimizer.zero_grad()
        if step == 0 or rank == 0:
            table(torch.tensor([rank])).sum().backward()
        optimizer.step()
    assert table.weight[0].tolist() == [-2.0] * 2 and table.weight[1].tolist() == [-1.0] * 2, table.weight
    some = hvd.add_process_set([0, 1])
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), process_set=some)
    (parameter * rank).sum().backward()
    optimizer.step()
    assert parameter.item() == (-0.5 if rank < 2 else -rank)
    hvd.shutdown()


def busy_timeline(rank, n, folder):
    """It begins and ends while tensors are under way."""
    hvd = start()
    for i in range(20):
        handles = [hvd.allreduce_async(torch.ones(2), name=f"{j}", op=hvd.Sum) for j in range(30)]
        hvd.stop_timeline() if i % 2 else hvd.start_timeline(os.path.join(folder, f"{i}.json"))
        assert all(handle.wait().tolist() == [float(n)] * 2 for handle in handles)
    hvd.shutdown()
    expect_error(ValueError, lambda: hvd.init([0]), "process set")


class HvdOperations(unittest.TestCase):
    def test_alltoall(self):
        ranks.run(alltoall, 3)

    def test_reducescatter(self):
        ranks.run(reducescatter, 3)

    def test_join(self):
        ranks.run(join, 3)

    def test_process_sets(self):
        ranks.run(process_sets, 4)

    def test_sparse(self):
        ranks.run(sparse, 3)

    def test_late(self):
        ranks.run(late, 3)

    def test_kinds_of_tensors(self):
        ranks.run(kinds_of_tensors, 2)

    def test_join_odds(self):
        ranks.run(join_odds, 2)

    def test_broken_engine(self):
        ranks.run(broken_engine, 3)

    def test_gradients(self):
        ranks.run(gradients, 3)

    def test_optimizer_odds(self):
        ranks.run(optimizer_odds, 3)

    def test_busy_timeline(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(busy_timeline, 2, folder)

    def test_predivide(self):
        ranks.run(predivide, 3)

    def test_timeline(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(timeline, 3, folder)


if __name__ == "__main__":
    unittest.main()
