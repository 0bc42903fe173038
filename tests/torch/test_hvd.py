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
    (want(inputs.view(-1, 5)).square().sum() / n).backward()  # the passes add up
    torch.testing.assert_close(model["used"].weight.grad, want.weight.grad)
    with outer.skip_synchronize():
        outer.step()
    for name, tensor in model.state_dict().items():
        copies = hvd.allgather(tensor.reshape(1, -1), name=f"check {name}")
        assert torch.equal(copies, copies[:1].expand_as(copies)), name
        assert not torch.equal(tensor, before[name]), name
    hvd.shutdown()


def after_disagreement(rank, n):
    """A step that failed leaves nothing behind: the next one is as any."""
    hvd = start()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 1))
    outer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    before = [parameter.detach().clone() for parameter in model.parameters()]
    outer._op = hvd.Sum if rank == 1 else hvd.Average
    model(torch.ones(1, 4)).sum().backward()
    try:
        outer.step()
    except hvd.Disagreement as error:
        assert "rank 1" in str(error), error
    else:
        raise AssertionError("no error")
    for parameter, old in zip(model.parameters(), before):
        assert torch.equal(parameter, old)
    outer._op = hvd.Average
    for step in range(2):
        outer.zero_grad()
        model(torch.full((1, 4), float(rank + step))).sum().backward()
        outer.step()
    for i, parameter in enumerate(model.parameters()):
        assert not torch.equal(parameter, before[i])
        copies = hvd.allgather(parameter.detach().reshape(1, -1), name=f"check {i}")
        assert torch.equal(copies, copies[:1].expand_as(copies))
    hvd.shutdown()


