"""Tensors on devices: the backend's tests once more with these, and what only devices have, streams above all. They run on
the stand-in for a GPU, or on GPUs; see devices.py."""
import datetime
import os
import signal
import sys
import tempfile
import time
import unittest

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import devices  # noqa: E402
import ranks  # noqa: E402
import test_backend  # noqa: E402

LONG = 0.4  # seconds that a stream is held up
SOON = 0.2  # what returns at once does so in less


class Stopwatch:
    def __init__(self):
        self.start = time.monotonic()

    def at_once(self):
        assert time.monotonic() - self.start < SOON, "it has waited"

    def after(self, seconds):
        assert time.monotonic() - self.start > seconds * 0.9, "it has not waited"


def here():
    return torch.get_default_device()


def backend():
    return dist.group.WORLD._get_backend(here())


def ready():
    """The communicator for the device is there on all ranks."""
    have = torch.ones(1)
    dist.all_reduce(have)
    dist.barrier()
    return have


def is_all(tensor, value):
    have = tensor.cpu()
    assert have.eq(value).all(), f"{have.flatten()[:5]} is not {value}"


def error_of(work):
    """The error of a work that is completed, or None. Not by exception(), which Python gets from none of torch 2.11's works."""
    if work.is_success():
        return None
    try:
        work.wait()
    except dist.DistBackendError as error:
        return error
    raise AssertionError("its wait() raises nothing")


def by_kernels(rank, n):
    """The library's kernels get the tensors themselves, where there is nothing to count its way is told."""
    ready()
    before = devices.launches()
    have = torch.full((5000,), rank + 1.0)
    dist.all_reduce(have)
    is_all(have, n * (n + 1) / 2)
    if before is not None:
        assert backend().info("device_transport") == "cuda", backend().info("device_transport")
        assert devices.launches() > before


def put_there(rank, n):
    """A call comes after what is on the current stream, and what comes later after it. The host waits for neither."""
    ready()
    have = torch.zeros(100_000)
    for _ in range(2):
        watch = Stopwatch()
        devices.fill_later(have, rank + 1.0, LONG)
        dist.all_reduce(have)
        have += 1
        if devices.kind == "cuda":  # of the stand-in's operations only copies are put on streams
            watch.at_once()
        is_all(have, n * (n + 1) / 2 + 1)
    watch = Stopwatch()
    devices.fill_later(have, rank + 1.0, LONG)
    dist.all_reduce(have)
    copy = torch.empty_like(have).copy_(have)
    watch.at_once()
    is_all(copy, n * (n + 1) / 2)


def beside_the_stream(rank, n):
    """An asynchronous call holds up the stream that waits for it, from there on, and no host."""
    ready()
    have, other = torch.full((1000,), float(rank)), torch.zeros(5)
    if rank == n - 1:
        time.sleep(3 * LONG)  # the others' calls last so long
    watch = Stopwatch()
    work = dist.all_reduce(have, async_op=True)
    devices.fill_later(other, 7.0, 0)
    devices.synchronize(here())
    if rank != n - 1:
        assert not work.is_completed() and not work.is_success()
    work.wait()
    copy = torch.empty_like(have).copy_(have)
    watch.at_once()
    is_all(copy, n * (n - 1) / 2)
    devices.wait_until(work.is_completed)
    assert work.is_success() and error_of(work) is None
    is_all(work.result()[0], n * (n - 1) / 2)


def kept(rank, n):
    """Whoever lets go of tensors, or of the work too, does not take them from a call under way."""
    ready()
    for keeps_work in (True, False):
        output, given = torch.empty(n * 50_000), torch.empty(50_000)
        devices.fill_later(given, rank + 1.0, SOON / 2)
        if rank == n - 1:
            time.sleep(LONG)
        work = dist.all_gather_into_tensor(output, given, async_op=True)
        del given
        if not keeps_work:
            del work
            devices.synchronize(here())
            dist.barrier()  # the streams beside the current one, too
        else:
            devices.synchronize(here())
            work.wait()
        for r in range(n):
            is_all(output[r * 50_000:(r + 1) * 50_000], r + 1.0)


