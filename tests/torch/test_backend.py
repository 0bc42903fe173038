"""The backend through torch.distributed: every operation against the plain result, types, groups, threads, errors."""
import datetime
import os
import signal
import sys
import tempfile
import threading
import time
import unittest

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks  # noqa: E402

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
FP8 = [torch.float8_e4m3fn, torch.float8_e5m2]
SIZES = [0, 1, 7, 1000, 300001]


def data(rank, size, dtype):
    """Small whole numbers: exact in every type, sums of a few ranks too."""
    values = (torch.arange(size) * 7 + rank * 3) % 5
    if dtype == torch.bool:
        return values > 2
    return values.to(torch.float32).to(dtype) if dtype in FP8 else values.to(dtype)


def same(have, want):
    if have.dtype in FP8:
        have, want = have.view(torch.uint8), want.view(torch.uint8)
    assert torch.equal(have, want), f"{have.dtype} {tuple(have.shape)}: {have.flatten()[:8]} is not {want.flatten()[:8]}"


def all_reduce(rank, n):
    operations = {dist.ReduceOp.SUM: lambda t: t.sum(0), dist.ReduceOp.MAX: lambda t: t.amax(0),
                  dist.ReduceOp.MIN: lambda t: t.amin(0), dist.ReduceOp.PRODUCT: lambda t: t.prod(0)}
    for dtype in INTEGERS + FLOATS:
        for size in SIZES:
            for operation, plain in operations.items():
                inputs = torch.stack([data(r, size, dtype) for r in range(n)])
                have = inputs[rank].clone()
                dist.all_reduce(have, op=operation)
                same(have, plain(inputs.to(torch.float64)).to(dtype))
    for operation, plain in ((dist.ReduceOp.BAND, torch.bitwise_and), (dist.ReduceOp.BOR, torch.bitwise_or),
                             (dist.ReduceOp.BXOR, torch.bitwise_xor)):
        want = data(0, 1000, torch.int32)
        for r in range(1, n):
            want = plain(want, data(r, 1000, torch.int32))
        have = data(rank, 1000, torch.int32)
        dist.all_reduce(have, op=operation)
        same(have, want)
    average = torch.full((10,), float(rank))
    dist.all_reduce(average, op=dist.ReduceOp.AVG)
    same(average, torch.full((10,), (n - 1) / 2))


def special_types(rank, n):
    inputs = [data(r, 999, torch.bool) for r in range(n)]
    for operation, want in ((dist.ReduceOp.SUM, torch.stack(inputs).any(0)),
                            (dist.ReduceOp.MAX, torch.stack(inputs).any(0)),
                            (dist.ReduceOp.MIN, torch.stack(inputs).all(0)),
                            (dist.ReduceOp.PRODUCT, torch.stack(inputs).all(0))):
        have = inputs[rank].clone()
        dist.all_reduce(have, op=operation)
        same(have, want)
    for dtype in FP8:
        have = data(rank, 999, dtype)
        dist.all_reduce(have)
        same(have, torch.stack([data(r, 999, dtype).float() for r in range(n)]).sum(0).to(dtype))
    for dtype in (torch.complex64, torch.complex128):
        number = torch.tensor([complex(rank, 1)] * 33, dtype=dtype)
        dist.all_reduce(number)
        same(number, torch.full((33,), complex(n * (n - 1) / 2, n), dtype=dtype))
    moved = [torch.zeros(5, dtype=torch.complex64) for _ in range(n)]
    dist.all_gather(moved, torch.full((5,), complex(0, rank), dtype=torch.complex64))
    same(moved[-1], torch.full((5,), complex(0, n - 1), dtype=torch.complex64))
    for dtype in FP8 + [torch.bool, torch.uint16]:
        have = data(rank, 77, torch.uint8).view(torch.uint8).to(torch.float32).to(dtype)
        dist.broadcast(have, n - 1)
        same(have, data(n - 1, 77, torch.uint8).to(torch.float32).to(dtype))
    scaled = torch.ones(9)
    dist.all_reduce(scaled, op=dist._make_nccl_premul_sum(0.25))
    same(scaled, torch.full((9,), n / 4))


