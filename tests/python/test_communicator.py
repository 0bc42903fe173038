"""Joining, streams, groups whose members change, errors and ends of tutti_comm."""
import gc
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import weakref

import numpy
import ranks
import tutti_comm
from ranks import raises
from tutti_comm import errors

HERE = pathlib.Path(__file__).resolve().parent


def futures(comm):
    """Calls on a stream return at once, keep their arrays, and are done in their order."""
    stream = tutti_comm.Stream()
    pending = [comm.all_reduce(numpy.full(100000, float(i)), numpy.empty(100000), stream=stream) for i in range(20)]
    gc.collect()
    assert all((future.result(timeout=20) == i * comm.size).all() for i, future in enumerate(pending))
    assert all(future.done() and future.exception() is None for future in pending)
    assert comm.barrier(stream=stream).result() is None
    stream.synchronize()
    assert stream.done()
    with tutti_comm.group():
        together = [comm.all_reduce(numpy.ones(3), stream=stream) for _ in range(3)]
    assert all((future.result(20) == comm.size).all() for future in together)


def waits(comm):
    """A future that is not done, and one whose call fails."""
    order, alone = comm.split(0), comm.split(comm.rank)
    stream = tutti_comm.Stream()
    if comm.rank != 0:
        order.barrier()
        comm.barrier()
        order.barrier()
        comm.abort()
        return
    future = comm.barrier(stream=stream)
    with raises(TimeoutError, "not done yet") as seen:
        future.result(timeout=0.1)
    assert not isinstance(seen.error, errors.Error) and not future.done() and not stream.done()
    with raises(errors.InvalidArgument, "not a number"):
        future.result(timeout=float("nan"))
    order.barrier()
    assert future.result(timeout=float("inf")) is None
    failing = comm.barrier(stream=stream)
    order.barrier()
    assert isinstance(failing.exception(), errors.RemoteError), failing.exception()
    healthy = alone.barrier(stream=stream).exception()
    assert isinstance(healthy, errors.RemoteError) and "an earlier call on the stream failed: rank 1" in str(healthy)
    with raises(errors.RemoteError, "rank 1 aborted"):
        comm.barrier()
    comm.abort()


def lets_go(comm):
    """A stream does not keep the arrays of what is done, and a call on a stream that nobody holds does not block."""
    stream = tutti_comm.Stream()
    data = bytearray(8)
    comm.all_reduce(data, stream=stream).result()
    data.append(1)  # refused as long as its memory is lent
    order = comm.split(0)
    future = comm.barrier(stream=tutti_comm.Stream()) if comm.rank == 0 else None
    order.barrier()
    future = future or comm.barrier(stream=stream)
    future.result()

    class Cyclic(numpy.ndarray):
        pass
    values = numpy.ones(4).view(Cyclic)
    values.future = comm.all_reduce(values, stream=stream)
    values.future.result()
    gone = weakref.ref(values)
    del values
    gc.collect()
    assert gone() is None


def groups(comm):
    """What must not be made in a group, and a block that an exception leaves."""
    with tutti_comm.group():
        with raises(errors.InvalidUsage, "cannot be made in a group"):
            comm.split(0)
        with raises(errors.InvalidUsage, "recv_any blocks"):
            comm.recv_any(numpy.empty(1))
    untouched = numpy.full(3, 7.0)
    with raises(KeyError, "mine"), tutti_comm.group():
        comm.all_reduce(untouched)
        later = comm.all_reduce(untouched, stream=tutti_comm.Stream())
        raise KeyError("mine")
    assert (untouched == 7).all() and "left by an exception" in str(later.exception())
    with raises(errors.InvalidArgument, "left by an exception"), tutti_comm.group():
        comm.all_reduce(untouched)
        with raises(KeyError, "inner"), tutti_comm.group():
            raise KeyError("inner")
    assert (untouched == 7).all()
    with raises(errors.InvalidUsage, "no group of this thread"):
        tutti_comm.group().__exit__(None, None, None)
    with tutti_comm.group(), tutti_comm.group():
        nested = comm.all_reduce(numpy.ones(3))
    assert (nested == comm.size).all()


def divided(comm):
    part = comm.split(comm.rank % 2, key=-comm.rank)
    assert part.size == (comm.size + 1 - comm.rank % 2) // 2
    members = numpy.empty(part.size, dtype=int)
    part.all_gather(numpy.array([comm.rank]), members)
    assert members.tolist() == sorted(members, reverse=True)
    part.close()
    assert part.closed
    assert comm.split(None if comm.rank else 0) is None or comm.rank == 0
    named = comm.split(0, config=tutti_comm.Config(name="named", deterministic=True))
    assert named.info("transport") and named.info("algorithm:all_reduce:1024")
    named.close()


