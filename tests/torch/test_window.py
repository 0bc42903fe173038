"""One-sided windows of torch 2.15: puts, signals, bounds, the order of both, ends."""
import datetime
import os
import re
import signal
import sys
import tempfile
import time
import unittest

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks  # noqa: E402
from ranks import expect_error  # noqa: E402

try:
    from torch._C._distributed_c10d import WaitSignalOptions, WindowAccessType
    from torch.distributed.distributed_c10d import _new_window, _supports_window
except ImportError:
    print("this torch has no windows: torch 2.15 does")
    sys.exit(77)


def exchange(rank, n):
    """Each rank puts into all windows, its own too: short, long, strided, nothing. After a signal all of it is there."""
    assert _supports_window()
    for dtype, share in ((torch.float32, 3), (torch.float64, 100_000), (torch.uint8, 1), (torch.bfloat16, 77)):
        memory = torch.full((n * share + 1,), 99).to(dtype)
        window = _new_window(memory)
        for turn in range(3):
            mine = (torch.arange(2 * share)[::2] % 50 + rank + turn).to(dtype)
            works = [window.put(mine, to, rank * share, async_op=True) for to in range(n)]
            window.put(mine[:0], (rank + 1) % n, n * share + 1, async_op=False)
            works += [window.signal(to, async_op=True) for to in range(n)]
            for source in range(n):
                window.wait_signal(source, async_op=source % 2 == 0).wait()
                want = (torch.arange(0, 2 * share, 2) % 50 + source + turn).to(dtype)
                assert torch.equal(memory[source * share:(source + 1) * share], want), (dtype, turn, source)
            for work in works:
                work.wait()
            assert memory[-1] == torch.tensor(99).to(dtype)
            dist.barrier()  # the next turn puts into the same places
        assert window.map_remote_tensor(rank).data_ptr() == memory.data_ptr()
        window.tensor_deregister()


def exchange_over_tcp(rank, n, path):
    os.environ["TUTTI_TRANSPORT"] = "tcp"
    dist.init_process_group("tutti", init_method=f"file://{path}", rank=rank, world_size=n)
    assert dist.group.WORLD._get_backend(torch.device("cpu")).info("transport") == "tcp"
    exchange(rank, n)
    dist.destroy_process_group()


def passive(rank, n):
    """The target does nothing meanwhile: it waits in a collective, or computes."""
    memory = torch.zeros(4, dtype=torch.int64)
    window = _new_window()
    window.tensor_register(memory, owning=False)
    if rank == 0:
        for value in range(1, 101):
            window.put(torch.tensor([value]), 1, value % 4, async_op=False)
        window.signal(1, async_op=False)
    if rank == 1:
        while memory.sum() != 97 + 98 + 99 + 100:  # it sees them come without any call
            pass
        window.wait_signal(0, async_op=False)
    dist.all_reduce(torch.ones(3))
    window.tensor_deregister()
    other = torch.zeros(2)
    window.tensor_register(other)  # again, with another one
    window.put(torch.ones(2), (rank + 1) % n, 0, async_op=False)
    window.tensor_deregister()  # waits for what others have put
    assert other.tolist() == [1.0, 1.0]


def sizes_differ(rank, n):
    """Of different sizes and dtypes by rank; several windows at once, each with its own signals."""
    memory = torch.zeros(rank + 1, dtype=torch.float32 if rank else torch.int32)
    first, second = _new_window(memory), _new_window(torch.zeros(5))
    last = n - 1
    if rank == 0:
        first.put(torch.full((n,), 7.0), last, 0, async_op=False)
        second.signal(last, async_op=False)
        first.signal(last, async_op=False)
    if rank == last:
        expect_error(Exception, lambda: second.wait_signal(1, async_op=False, opts=timeout(0.2)), "rank 1")
        first.wait_signal(0, async_op=False)
        assert memory.tolist() == [7.0] * n
        second.wait_signal(0, async_op=False)
    dist.barrier()
    expect_error(ValueError, lambda: first.put(torch.ones(1), 0, 0, async_op=False), "Float", "Int")
    expect_error(ValueError, lambda: first.put(torch.ones(2), 1, 1, async_op=False), "2 elements at element 1", "has 2")
    expect_error(ValueError, lambda: first.put(torch.ones(1), 1, -1, async_op=False), "-1")
    expect_error(ValueError, lambda: first.put(torch.ones(1), n, 0, async_op=False), f"rank {n}")
    expect_error(ValueError, lambda: first.tensor_register(memory), "a tensor already")
    free = _new_window()
    expect_error(ValueError, lambda: (first if rank == 0 else free).tensor_register(memory), "one order")
    one, other = _new_window(), _new_window()
    expect_error(ValueError, lambda: (one if rank else other).tensor_register(memory), "one order")
    expect_error(ValueError, lambda: _new_window().signal(0, async_op=False), "no registered tensor")
    expect_error(ValueError, lambda: _new_window().tensor_register(torch.zeros(4, 4).t()), "contiguous")
    expect_error(NotImplementedError, lambda: first.map_remote_tensor((rank + 1) % n), "not mapped")
    assert first.get_attr(0).access_type == WindowAccessType.UNIFIED
    for window in (second, first):
        window.tensor_deregister()