def moves(rank, n):
    for dtype in (torch.int64, torch.bfloat16, torch.bool):
        for size in SIZES:
            mine = data(rank, size, dtype)
            want = [data(r, size, dtype) for r in range(n)]
            gathered = [torch.zeros_like(mine) for _ in range(n)]
            dist.all_gather(gathered, mine)
            for have, value in zip(gathered, want):
                same(have, value)
            flat = torch.zeros(n * size, dtype=dtype)
            dist.all_gather_into_tensor(flat, mine)
            same(flat, torch.cat(want))
            root = n - 1
            lists = [torch.zeros_like(mine) for _ in range(n)] if rank == root else None
            dist.gather(mine, lists, dst=root)
            if rank == root:
                same(torch.cat(lists), torch.cat(want))
            have = torch.zeros_like(mine)
            dist.scatter(have, [data(r + 1, size, dtype) for r in range(n)] if rank == root else None, src=root)
            same(have, data(rank + 1, size, dtype))
            have = data(rank, size, dtype)
            dist.broadcast(have, 0)
            same(have, want[0])
            have = [torch.zeros_like(mine) for _ in range(n)]
            dist.all_to_all(have, [data(rank * n + r, size, dtype) for r in range(n)])
            for r in range(n):
                same(have[r], data(r * n + rank, size, dtype))


def uneven(rank, n):
    mine = torch.full((rank + 1, 3), float(rank))
    outputs = [torch.zeros(r + 1, 3) for r in range(n)]
    dist.all_gather(outputs, mine)
    for r in range(n):
        same(outputs[r], torch.full((r + 1, 3), float(r)))
    inputs = [torch.full((r + 1,), float(rank)) for r in range(n)]
    have = torch.zeros(rank + 1)
    dist.reduce_scatter(have, inputs)
    same(have, torch.full((rank + 1,), n * (n - 1) / 2))
    sent = [(rank + r) % 3 for r in range(n)]  # symmetric: rank s gets from r what it gives to r
    given = torch.arange(sum(sent) * 2, dtype=torch.int32).view(-1, 2) + 1000 * rank
    got = torch.zeros_like(given)
    dist.all_to_all_single(got, given, sent, sent)
    place = 0
    for r in range(n):
        start = sum((r + k) % 3 for k in range(rank))
        same(got[place:place + sent[r]],
             torch.arange(start * 2, (start + sent[r]) * 2, dtype=torch.int32).view(-1, 2) + 1000 * r)
        place += sent[r]
    got = torch.zeros(2 * n)
    dist.all_to_all_single(got, torch.full((2 * n,), float(rank)))
    same(got, torch.arange(n).repeat_interleave(2).float())


def reductions_to_one(rank, n):
    total = n * (n + 1) / 2
    for root in range(n):
        have = torch.full((1234,), rank + 1.0)
        dist.reduce(have, root)
        same(have, torch.full((1234,), total if rank == root else rank + 1.0))
    have = torch.zeros(50)
    dist.reduce_scatter_tensor(have, torch.arange(50 * n).float() * (rank + 1))
    same(have, torch.arange(50 * rank, 50 * (rank + 1)).float() * total)
    have = torch.zeros(5, dtype=torch.int64)
    dist.reduce_scatter(have, [torch.full((5,), r * (rank + 1)) for r in range(n)])
    same(have, torch.full((5,), int(rank * total)))


def not_contiguous(rank, n):
    whole = torch.zeros(6, 8)
    whole[:, ::2] = rank + 1
    dist.all_reduce(whole[:, ::2])
    same(whole[:, ::2], torch.full((6, 4), n * (n + 1) / 2))
    assert whole[:, 1::2].eq(0).all()
    turned = torch.arange(12.0).view(3, 4).t() * (rank + 1)
    dist.broadcast(turned, 0)
    same(turned, torch.arange(12.0).view(3, 4).t())
    target = torch.zeros(n, 2, 5)
    dist.all_gather([target[r, :, 1] for r in range(n)], torch.full((2,), float(rank)))
    same(target[:, 0, 1], torch.arange(n).float())
    strided = torch.zeros(10)
    if rank == 0:
        dist.send(torch.arange(10.0)[::2], 1)
    elif rank == 1:
        dist.recv(strided[1::2], 0)
        same(strided[1::2], torch.tensor([0.0, 2, 4, 6, 8]))