def shrinks(comm):
    if comm.rank == 1:
        with raises(errors.RemoteError, "left out by a shrink"):
            comm.shrink()
        comm.abort()
        return
    smaller = comm.shrink([1])
    assert smaller.size == comm.size - 1
    assert smaller.info("members").split() == [str(r) for r in range(comm.size) if r != 1]
    assert (smaller.all_reduce(numpy.ones(2)) == smaller.size).all()
    smaller.close()
    comm.abort()


def grows(comm):
    """Rank 0 starts a newcomer."""
    newcomer = None
    identity = comm.unique_id() if comm.rank == 0 else None
    if comm.rank == 0:
        newcomer = subprocess.Popen([sys.executable, HERE / "newcomer.py", identity.hex(), str(comm.size)])
    grown = comm.grow(comm.size + 1, identity)
    assert (grown.rank, grown.size) == (comm.rank, comm.size + 1)
    assert (grown.all_reduce(numpy.ones(2)) == grown.size).all()
    grown.close()
    assert newcomer is None or newcomer.wait(20) == 0


def revoked(comm):
    order = comm.split(0)

    def revoke():
        comm.revoke()
        order.barrier()
    if comm.rank == 0:
        ranks.later(0.3, revoke)
    else:
        order.barrier()
    with raises(errors.Aborted, "revoked"):
        comm.barrier()  # which may end well where rank 0 was in it before
        comm.barrier()
    with raises(errors.Aborted, "revoked"):
        comm.check()
    again = comm.shrink()
    assert (again.all_reduce(numpy.ones(1)) == comm.size).all()
    again.close()
    comm.abort()


def silent(comm):
    order = comm.split(0)
    if comm.rank == 0:
        comm.set_timeout(0.5)
        with raises(errors.Timeout, "rank 1") as seen:
            comm.barrier()
        assert isinstance(seen.error, TimeoutError) and seen.error.result == tutti_comm.Result.TIMEOUT
    order.barrier()
    comm.abort()


def other_threads_run(comm):
    """A call that blocks does not hold the interpreter's lock: it ends when another thread of the process has worked."""
    order = comm.split(0)
    if comm.rank == 0:
        ranks.later(0.1, order.barrier)
    else:
        order.barrier()
    comm.barrier()


def close_is_ended(comm):
    """An abort ends a close that waits."""
    order = comm.split(0)
    if comm.rank == 0:
        ranks.later(0.3, comm.abort)
        begin = time.monotonic()
        try:
            comm.close()
        except errors.Error:
            pass
        assert comm.closed and time.monotonic() - begin < ranks.TIMEOUT / 2
    order.barrier()
    comm.abort()


def closes(comm):
    comm.finalize()
    comm.close()
    comm.close()
    with raises(errors.InvalidUsage, "closed"):
        comm.barrier()


def program(*arguments, size=2, **options):
    """Runs this folder's program on ranks as torchrun does; the exit codes and outputs by rank."""
    port = str(20000 + os.getpid() % 12000)  # below those that connections get
    running = [subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": str(rank),
                                     "WORLD_SIZE": str(size), "TUTTI_LOG": "error"}) for rank in range(size)]
    ends = [each.communicate(timeout=60) for each in running]
    return [(each.returncode, *end) for each, end in zip(running, ends)]