def leftovers(rank, n):
    """Signals that nobody waited for, waits that nobody answered, windows that are dropped, tensors that move."""
    following, before = (rank + 1) % n, (rank - 1) % n
    window = _new_window(torch.zeros(2))
    window.signal(following, async_op=False)
    open_wait = window.wait_signal(following, async_op=True)
    dist.barrier()
    window.tensor_deregister()
    expect_error(RuntimeError, open_wait.wait, "wait_signal", "deregistered")
    memory = torch.zeros(1000)
    kept = memory.data
    window.tensor_register(memory)
    memory.data = torch.ones(3)  # the window keeps what was registered
    expect_error(Exception, lambda: window.wait_signal(before, async_op=False, opts=timeout(0.2)), "wait_signal", "timed out")
    dist.barrier()
    window.put(torch.full((1000,), 5.0), following, 0, async_op=False)
    window.signal(following, async_op=False)
    window.wait_signal(before, async_op=False)
    assert (kept == 5).all() and memory.tolist() == [1.0] * 3
    assert window.map_remote_tensor(rank).data_ptr() == kept.data_ptr()
    wrong = torch.zeros(4, 4).t() if rank == 1 else torch.zeros(4, 4)
    expect_error(ValueError, lambda: _new_window(wrong), "rank 1", "contiguous")
    dropped = _new_window(torch.zeros(100_000))
    works = [dropped.put(torch.ones(100_000), to, 0, async_op=True) for to in range(n)]
    del dropped
    for work in works:
        work.wait()
    dist.barrier()
    last = _new_window(torch.zeros(100_000))
    for to in range(n):
        last.put(torch.ones(100_000), to, 0, async_op=True)
    dist.destroy_process_group()  # with puts under way
    expect_error(RuntimeError, lambda: last.put(torch.ones(1), 0, 0, async_op=False), "shut down")


def timeout(seconds):
    options = WaitSignalOptions()
    options.timeout = datetime.timedelta(seconds=seconds)
    return options


def death_in_a_put(rank, n):
    """The others are told of the dead rank by its number in the group."""
    memory = torch.zeros(20_000_000)
    window = _new_window(memory)
    if rank == 1:
        for to in (0, 2):
            window.put(torch.ones(20_000_000), to, 0, async_op=True)
        time.sleep(0.002)
        os.kill(os.getpid(), 9)

    def wait():
        window.wait_signal(1, async_op=False)
    try:
        wait()
    except RuntimeError as error:
        told = re.findall(r"ranks? (\d+)", str(error))
        assert "1" in told and all(int(number) < n for number in told), error
    else:
        raise AssertionError("no error")


def stop_in_a_message(rank, n):
    """Who stops in the middle of a message is named to those who wait behind it, and ends the group at its timeout."""
    dist.group.WORLD._get_backend(torch.device("cpu")).set_timeout(datetime.timedelta(seconds=3))
    window = _new_window(torch.zeros(40_000_000))
    dist.barrier()
    if rank == 1:
        big = torch.ones(40_000_000)
        window.put(big, 0, 0, async_op=False)
        if os.fork() == 0:  # another process goes on with it, when the others are through
            time.sleep(0.03)
            os.kill(os.getppid(), signal.SIGSTOP)
            time.sleep(8)
            os.kill(os.getppid(), signal.SIGCONT)
            os._exit(0)
        try:
            while True:
                window.put(big, 0, 0, async_op=False)
        except RuntimeError:
            return
    if rank == 0:
        expect_error(RuntimeError, lambda: window.wait_signal(2, async_op=False, opts=timeout(1.5)), "rank 1 has sent a part")
        began = time.monotonic()
        expect_error(RuntimeError, lambda: window.wait_signal(2, async_op=False), "rank 1")
        assert time.monotonic() - began < 6


def death(rank, n):
    """Who waits for a dead rank's signal gets an error that names it."""
    window = _new_window(torch.zeros(4))
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), 9)
    expect_error(RuntimeError, lambda: window.wait_signal(1, async_op=False), "rank 1")
    expect_error(RuntimeError, lambda: [window.put(torch.ones(4), 1, 0, async_op=False) for _ in range(1000)])


class Windows(unittest.TestCase):
    def test_exchange(self):
        ranks.run(exchange, 3)

    def test_alone(self):
        ranks.run(exchange, 1)

    def test_over_tcp(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks.run(exchange_over_tcp, 4, os.path.join(folder, "store"), backend=None)

    def test_passive(self):
        ranks.run(passive, 2)

    def test_sizes_differ(self):
        ranks.run(sizes_differ, 3)

    def test_leftovers(self):
        ranks.run(leftovers, 3)

    def test_death_in_a_put(self):
        ranks.run(death_in_a_put, 3, expect_dead=(1,))

    def test_stop_in_a_message(self):
        ranks.run(stop_in_a_message, 3)

    def test_death(self):
        ranks.run(death, 3, expect_dead=(1,))


if __name__ == "__main__":
    unittest.main()