def coalesced(rank, n):
    tensors = [torch.full((size,), rank + 1.0) for size in (1, 100, 70000)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor in tensors:
        same(tensor, torch.full_like(tensor, n * (n + 1) / 2))
    outputs = [torch.zeros(n * size) for size in (3, 4000)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for output in outputs:
            dist.all_gather_into_tensor(output, torch.full((output.numel() // n,), float(rank)))
    manager.wait()
    for output in outputs:
        same(output, torch.arange(n).float().repeat_interleave(output.numel() // n))
    outputs = [torch.zeros(size) for size in (3, 4000)]
    with dist._coalescing_manager():
        for output in outputs:
            dist.reduce_scatter_tensor(output, torch.ones(output.numel() * n))
    for output in outputs:
        same(output, torch.full_like(output, float(n)))
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        first, second = torch.ones(5), torch.full((6,), float(rank))
        dist.all_reduce(first)
        dist.broadcast(second, n - 1)
    manager.wait()
    same(first, torch.full((5,), float(n)))
    same(second, torch.full((6,), n - 1.0))


def transfers(rank, n):
    right, left = (rank + 1) % n, (rank - 1) % n
    for size in (0, 3, 200, 2_000_000):  # crossed, tags in the other order, waits in another
        sends = [dist.isend(torch.full((size,), float(rank * 10 + tag)), right, tag=tag) for tag in (1, 2, 3)]
        buffers = {tag: torch.zeros(size) for tag in (3, 1, 2)}
        receives = [dist.irecv(buffer, left, tag=tag) for tag, buffer in buffers.items()]
        for work in receives + sends:
            work.wait()
        for tag, buffer in buffers.items():
            same(buffer, torch.full((size,), left * 10.0 + tag))
    work = dist.irecv(torch.zeros(4), left, tag=9)  # open while others go on
    dist.all_reduce(torch.ones(4))
    assert not work.is_completed()
    dist.barrier()
    dist.send(torch.ones(4), right, tag=9)
    work.wait()
    assert work.is_completed()
    if rank == 0:
        seen = set()
        for _ in range(n - 1):
            buffer = torch.zeros(100000)
            source = dist.recv(buffer)
            same(buffer, torch.full((100000,), float(source)))
            seen.add(source)
        assert seen == set(range(1, n))
    else:
        dist.send(torch.full((100000,), float(rank)), 0)
    dist.barrier()  # any source takes what comes next, too
    operations = [dist.P2POp(dist.isend, torch.full((7,), float(rank)), right),
                  dist.P2POp(dist.irecv, torch.zeros(7), left)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    same(operations[1].tensor, torch.full((7,), float(left)))
    if n > 1 and rank == 0:
        dist.send_object_list([{"a": 1}, "b"], dst=1)
    elif rank == 1:
        objects = [None, None]
        dist.recv_object_list(objects, src=0)
        assert objects == [{"a": 1}, "b"]


def sends_beside_collectives(rank, n):
    """A send to a rank that is in a collective holds up neither the next send nor the collective."""
    group = dist.new_group([1, 2])
    if rank == 0:
        work = dist.isend(torch.full((5_000_000,), 3.0), 1)
        dist.send(torch.full((5,), 4.0), 2)
        work.wait()
        return
    if rank == 2:
        small = torch.zeros(5)
        dist.recv(small, 0)
        same(small, torch.full((5,), 4.0))
    have = torch.ones(3)
    dist.all_reduce(have, group=group)
    same(have, torch.full((3,), 2.0))
    if rank == 1:
        big = torch.zeros(5_000_000)
        dist.recv(big, 0)
        same(big, torch.full((5_000_000,), 3.0))


def transfers_in_callbacks(rank, n):
    """A callback of a future may wait for a further message: of one transfer, and of several joined."""
    peer = 1 - rank
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))

    def again(_):
        have = torch.zeros(4)
        dist.recv(have, peer, tag=7)
        return have

    for joined in (False, True):
        have = torch.zeros(3)
        if joined:
            backend._start_coalescing()
            receive = backend.recv([have], peer, 1)
            work = backend._end_coalescing()
        else:
            work = receive = backend.recv([have], peer, 1)
        chain = work.get_future().then(again)
        dist.barrier()  # the future is there on both ranks before its message
        dist.send(torch.full((3,), float(rank)), peer, tag=1)
        receive.wait()
        dist.send(torch.full((4,), 10.0 + rank), peer, tag=7)
        same(chain.wait(), torch.full((4,), 10.0 + peer))
        same(have, torch.full((3,), float(peer)))


def profiled(rank, n):
    """A profile may end as soon as what it saw is waited for."""
    peer = 1 - rank
    for _ in range(100):
        with torch.autograd.profiler.profile() as profile:
            for tag in range(3):
                receive = dist.irecv(torch.zeros(10), peer, tag=tag)
                dist.send(torch.ones(10), peer, tag=tag)
                receive.wait()
            dist.all_reduce(torch.ones(3), async_op=True).wait()
        counts = {}
        for event in profile.function_events:
            counts[event.name] = counts.get(event.name, 0) + 1
        assert [counts.get(f"tutti:{name}") for name in ("send", "recv", "all_reduce")] == [3, 3, 1], counts


def gathered_into_one(rank, n):
    for name in ("gather_single", "gather_into_tensor"):
        for root in range(n):
            for asynchronous in (False, True):
                output = torch.zeros(n, 2, 3) if rank == root else None
                work = getattr(dist, name)(torch.full((2, 3), float(rank)), output, dst=root, async_op=asynchronous)
                if asynchronous:
                    work.wait()
                if rank == root:
                    same(output, torch.arange(n).float().view(n, 1, 1).expand(n, 2, 3).contiguous())


def mixed_splits(rank, n):
    """Who gives no splits and who gives equal ones mean the same."""
    given, got = torch.arange(2.0 * n) + 100 * rank, torch.zeros(2 * n)
    splits = [2] * n if rank == 0 else None
    dist.all_to_all_single(got, given, splits, splits)
    same(got, torch.cat([torch.arange(2.0 * rank, 2 * rank + 2) + 100 * r for r in range(n)]))
    dist.all_to_all_single(given, given)  # in place
    same(given, torch.cat([torch.arange(2.0 * rank, 2 * rank + 2) + 100 * r for r in range(n)]))


def objects(rank, n):
    gathered = [None] * n
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank * 1000})
    assert [value["rank"] for value in gathered] == list(range(n))
    value = ["from 0", 17] if rank == 0 else [None, None]
    dist.broadcast_object_list(value, src=0)
    assert value == ["from 0", 17]
    out = [None]
    dist.scatter_object_list(out, [f"to {r}" for r in range(n)] if rank == 0 else None, src=0)
    assert out == [f"to {rank}"]


def futures(rank, n):
    tensor = torch.full((100,), rank + 1.0)
    work = dist.all_reduce(tensor, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    same(doubled.wait(), torch.full((100,), n * (n + 1.0)))
    work.wait(datetime.timedelta(seconds=60))  # of the host: tensors on a device may be waited for by streams only
    assert work.is_completed() and work.is_success()
    works = [dist.all_reduce(torch.ones(size), async_op=True) for size in (1, 100000, 10, 500000, 3)]
    for work in reversed(works):
        work.wait()
    same(works[3].result()[0], torch.full((500000,), float(n)))
    # a callback that makes calls and waits for them on the spot, as PowerSGD's hook does
    def again(future):
        return dist.all_reduce(future.value()[0], async_op=True).get_future().wait()[0]
    works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(4)]  # all before the callbacks' calls
    chains = [work.get_future().then(again).then(lambda future: future.value() * 2) for work in works]
    for chain in chains:
        same(chain.wait(), torch.full((1000,), 2.0 * n * n))
    # and one that makes the next call
    work = dist.all_reduce(torch.ones(1000), async_op=True)
    chained = work.get_future().then(lambda future: dist.all_reduce(future.value()[0], async_op=True).get_future())
    second = chained.wait()
    second = second.wait() if hasattr(second, "wait") else second
    same(second[0], torch.full((1000,), float(n * n)))


def groups(rank, n):
    evens, odds = dist.new_group(range(0, n, 2)), dist.new_group(range(1, n, 2))
    mine = evens if rank % 2 == 0 else odds
    members = list(range(rank % 2, n, 2))
    have = torch.full((10,), float(rank))
    dist.all_reduce(have, group=mine)
    same(have, torch.full((10,), float(sum(members))))
    dist.broadcast(have, members[-1], group=mine)
    backwards = dist.new_group(list(range(n))[::-1])
    dist.all_reduce(torch.ones(3), group=backwards)
    # threads, each with a group of its own; the ranks' threads come in any order
    many = [dist.new_group() for _ in range(4)]
    failures = []

    def work(group, k):
        try:
            time.sleep(0.002 * ((k * (rank + 1)) % 3))
            for size in (5, 5000, 100000):
                tensor = torch.full((size,), float(k + rank))
                dist.all_reduce(tensor, group=group)
                same(tensor, torch.full((size,), float(n * k + n * (n - 1) / 2)))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(group, k)) for k, group in enumerate(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    for group in many[1::2]:
        dist.destroy_process_group(group)  # nobody waits for the others here
    dist.all_reduce(torch.ones(3), group=many[0])
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.name() == "tutti"
    assert "shm" in backend.info("transport") or "inproc" in backend.info("transport"), backend.info("transport")


def mixed_backends(rank, n):
    group = dist.new_group(backend="cpu:tutti,cuda:gloo")
    have = torch.ones(3)
    dist.all_reduce(have, group=group)
    same(have, torch.full((3,), float(n)))


def sparse(rank, n):
    mine = torch.sparse_coo_tensor([[rank, n]], [[1.0, 2.0], [float(rank), 1.0]], (n + 1, 2))
    want = sum(torch.sparse_coo_tensor([[r, n]], [[1.0, 2.0], [float(r), 1.0]], (n + 1, 2)).to_dense() for r in range(n))
    dist.all_reduce(mine)
    same(mine.to_dense(), want)


def wrong_arguments(rank, n):
    """Found before anything is sent: the group goes on."""
    wrong = [lambda: dist.all_gather([torch.zeros(2)] * n, torch.zeros(3)),
             lambda: dist.all_gather_into_tensor(torch.zeros(3 * n + 1), torch.zeros(3)),
             lambda: dist.all_reduce(torch.ones(3, dtype=torch.bool), op=dist.ReduceOp.AVG),
             lambda: dist.all_reduce(torch.ones(3), op=dist.ReduceOp.BAND),
             lambda: dist.all_to_all_single(torch.zeros(4), torch.zeros(4), [4], [4])]
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    wide, narrow, all_narrow = torch.ones(3), torch.zeros(3, dtype=torch.half), torch.zeros(3 * n, dtype=torch.half)

    def root(kind):
        options = kind()
        options.rootRank = rank
        return options

    # Past the checks that torch makes in Python: the counts fit, the types do not, and the smaller one is written.
    wrong += [lambda: backend._allgather_base(all_narrow, wide).wait(),
              lambda: backend.allgather([[narrow] * n], [wide]).wait(),
              lambda: backend.gather([[narrow] * n], [wide], root(dist.GatherOptions)).wait(),
              lambda: backend.scatter([narrow], [[wide] * n], root(dist.ScatterOptions)).wait(),
              lambda: backend._reduce_scatter_base(narrow, torch.ones(3 * n)).wait(),
              lambda: backend.reduce_scatter([narrow], [[wide] * n]).wait(),
              lambda: backend.alltoall_base(torch.zeros(n, dtype=torch.half), torch.ones(n), [], []).wait(),
              lambda: backend.alltoall_base(torch.zeros(n, dtype=torch.half), torch.ones(n), [1] * n, [1] * n).wait(),
              lambda: backend.alltoall([narrow] * n, [wide] * n).wait(),
              lambda: backend.allgather_coalesced([[wide, narrow]] * n, [wide, wide]).wait(),
              lambda: dist.all_gather_into_tensor(all_narrow, wide),
              lambda: backend.allreduce([torch.ones(3, device="meta")]).wait(),
              lambda: backend.send([torch.ones(3, device="meta")], 0, 0).wait()]
    for i, call in enumerate(wrong):
        try:
            call()
        except (ValueError, RuntimeError) as error:
            assert not isinstance(error, dist.DistBackendError), error
            assert i < 5 or isinstance(error, ValueError), (i, error)
        else:
            raise AssertionError(f"no error from call {i}")
    mixed = [torch.zeros(3 * n), torch.zeros(2 * n, dtype=torch.half)]  # each pair is of one type: fine
    with dist._coalescing_manager():
        for output in mixed:
            dist.all_gather_into_tensor(output, torch.ones(output.numel() // n, dtype=output.dtype))
    for output in mixed:
        same(output, torch.ones_like(output))
    have = torch.ones(2)
    dist.all_reduce(have)
    same(have, torch.full((2,), float(n)))


def mismatch(rank, n):
    try:
        dist.all_reduce(torch.ones(3 + rank // (n - 1)))
    except dist.DistBackendError as error:
        text = str(error)
    assert "all_reduce of 3 float32" in text and "all_reduce of 4 float32" in text and f"rank {n - 1}" in text, text
    try:
        dist.all_reduce(torch.ones(1))
    except dist.DistBackendError as error:  # final, with the first cause
        assert "all_reduce of 3 float32" in str(error), error
    else:
        raise AssertionError("no error after a mismatch")


def timeout(rank, n):
    """Rank 0 does not come: the others' errors name it."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    if rank == 0:
        time.sleep(2.5)
        return None
    began = time.monotonic()
    try:
        dist.all_reduce(torch.ones(1), group=group)
    except dist.DistBackendError as error:
        assert "rank 0" in str(error), error
        return time.monotonic() - began
    raise AssertionError("no timeout")


def late_receive(rank, n):
    group = dist.new_group(timeout=datetime.timedelta(seconds=200))
    if rank == 0:
        work = dist.irecv(torch.zeros(3), 1, group=group)
        try:
            work.wait(datetime.timedelta(milliseconds=200))
        except dist.DistBackendError as error:
            assert "rank 1" in str(error), error
        else:
            raise AssertionError("no timeout")
    dist.barrier()  # nothing is sent before that
    if rank == 0:
        have = torch.zeros(3)
        dist.recv(have, 1, group=group)  # the group goes on
        same(have, torch.ones(3))
    elif rank == 1:
        dist.send(torch.ones(3), 0, group=group)
    dist.barrier()


def death(rank, n):
    dist.all_reduce(torch.ones(1))
    if rank == n - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        for _ in range(1000):
            dist.all_reduce(torch.ones(100000))
            time.sleep(0.001)
    except dist.DistBackendError as error:
        assert f"rank {n - 1}" in str(error), error
        return True
    raise AssertionError("the death went unnoticed")


def death_before_send(rank, n):
    """Who waits for a message of the dead rank is told."""
    dist.all_reduce(torch.ones(1))
    if rank == n - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        dist.recv(torch.zeros(3), n - 1)
    except dist.DistBackendError as error:
        assert f"rank {n - 1}" in str(error), error
        return True
    raise AssertionError("the death went unnoticed")


def leaver(rank, n):
    """A rank that leaves in order disturbs nobody who wants nothing of it."""
    right, left = (rank + 1) % n, (rank - 1) % n
    work = dist.isend(torch.full((3,), float(rank)), right)
    have = torch.zeros(3)
    dist.recv(have, left)
    work.wait()
    same(have, torch.full((3,), float(left)))
    if rank == n - 1:
        return
    time.sleep(0.5)
    for size in (3, 1000000):
        if rank == 0:
            dist.send(torch.ones(size), 1)
            dist.recv(torch.zeros(size))
        elif rank == 1:
            dist.recv(torch.zeros(size), 0)
            dist.send(torch.ones(size), 0)


def splits(rank, n):
    """Groups split off a group: members only, in the order of the list, again and again."""
    for _ in range(2):
        group = dist.split_group(split_ranks=[[2, 0], [1]])
        if rank == 3:
            assert group == dist.GroupMember.NON_GROUP_MEMBER
            continue
        assert dist.get_backend(group) == "tutti"
        assert [dist.get_rank(group), dist.get_world_size(group)] == {0: [1, 2], 1: [0, 1], 2: [0, 2]}[rank]
        have = torch.full((1000,), float(rank))
        dist.all_reduce(have, group=group)
        same(have, torch.full((1000,), 1.0 if rank == 1 else 2.0))
        if rank != 1:
            halves = dist.split_group(group, split_ranks=[[0], [1]])
            assert dist.get_world_size(halves) == 1
            dist.destroy_process_group(halves)
        dist.destroy_process_group(group)
    have = torch.ones(5)
    dist.all_reduce(have)
    same(have, torch.full((5,), float(n)))


def merged(rank, n, path):
    """Worlds of one rank each become one group."""
    store = dist.FileStore(path, n)
    dist.init_process_group("tutti", store=dist.PrefixStore(f"alone/{rank}", store), rank=0, world_size=1)
    group = dist.group.WORLD.merge_remote_group(dist.PrefixStore("merged", store), n, datetime.timedelta(seconds=60),
                                                "merged", "all of them")
    have = torch.full((5,), 1.0)
    group.allreduce([have]).wait()
    same(have, torch.full((5,), float(n)))


def left_alone(rank, n):
    """Who waits for a rank that has left is told so."""
    if rank == 0:
        return
    try:
        dist.all_reduce(torch.ones(3))
    except dist.DistBackendError as error:
        assert "rank 0 has left the communicator where rank 1 called all_reduce of 3 float32, sum" in str(error), error
    else:
        raise AssertionError("a sum without rank 0")


def aborted(rank, n):
    """A call that waits for ever is ended by an abort from another thread."""
    group = dist.new_group()
    dist.all_reduce(torch.ones(1), group=group)
    if rank == 0:
        backend = group._get_backend(torch.device("cpu"))
        threading.Timer(0.3, backend.abort if hasattr(backend, "abort") else backend._abort).start()
        try:
            dist.all_reduce(torch.ones(1), group=group)
        except dist.DistBackendError:
            pass
        else:
            raise AssertionError("no error")
        try:
            dist.all_reduce(torch.ones(1), group=group)
        except dist.DistBackendError:
            pass
        else:
            raise AssertionError("no error after the abort")
    dist.barrier()


def monitored(rank, n):
    dist.group.WORLD.monitored_barrier()
    if rank == 1:
        time.sleep(1)
        return
    try:
        dist.group.WORLD.monitored_barrier(datetime.timedelta(seconds=0.4), wait_all_ranks=True)
    except RuntimeError as error:
        assert "Ranks 1 failed to pass monitoredBarrier" in str(error), error
    else:
        raise AssertionError("no error")


def same_store(rank, n):
    """The default group is left and made again over one store: nothing of the former group is taken for the new one's."""
    import tempfile

    dist.destroy_process_group()
    path = os.path.join(tempfile.gettempdir(), f"tutti-same-store-{os.getppid()}")
    store = dist.FileStore(path, n)
    for _ in range(10):
        dist.init_process_group("tutti", store=store, rank=rank, world_size=n)
        dist.group.WORLD.monitored_barrier()
        dist.destroy_process_group()
    dist.init_process_group("tutti", store=store, rank=rank, world_size=n)
    if rank == 0:
        try:
            dist.group.WORLD.monitored_barrier(datetime.timedelta(seconds=0.4))
        except RuntimeError as error:
            assert "Rank 1 failed to pass monitoredBarrier" in str(error), error
        else:
            raise AssertionError("a monitored barrier that rank 1 has not come to")
    dist.barrier()


def options_of_one_group(rank, n):
    """Options are read when the group is made: groups that were given the same do not share them."""
    import tutti_torch

    second = datetime.timedelta(seconds=1)
    options = tutti_torch.Options(timeout=second, wire_dtype=torch.bfloat16)
    first = dist.new_group(pg_options=options)._get_backend(torch.device("cpu"))
    other = dist.new_group(pg_options=options, timeout=7 * second)._get_backend(torch.device("cpu"))
    if hasattr(first, "options"):  # torch 2.11 has none
        assert first.options._timeout == second, first.options._timeout
        assert other.options._timeout == 7 * second, other.options._timeout
        other.set_timeout(9 * second)
        assert (first.options._timeout, other.options._timeout) == (second, 9 * second)
        assert first.options.wire_dtype == torch.bfloat16
    assert options._timeout == second and options.label == "torch", options.label
    assert options.wire_dtype == torch.bfloat16
    if rank == 1:
        try:
            first.allreduce([torch.ones(1)]).wait()
        except dist.DistBackendError as error:
            assert "rank 0" in str(error), error
        else:
            raise AssertionError("no timeout")
    dist.barrier()


def dropped(rank, n):
    """Groups whose last reference goes, with works under way and nobody else to hold their tensors."""
    import tutti_torch

    for _ in range(20):
        backend = tutti_torch.ProcessGroupTutti(dist.HashStore(), 0, 1, tutti_torch.Options())
        for _ in range(50):
            backend.allreduce([torch.ones(10)])
        del backend
    store = dist.PrefixStore("dropped", dist.distributed_c10d._get_default_store())
    backend = tutti_torch.ProcessGroupTutti(store, rank, n, tutti_torch.Options())
    processes = [None] * n
    dist.all_gather_object(processes, os.getpid())
    if rank == 0:  # a send that is under way when the group goes arrives all the same
        os.kill(processes[1], signal.SIGSTOP)
        backend.send([torch.full((5_000_000,), 3.0)], 1, 0)
        time.sleep(0.5)
        del backend
        os.kill(processes[1], signal.SIGCONT)
    else:
        have = torch.zeros(5_000_000)
        backend.recv([have], 0, 0).wait()
        same(have, torch.full((5_000_000,), 3.0))
        del backend


def goodbyes(rank, n):
    """A group that was left says goodbye although the program still holds it."""
    import tempfile

    import tutti_torch

    path = os.path.join(tempfile.gettempdir(), f"tutti-goodbyes-{os.getppid()}")
    held = dist.group.WORLD._get_backend(torch.device("cpu"))
    dist.send(torch.ones(3), 1) if rank == 0 else dist.recv(torch.ones(3), 0)
    dist.destroy_process_group()
    said = tutti_torch.groups.wait_for_goodbyes(datetime.timedelta(seconds=20))
    if rank != 0:
        open(path, "w").close()
    else:
        while not os.path.exists(path):  # so long rank 0 does not end, which would end rank 1's wait too
            time.sleep(0.05)
        os.unlink(path)
    assert said and held.name() == "tutti"


def restart(rank, n):
    """The default group is left and made again, several times, in one process."""
    import tempfile

    folder = os.path.join(tempfile.gettempdir(), f"tutti-restart-{os.getppid()}")
    for attempt in range(3):
        dist.destroy_process_group()
        dist.init_process_group("tutti", init_method=f"file://{folder}-{attempt}", rank=rank, world_size=n)
        have = torch.ones(4)
        dist.all_reduce(have)
        same(have, torch.full((4,), float(n)))
        dist.barrier()
        if rank == 0 and os.path.exists(f"{folder}-{attempt}"):
            os.unlink(f"{folder}-{attempt}")


def wire(rank, n):
    import tutti_torch

    group = dist.new_group(backend="tutti", pg_options=tutti_torch.Options(wire_dtype=torch.bfloat16))
    have = torch.full((1000,), 1 + 2.0 ** -12)  # what bfloat16 rounds away
    dist.all_reduce(have, group=group)
    same(have, torch.full((1000,), float(n)))
    have = torch.full((1000,), 1 + 2.0 ** -12)
    dist.all_reduce(have)
    same(have, torch.full((1000,), n * (1 + 2.0 ** -12)))


def ddp_gradients(rank, n):
    """Bitwise equal on all ranks, and the mean of the ranks' own gradients."""
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(1)
    plain = torch.nn.Sequential(torch.nn.Linear(40, 300), torch.nn.Tanh(), torch.nn.Linear(300, 1))
    model = DistributedDataParallel(plain, bucket_cap_mb=0.01)
    torch.manual_seed(rank)
    inputs = torch.randn(16, 40)
    gathered = [torch.zeros_like(inputs) for _ in range(n)]
    dist.all_gather(gathered, inputs)
    model(inputs).square().mean().backward()
    for parameter in model.parameters():
        copies = [torch.zeros_like(parameter) for _ in range(n)]
        dist.all_gather(copies, parameter.grad)
        for copy in copies:
            same(copy, parameter.grad)
    grads = [parameter.grad.clone() for parameter in plain.parameters()]
    plain.zero_grad()
    plain(torch.cat(gathered)).square().mean().backward()
    for grad, parameter in zip(grads, plain.parameters()):
        torch.testing.assert_close(grad, parameter.grad)


def hooks(rank, n):
    """Gradients through torch's communication hooks, and uneven inputs."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    from torch.nn.parallel import DistributedDataParallel

    for hook, state, exact in ((default_hooks.fp16_compress_hook, None, 1e-2), (default_hooks.bf16_compress_hook, None, 5e-2),
                               (default_hooks.allreduce_hook, None, 1e-6),
                               (powerSGD_hook.powerSGD_hook, powerSGD_hook.PowerSGDState(None, 1, 2), None)):
        torch.manual_seed(0)
        model = DistributedDataParallel(torch.nn.Linear(100, 80), bucket_cap_mb=0.01)
        model.register_comm_hook(state, hook)
        for step in range(4):
            model.zero_grad()
            model(torch.full((3, 100), float(rank + step))).sum().backward()
        have = model.module.weight.grad
        copies = [torch.zeros_like(have) for _ in range(n)]
        dist.all_gather(copies, have)
        same(copies[0], copies[-1])
        if exact:
            torch.testing.assert_close(have, torch.full_like(have, 3 * (3 + (n - 1) / 2)), rtol=exact, atol=0)
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    with model.join():
        for _ in range(3 + rank):
            model(torch.randn(2, 4)).sum().backward()


class Backend(unittest.TestCase):
    @unittest.skipUnless(hasattr(dist.distributed_c10d, "_register_builtin_gloo_backend"), "this torch merges no groups")
    def test_merged(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(merged, 3, os.path.join(folder, "store"), backend=None)


def add(function, sizes, **options):
    for n in sizes:
        def test(self, n=n):
            ranks.run(function, n, **options)
        setattr(Backend, f"test_{function.__name__}_{n}_ranks", test)


for function in (all_reduce, special_types, moves, uneven, reductions_to_one, transfers, groups):
    add(function, (2, 3))
for function in (not_contiguous, coalesced, objects, futures, mixed_backends, sparse, wrong_arguments, timeout,
                 late_receive, aborted, monitored, restart, same_store, options_of_one_group, dropped, goodbyes, wire,
                 transfers_in_callbacks, profiled, left_alone):
    add(function, (2,))
for function in (mismatch, ddp_gradients, hooks, splits):
    add(function, (4,))
for function in (death, death_before_send):
    add(function, (3,), expect_dead=(2,))
for function in (leaver, sends_beside_collectives, gathered_into_one, mixed_splits):
    add(function, (3,))
for name, function, lacks in (("test_gathered_into_one_3_ranks", "gather_single", not hasattr(dist, "gather_single")),
                              ("test_splits_4_ranks", "groups that CPU backends split",
                               not hasattr(dist.distributed_c10d, "_register_builtin_gloo_backend"))):
    if lacks:
        setattr(Backend, name, unittest.skip(f"this torch has no {function}")(getattr(Backend, name)))
add(moves, (1,))

if __name__ == "__main__":
    unittest.main()