def copied_out(rank, n):
    """A work is completed when its results are in the tensors: in lists and strided ones, they are copied there."""
    ready()
    elements = 1 << 22
    for ask in (lambda work: devices.wait_until(work.is_completed, pause=0),
                lambda work: work.wait(timeout=datetime.timedelta(seconds=60))):
        given = torch.full((elements,), rank + 1.0)
        results = torch.zeros(elements, n)
        devices.synchronize(here())
        work = dist.all_gather([results[:, r] for r in range(n)], given, async_op=True)
        with devices.other_stream(here()):  # a wait orders that one alone behind the work
            ask(work)
        # This stream waits for nothing, so what is in memory now is looked at.
        is_all(results[:, n - 1], n)
        is_all(results[:, 0], 1)
        work.wait()


def on_another_stream(rank, n):
    """Works are for any stream: for the one of the call, and for one that waits for the work."""
    ready()
    with devices.other_stream(here()):
        have = torch.empty(3000)
        devices.fill_later(have, rank + 1.0, SOON)
        work = dist.all_reduce(have, async_op=True)
    work.wait()
    is_all(torch.empty_like(have).copy_(have), n * (n + 1) / 2)
    with devices.other_stream(here()):
        devices.fill_later(have, rank + 1.0, SOON)
        dist.all_reduce(have)
        is_all(torch.empty_like(have).copy_(have), n * (n + 1) / 2)


def waits_on_the_host(rank, n):
    """A wait with a limit is one of the host; it passes, and the group goes on."""
    ready()
    have = torch.ones(10)
    if rank == n - 1:
        time.sleep(2 * LONG)
    work = dist.all_reduce(have, async_op=True)
    if rank != n - 1:
        ranks.expect_error(dist.DistBackendError, lambda: work.wait(timeout=datetime.timedelta(seconds=SOON)),
                           "is not done after 200 ms")
    assert work.wait(timeout=datetime.timedelta(seconds=60))
    assert work.is_completed()
    is_all(have, n)


def barriers(rank, n):
    """The host waits for the streams, then for the ranks."""
    ready()
    have, result = torch.zeros(10), torch.ones(10)
    watch = Stopwatch()
    dist.all_reduce(result, async_op=True)
    devices.fill_later(have, 3.0, LONG)
    if devices.kind == "cuda":
        dist.barrier(device_ids=[here().index])
    else:
        dist.barrier()
    watch.after(LONG)
    is_all(have, 3)
    is_all(result, n)
    dist.barrier(async_op=True).wait()


def mixed_lists(rank, n):
    mixed = [torch.zeros(3), torch.zeros(3, device="cpu")]
    for call in (lambda: dist.all_gather(mixed, torch.zeros(3)),
                 lambda: dist.reduce_scatter(torch.zeros(3), mixed),
                 lambda: backend().allreduce_coalesced(mixed)):
        ranks.expect_error(ValueError, call, "in one call", "cpu", here().type)
    ranks.expect_error(ValueError, lambda: backend().allreduce([torch.zeros(3, device="meta")]), "meta")
    is_all(ready(), n)


def several_devices(rank, n):
    """Each has a communicator, made by the first call on it."""
    for index in (0, 1, 0):
        device = torch.device(here().type, index)
        have = torch.full((4000,), rank + 1.0, device=device)
        dist.all_reduce(have)
        is_all(have, n * (n + 1) / 2)
        on_host = torch.full((5,), rank + 1.0, device="cpu")
        dist.all_reduce(on_host)
        is_all(on_host, n * (n + 1) / 2)


def beside_host_calls(rank, n):
    """Calls of one group on host and device come in one order."""
    ready()
    hosts = [torch.full((200_000,), float(k), device="cpu") for k in range(4)]
    ours = [torch.full((200_000,), float(k)) for k in range(4)]
    works = []
    for on_host, on_device in zip(hosts, ours):
        works += [dist.all_reduce(on_host, async_op=True), dist.all_reduce(on_device, async_op=True)]
    for work in reversed(works):
        work.wait()
    for k in range(4):
        is_all(hosts[k], n * k)
        is_all(ours[k], n * k)