def scheduler_first(rank, n):
    """A scheduler that was made before the optimizer was distributed."""
    import warnings

    hvd = start()
    parameter = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    optimizer = hvd.DistributedOptimizer(optimizer, [("parameter", parameter)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a step that the scheduler has not seen
        for _ in range(2):
            optimizer.zero_grad()
            (parameter * (rank + 1)).sum().backward()
            optimizer.step()
            scheduler.step()
    mean = (n + 1) / 2
    assert torch.equal(parameter, torch.full((3,), -1.5 * mean)), parameter  # 1 + 1/2 of the mean gradient
    optimizer.zero_grad()
    (parameter * (rank + 1)).sum().backward()
    optimizer.synchronize()
    assert torch.equal(parameter.grad, torch.full((3,), mean))
    with optimizer.skip_synchronize():
        optimizer.step()
    assert torch.equal(parameter, torch.full((3,), -1.75 * mean)), parameter
    hvd.shutdown()


def stalls(rank, n):
    """Rank 0 says whom a tensor waits for although that rank has nothing to do with hvd at the time."""
    import contextlib
    import io
    import time

    import torch.distributed as dist

    from tutti_torch.hvd import engine

    engine.STALL_SECONDS, engine.IDLE_SECONDS = 0.3, 0.05
    hvd = start()
    hvd.barrier()
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        if rank == 0:
            handle = hvd.allreduce_async(torch.ones(3), name="late", op=hvd.Sum)
            while "late" not in said.getvalue():
                time.sleep(0.01)
            assert "'allreduce.late' waits for rank 1, 2" in said.getvalue(), said.getvalue()
        dist.barrier()
        if rank != 0:
            handle = hvd.allreduce_async(torch.ones(3), name="late", op=hvd.Sum)
        assert torch.equal(handle.wait(), torch.full((3,), float(n)))
    hvd.shutdown()


def idle(rank, n):
    """A rank may be away from hvd for longer than the group's timeout, as others wait for it or do not."""
    import datetime
    import time

    from tutti_torch.hvd import engine, world

    engine.IDLE_SECONDS = 0.1
    hvd = start()
    world.engine().backend.set_timeout(datetime.timedelta(seconds=1))
    hvd.barrier()
    time.sleep(2.5)
    if rank == 0:
        time.sleep(2)
    assert torch.equal(hvd.allreduce(torch.ones(2), name="after", op=hvd.Sum), torch.full((2,), float(n)))
    hvd.shutdown()


def refusals(rank, n):
    """What makes no sense is the caller's error, or that of all ranks; the others' tensors go on."""
    hvd = start()
    wrong = [lambda: hvd.allreduce(torch.ones(3).to_sparse(), name="sparse"),
             lambda: hvd.allreduce(torch.ones(3, dtype=torch.int32), name="scaled", op=hvd.Sum, prescale_factor=0.5),
             lambda: hvd.allreduce(torch.ones(3), name="unknown", op="MEDIAN"),
             lambda: hvd.allreduce(torch.ones(3, dtype=torch.complex64), name="complex", op=hvd.Max),
             lambda: hvd.broadcast(torch.ones(3), n, name="root")]
    for i, call in enumerate(wrong):
        handle = hvd.allreduce_async(torch.ones(5), name=f"beside {i}", op=hvd.Sum)
        try:
            call()
        except ValueError:
            pass
        else:
            raise AssertionError(f"no error from call {i}")
        assert torch.equal(handle.wait(), torch.full((5,), float(n)))
    hvd.shutdown()


def numbers(rank, n):
    """Descriptions of what comes once are forgotten."""
    from tutti_torch.hvd import engine, world

    engine.NUMBERS = 8
    hvd = start()
    for i in range(60):
        names = [f"tensor {(i * k) % 13}" for k in (3, 5, 7)]
        handles = [hvd.allreduce_async(torch.full((2,), float(k)), name=name, op=hvd.Sum)
                   for k, name in enumerate(dict.fromkeys(names))]
        assert torch.equal(hvd.allreduce(torch.full((i,), 1.0), op=hvd.Sum), torch.full((i,), float(n)))
        for k, handle in enumerate(handles):
            assert torch.equal(handle.wait(), torch.full((2,), float(k * n)))
        known = world.engine()
        assert len(known.numbers) <= 9 and len(known.descriptions) <= 9, len(known.numbers)
    hvd.shutdown()


def wrapped(rank, n):
    """Wire types where torch puts its checks around the backend."""
    import torch.distributed as dist

    dist.set_debug_level(dist.DebugLevel.DETAIL)
    hvd = start()
    half = hvd.allreduce(torch.full((100,), 1 + 2.0 ** -14), name="half", op=hvd.Sum, compression=hvd.Compression.fp16)
    assert torch.equal(half, torch.full((100,), float(n))), half
    hvd.shutdown()


def left_alone(rank, n):
    """Rank 0 leaves while rank 1 does not: it gets away, and rank 1's next call ends with an error. The world is hvd's."""
    import tempfile
    import time

    from tutti_torch.hvd import world

    folder = os.path.join(tempfile.gettempdir(), f"tutti-left-alone-{os.getppid()}")
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(n), MASTER_ADDR="127.0.0.1", TORCHELASTIC_RESTART_COUNT="0",
                      TORCHELASTIC_USE_AGENT_STORE="True")  # the store is there already
    if rank == 0:
        import torch.distributed as dist
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        with open(folder + ".part", "w") as file:
            file.write(str(store.port))
        os.rename(folder + ".part", folder)
    while not os.path.exists(folder):
        time.sleep(0.01)
    with open(folder) as file:
        os.environ["MASTER_PORT"] = file.read()
    world.GOODBYE_SECONDS = 0.5
    hvd = start()
    hvd.barrier()
    if rank == 0:
        hvd.shutdown()
        open(folder + ".left", "w").close()
        while os.path.exists(folder):
            time.sleep(0.01)
        os.unlink(folder + ".left")
        return
    while not os.path.exists(folder + ".left"):
        time.sleep(0.01)
    try:
        hvd.allreduce(torch.ones(3), name="alone")
    except RuntimeError as error:
        assert "rank 0" in str(error), error
    else:
        raise AssertionError("no error")
    finally:
        os.unlink(folder)
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

    def test_after_disagreement(self):
        ranks.run(after_disagreement, 3)

    def test_scheduler_first(self):
        ranks.run(scheduler_first, 2)

    def test_stalls(self):
        ranks.run(stalls, 3)

    def test_idle(self):
        ranks.run(idle, 2)

    def test_refusals(self):
        ranks.run(refusals, 3)

    def test_numbers(self):
        ranks.run(numbers, 2)

    def test_wrapped(self):
        ranks.run(wrapped, 2)

    def test_left_alone(self):
        ranks.run(left_alone, 2, backend=None)


if __name__ == "__main__":
    unittest.main()