class Communicator(unittest.TestCase):
    def test_streams(self):
        ranks.in_threads(futures, 3)
        ranks.in_processes(futures, 3)
        ranks.in_processes(waits, 2)
        ranks.in_threads(lets_go, 2)

    def test_split(self):
        ranks.in_threads(divided, 4)
        ranks.in_processes(divided, 3)

    def test_shrink_and_grow(self):
        ranks.in_processes(shrinks, 3)
        ranks.in_processes(grows, 2)
        ranks.in_processes(revoked, 3)

    def test_waits_end(self):
        ranks.in_processes(silent, 2)

    def test_other_threads_run(self):
        ranks.in_processes(other_threads_run, 2)

    def test_close(self):
        ranks.in_threads(closes, 2)

        ranks.in_processes(close_is_ended, 2)

    def test_groups(self):
        ranks.in_threads(groups, 1)
        ranks.in_processes(groups, 2)

    def test_wrong_id(self):
        with raises(errors.InvalidArgument, "128 bytes"):
            tutti_comm.init_by_id(b"too short", 2, 0)
        with raises(errors.InvalidArgument, "1 or more"):
            tutti_comm.init_all(0)

    def test_unknown_url(self):
        with self.assertRaises(errors.InvalidArgument):
            tutti_comm.init("nothing://")

    def test_an_exception_in_the_block_aborts(self):
        with self.assertRaisesRegex(KeyError, "mine"), tutti_comm.init_all(1)[0] as comm:
            raise KeyError("mine")
        self.assertTrue(comm.closed)

    def test_programs_end_without_close(self):
        """The interpreter closes what is open, also if a rank ends by an exception: the other one hears of it."""
        for code, out, err in program(HERE / "without_close.py"):
            self.assertEqual((code, out, err), (0, "2.0\n", ""))
        (_, _, raised), (code, _, heard) = program(HERE / "without_close.py", "raise")
        self.assertIn("ZeroDivisionError", raised)
        self.assertEqual(code, 1)
        self.assertIn("rank 0 has left the communicator", heard)

    def test_example(self):
        for code, out, err in program(HERE.parents[1] / "examples" / "python" / "sum.py", size=3):
            self.assertEqual((code, err), (0, ""))
            self.assertIn(out, ("", "sum over 3 ranks: 6 12 18 24\n"))

    def test_threads_that_the_end_meets(self):
        """A daemon thread in a call does not disturb the end of the interpreter."""
        for _ in range(5):
            for code, _, err in program(HERE / "daemon.py", size=1):
                self.assertEqual(code, 0, err)

    def test_a_fork_does_not_wait(self):
        stream, (comm,) = tutti_comm.Stream(), tutti_comm.init_all(1)
        future = comm.barrier(stream=stream)
        future.result()
        child = os.fork()
        if child == 0:
            try:
                comm.barrier()
            except errors.InvalidUsage:
                os._exit(7)
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        comm.close()

    def test_types(self):
        """The types are those of the documented use."""
        try:
            from mypy import api
        except ImportError:
            self.skipTest("there is no mypy")
        out, _, code = api.run([str(HERE / "typed.py"), "--strict", "--python-executable", sys.executable])
        self.assertEqual(code, 0, out)

    def test_under_mpirun(self):
        if not shutil.which("mpirun"):
            self.skipTest("there is no mpirun")
        done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", sys.executable,
                               HERE.parents[1] / "examples" / "python" / "sum.py"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "sum over 3 ranks: 6 12 18 24\n", done.stderr)

    def test_places(self):
        """What others compile against, and the programs."""
        answer = subprocess.run([sys.executable, "-m", "tutti_comm", "--include"], capture_output=True, text=True)
        self.assertTrue(pathlib.Path(answer.stdout.strip(), "tutti", "tutti.h").exists(), answer)
        for place, holds in (("prefix", "bin/tutti-perf"), ("cmakedir", "tuttiConfig.cmake"), ("pkgconfigdir", "tutti.pc")):
            answer = subprocess.run([sys.executable, "-m", "tutti_comm", f"--{place}"], capture_output=True, text=True)
            self.assertTrue(pathlib.Path(answer.stdout.strip(), holds).exists(), answer)
        answer = subprocess.run([sys.executable, "-m", "tutti_comm", "--version"], capture_output=True, text=True)
        self.assertEqual(answer.stdout.strip(), tutti_comm.__version__)
        for name in ("plan", "sim", "probe"):
            program_of = pathlib.Path(sys.executable).parent / f"tutti-{name}"
            self.assertEqual(subprocess.run([program_of, "--help"], capture_output=True).returncode, 0, name)
        package = tutti_comm.prefix()
        self.assertTrue((package / "py.typed").exists() and "def all_reduce(" in (package / "_C.pyi").read_text())
        perf = subprocess.run([pathlib.Path(sys.executable).parent / "tutti-perf", "--env"], capture_output=True, text=True)
        self.assertIn("TUTTI_TIMEOUT", perf.stdout)

    def test_c_program(self):
        places = {**os.environ, "PKG_CONFIG_PATH": str(tutti_comm.prefix() / "lib" / "pkgconfig")}
        try:
            flags = subprocess.run(["pkg-config", "--cflags", "--libs", "tutti"], env=places, capture_output=True, text=True,
                                   check=True).stdout.split()
            subprocess.run(["cc", "--version"], capture_output=True, check=True)
        except OSError:
            self.skipTest("there is no C compiler or no pkg-config")
        with tempfile.TemporaryDirectory() as folder:
            source = HERE.parents[1] / "examples" / "sum.c"
            subprocess.run(["cc", source, *flags, f"-Wl,-rpath,{tutti_comm.prefix() / 'lib'}", "-o", f"{folder}/sum"], check=True)
            self.assertEqual(subprocess.run([f"{folder}/sum"], capture_output=True, text=True).stdout,
                             "sum over 1 ranks: 1 2 3 4\n")


if __name__ == "__main__":
    unittest.main()