def in_a_graph(rank, n):
    have, gathered = torch.full((3000,), rank + 1.0), torch.zeros(n * 3000)
    dist.all_reduce(torch.ones(3000))  # what calls need is there before
    if backend().info("device_transport") != "cuda":
        return "no kernels connect the ranks, and a graph cannot go through host memory"
    dist.all_gather_into_tensor(gathered, have)
    devices.synchronize(here())
    dist.barrier()

    def calls():
        work = dist.all_reduce(have, async_op=True)
        devices.wait_until(work.is_completed)  # it is in the graph; a question to the stream would spoil the capture
        work.wait(timeout=datetime.timedelta(seconds=60))
        dist.all_gather_into_tensor(gathered, have)

    with devices.other_stream(here()):
        replay = devices.captured(here(), calls)
        is_all_still = have.cpu()
        assert is_all_still.eq(rank + 1.0).all()  # nothing has run
        want = n * (n + 1) / 2
        for _ in range(3):
            replay()
            devices.synchronize(here())
            is_all(have, want)
            is_all(gathered, want)
            want *= n
    dist.barrier()


def futures(rank, n):
    """They are there at once, and their callbacks run on streams that come after the call."""
    ready()
    have = torch.zeros(1000)
    devices.fill_later(have, rank + 1.0, LONG)
    watch = Stopwatch()
    work = dist.all_reduce(have, async_op=True)
    copied = work.get_future().then(lambda future: torch.empty_like(have).copy_(future.value()[0]))
    copy = copied.wait()
    watch.at_once()
    is_all(copy, n * (n + 1) / 2)


def dead_peer(rank, n):
    """A call fails on its stream: the work tells it later, the next call at once, with the sentence."""
    ready()
    if rank == n - 1:
        dist.barrier()
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
    time.sleep(0.1)
    have = torch.ones(5)
    work = None
    try:
        work = dist.all_reduce(have, async_op=True)
        work.wait()
        devices.synchronize(here())  # it goes on
        devices.wait_until(work.is_completed)
        assert not work.is_success()
    except dist.DistBackendError as error:  # the death was known when the call was made, or when it was waited for
        assert f"rank {n - 1}" in str(error), error
    if work is not None and error_of(work) is not None:
        assert f"rank {n - 1}" in str(error_of(work)), error_of(work)
        ranks.expect_error(dist.DistBackendError, work.wait, f"rank {n - 1}")
    ranks.expect_error(dist.DistBackendError, lambda: dist.all_reduce(have), f"rank {n - 1}")


def silent_peer(rank, n):
    """A rank that does not come is named when the call's time is up; streams go on."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=2))
    dist.all_reduce(torch.ones(1), group=group)
    dist.barrier()
    if rank != n - 1:
        have = torch.ones(5)
        work = dist.all_reduce(have, group=group, async_op=True)
        work.wait()
        devices.synchronize(here())
        devices.wait_until(work.is_completed)
        assert f"rank {n - 1}" in str(error_of(work)), error_of(work)
        own = group._get_backend(here())
        if hasattr(own, "get_error"):  # torch 2.11 does not show it to Python
            assert own.get_error().name in ("TIMEOUT", "COMM_ERROR", "REMOTE_ERROR")
    dist.barrier()


def dropped_groups(rank, n):
    """A group that goes leaves nothing behind that holds up another one."""
    for _ in range(3):
        group = dist.new_group()
        have = torch.full((1000,), rank + 1.0)
        dist.all_reduce(have, group=group)
        work = dist.all_reduce(have, group=group, async_op=True)
        dist.destroy_process_group(group)
        work.wait()
        is_all(have, n * n * (n + 1) / 2)
    is_all(ready(), n)


def at_the_start(rank, n, path):
    """A group that is told its device has the communicator for it when it is made."""
    dist.init_process_group(devices.BACKEND, init_method=f"file://{path}", rank=rank, world_size=n, device_id=here())
    transport = backend().info("device_transport")
    assert devices.kind == "cuda" or transport == "cuda", transport
    is_all(ready(), n)
    dist.destroy_process_group()


def wire(rank, n):
    have = torch.full((100_000,), 1.0 + 2.0 ** -12)  # which bfloat16 rounds to 1
    backend().allreduce_wire(have, dist.ReduceOp(dist.ReduceOp.SUM), torch.bfloat16)
    is_all(have, n)


def by_the_bridge(rank, n):
    """Through host memory, because a setting says so."""
    before = devices.launches()
    have = torch.zeros(1000)
    devices.fill_later(have, rank + 1.0, SOON)
    dist.all_reduce(have)
    is_all(have, n * (n + 1) / 2)
    test_backend.not_contiguous(rank, n)
    test_backend.uneven(rank, n)
    if before is not None:
        assert devices.launches() == before


def through_host_memory(rank, n):
    """Ranks that kernels do not connect: the library's own copies, in the order of the streams."""
    ready()
    if devices.kind == "standin":
        assert backend().info("device_transport").startswith("staged"), backend().info("device_transport")
    put_there(rank, n)
    beside_the_stream(rank, n)
    test_backend.uneven(rank, n)


def of_one_queue(rank, n):
    """The library puts no such calls on streams that share one hardware queue. They are carried out at once."""
    test_backend.uneven(rank, n)
    have = torch.zeros(1000)
    devices.fill_later(have, rank + 1.0, SOON)
    work = dist.all_reduce(have, async_op=True)
    work.wait()
    is_all(have, n * (n + 1) / 2)


@unittest.skipUnless(devices.kind, devices.WHY_NONE)
class Device(unittest.TestCase):
    def test_at_the_start(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(at_the_start, 2, os.path.join(folder, "store"), backend=None, device={})


def add(function, sizes=(2,), name=None, skip=None, **options):
    for n in sizes:
        def test(self, n=n):
            options.setdefault("device", {})
            for reason in ranks.run(function, n, **options):
                if isinstance(reason, str):
                    self.skipTest(reason)
        setattr(Device, f"test_{name or function.__name__}_{n}_ranks", unittest.skip(skip)(test) if skip else test)


STAND_IN_ONLY = None if devices.kind == "standin" else "the stand-in alone can be made so"
ONE_DEVICE = None if devices.kind == "standin" or torch.cuda.device_count() > 1 else "one GPU alone"
for function in (by_kernels, put_there, beside_the_stream, kept, copied_out):
    add(function, (2, 3))
for function in (on_another_stream, waits_on_the_host, barriers, mixed_lists, beside_host_calls, in_a_graph, futures,
                 silent_peer, dropped_groups, wire):
    add(function)
add(several_devices, skip=ONE_DEVICE, device={"devices": 2})
add(dead_peer, (3,), expect_dead=(2,))
add(by_the_bridge, environment={"TUTTI_TORCH_CUDA": "bridge"})
add(through_host_memory, device={"same": True})
add(of_one_queue, device={"same": True, "connections": 1}, skip=STAND_IN_ONLY)
for function in (test_backend.all_reduce, test_backend.special_types, test_backend.moves, test_backend.uneven,
                 test_backend.reductions_to_one, test_backend.not_contiguous, test_backend.coalesced,
                 test_backend.transfers, test_backend.mixed_splits, test_backend.objects, test_backend.futures, test_backend.ddp_gradients):
    add(function, name=f"backend_{function.__name__}")
add(test_backend.gathered_into_one, name="backend_gathered_into_one",
    skip=None if hasattr(dist, "gather_single") else "this torch has no gather_single")

if __name__ == "__main__":
    if devices.kind is None:
        print(f"skipped: {devices.WHY_NONE}")
        sys.exit(77)
    unittest.main()
