"""Tutti under the names of torch's own backends: the variable TUTTI_TORCH_AS and tutti_torch.take()."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import torch

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = HERE / "gloo_program.py"
KNOWS = hasattr(torch.distributed.distributed_c10d, "_register_builtin_gloo_backend")


def environment(as_names=None, **more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_TORCH")}
    if as_names is not None:
        kept["TUTTI_TORCH_AS"] = as_names
    return dict(kept, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", **more)


def python(code, as_names=None):
    return subprocess.run([sys.executable, "-c", code], env=environment(as_names), capture_output=True, text=True,
                          timeout=120)


def torchrun(ranks, as_names, *arguments, **more):
    """What the program printed as its outcome, and all else that the ranks said."""
    for _ in range(4):
        done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
                               str(PROGRAM), *arguments], env=environment(as_names, **more), capture_output=True, text=True,
                              timeout=300)
        # With torch 2.15 Gloo's processes abort at their end at times, without tutti too.
        if as_names or "terminate called without an active exception" not in done.stderr:
            break
    found = re.search(r"^OUTCOME (.*)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or not found:
        raise AssertionError(f"ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
    return json.loads(found.group(1)), done.stderr


def ranks_apart(switches, seconds, backend="gloo"):
    """Ranks that are started one by one, each with a switch of its own. Returns how each ended: (code, stderr, seconds)."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        code = ("import datetime, sys, torch.distributed as dist\n"
                f"dist.init_process_group({backend!r}, init_method='file://{folder}/store', rank=int(sys.argv[1]),"
                f" world_size={len(switches)}, timeout=datetime.timedelta(seconds={seconds}))")
        ranks = [subprocess.Popen([sys.executable, "-c", code, str(rank)], env=environment(switch), text=True,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                 for rank, switch in enumerate(switches)]
        ended = {}
        while len(ended) < len(ranks) and time.monotonic() - begin < seconds + 120:
            time.sleep(0.1)
            for number, rank in enumerate(ranks):
                if number not in ended and rank.poll() is not None:
                    ended[number] = (rank.returncode, rank.stderr.read(), time.monotonic() - begin)
        for rank in ranks:
            rank.kill()
            rank.wait()
            rank.stderr.close()
        return [ended[number] for number in range(len(ranks))]


class Imports(unittest.TestCase):
    def test_nothing_is_imported_without_the_switch(self):
        done = python("import sys, torch; print('tutti_torch' in sys.modules, 'tutti_torch_as' in sys.modules)")
        self.assertEqual(done.stdout.split(), ["False", "True"], done.stderr)

    def test_without_the_switch_it_takes_no_time(self):
        """The promise is 1 ms at `import torch`: beside an empty module that is imported in the same way."""
        code = ("import importlib, os, sys, time\n"
                "def takes(name, call):\n"
                "    best = 1\n"
                "    for _ in range(20):\n"
                "        sys.modules.pop(name, None)\n"
                "        begin = time.perf_counter()\n"
                "        call(importlib.import_module(name))\n"
                "        best = min(best, time.perf_counter() - begin)\n"
                "    return best\n"
                "print(takes('tutti_torch_as', lambda module: module.take_named()), takes('this_is_empty', id))")
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "this_is_empty.py").touch()
            done = subprocess.run([sys.executable, "-c", code], env=environment(PYTHONPATH=folder), capture_output=True,
                                  text=True, timeout=60)
        ours, empty = map(float, done.stdout.split())
        self.assertLess(ours, empty + 0.001)

    def test_the_name_tutti_needs_no_import(self):
        if not hasattr(torch.distributed.Backend, "_ensure_backend_registered"):
            self.skipTest("this torch does not look for backends that are installed")
        done = python("import torch, torch.distributed as dist\n"
                      "dist.init_process_group('tutti', store=dist.HashStore(), rank=0, world_size=1)\n"
                      "print(dist.get_backend())")
        self.assertEqual(done.stdout.strip(), "tutti", done.stderr)

    def test_a_name_that_nobody_has_is_an_error(self):
        done = python("import torch", as_names="gloo,glo")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("tutti cannot take the name 'glo', only gloo, mpi, nccl", done.stderr)

    def test_an_empty_list_takes_nothing(self):
        done = python("import sys, torch; print('tutti_torch' in sys.modules)", as_names=" , ")
        self.assertEqual(done.stdout.strip(), "False", done.stderr)


@unittest.skipUnless(KNOWS, "this torch lets nobody else make groups under Gloo's name")
class Switch(unittest.TestCase):
    def test_the_program_comes_to_what_it_comes_to_on_gloo(self):
        for ranks in (4, 6):
            with self.subTest(ranks=ranks):
                tutti, said = torchrun(ranks, "gloo")
                gloo, _ = torchrun(ranks, None)
                self.assertEqual((tutti.pop("made of"), gloo.pop("made of")), ("tutti", "gloo"))
                self.assertEqual([kind for _, kind, _ in tutti["children"]], ["tutti", "tutti"])
                self.assertEqual([value for *_, value in tutti.pop("children")],
                                 [value for *_, value in gloo.pop("children")])
                for mine, theirs in zip(tutti.pop("trained"), gloo.pop("trained"), strict=True):
                    self.assertAlmostEqual(mine, theirs, delta=1e-3)
                self.assertEqual(tutti, gloo)
                self.assertEqual(tutti["backend"], "gloo")
                self.assertNotIn("not a setting", said)

    def test_with_torch_s_checks_in_between(self):
        outcome, _ = torchrun(4, "gloo", TORCH_DISTRIBUTED_DEBUG="DETAIL")
        self.assertEqual((outcome["made of"], outcome["world"], len(outcome["trained"])), ("tutti", 10, 10))

    def test_the_name_of_mpi_needs_no_mpi(self):
        outcome, _ = torchrun(4, "gloo,mpi", "mpi")
        self.assertEqual((outcome["backend"], outcome["made of"], outcome["world"]), ("mpi", "tutti", 10))

    def test_the_name_of_nccl_where_there_is_no_gpu(self):
        outcome, _ = torchrun(4, "nccl", "nccl")
        self.assertEqual((outcome["backend"], outcome["made of"], outcome["world"]), ("nccl", "tutti", 10))

    def test_options_of_gloo_are_passed_over(self):
        done = python("import torch.distributed as dist\n"
                      "dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1,"
                      " pg_options=dist.ProcessGroupGloo._Options())\n"
                      "print(dist.group.WORLD._get_backend(dist.distributed_c10d.torch.device('cpu')).name())", "gloo")
        self.assertEqual(done.stdout.strip(), "tutti", done.stderr)

    def test_take_does_it_from_code(self):
        done = python("import torch, torch.distributed as dist, tutti_torch\n"
                      "tutti_torch.take('gloo')\n"
                      "dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)\n"
                      "print(dist.get_backend(), dist.group.WORLD._get_backend(torch.device('cpu')).name())")
        self.assertEqual(done.stdout.split(), ["gloo", "tutti"], done.stderr)


@unittest.skipUnless(KNOWS, "this torch lets nobody else make groups under Gloo's name")
class Without(unittest.TestCase):
    """A rank that came without the switch is named by those that have it, long before the group's timeout."""

    def expect_named(self, switches, culprit):
        sentence = f"rank {culprit} makes this group of Gloo: there tutti-torch is not installed, or TUTTI_TORCH_AS does not"
        for rank, (code, text, seconds) in enumerate(ranks_apart(switches, 40)):
            self.assertNotEqual(code, 0)
            if switches[rank]:
                self.assertIn(sentence, text, f"rank {rank}")
                self.assertLess(seconds, 30, f"rank {rank} took nearly as long as the group's timeout")

    def test_the_first_rank(self):
        self.expect_named([None, "gloo", "gloo"], 0)

    def test_another_rank(self):
        self.expect_named(["gloo", None, "gloo"], 1)

    def test_a_group_that_failed_can_be_made_again(self):
        """Over the same Store, and where Gloo's keys of an older group lie in it."""
        code = ("import datetime, sys, time, threading, torch, torch.distributed as dist\n"
                "def world(store, rank, seconds):\n"
                "    dist.init_process_group('gloo', store=store, rank=rank, world_size=2,"
                " timeout=datetime.timedelta(seconds=seconds))\n"
                "    made_of = dist.group.WORLD._get_backend(torch.device('cpu')).name()\n"
                "    total = torch.ones(1)\n"
                "    dist.all_reduce(total)\n"
                "    dist.destroy_process_group()\n"
                "    return made_of, total.item()\n"
                "rank, store = int(sys.argv[1]), dist.FileStore(sys.argv[2], 2)\n"
                "print(*world(store, rank, 30))\n"
                "import tutti_torch\n"
                "tutti_torch.take('gloo')\n"
                "time.sleep(6 * rank)\n"
                "try:\n"
                "    world(store, rank, 2)\n"
                "except dist.DistBackendError as error:\n"
                "    print(f'timed out: rank {1 - rank}' in str(error))\n"
                "print(*world(store, rank, 30))\n")
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen([sys.executable, "-c", code, str(rank), f"{folder}/store"], env=environment(), text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]
            said = [rank.communicate(timeout=120) for rank in ranks]
        self.assertEqual(said[0][0].split(), ["gloo", "2.0", "True", "tutti", "2.0"], said[0][1])
        self.assertEqual(said[1][0].split(), ["gloo", "2.0", "True", "tutti", "2.0"], said[1][1])

    def test_the_name_of_mpi_in_another_world(self):
        done = python("import torch, torch.distributed as dist\n"
                      "dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)\n"
                      "print(dist.new_group(backend='mpi')._get_backend(torch.device('cpu')).name())", "gloo,mpi")
        self.assertEqual(done.stdout.strip(), "tutti", done.stderr)

    def test_who_does_not_come_is_named_at_the_timeout(self):
        with tempfile.TemporaryDirectory() as folder:
            code = ("import datetime, sys, torch.distributed as dist\n"
                    f"dist.init_process_group('gloo', init_method='file://{folder}/store', rank=0, world_size=2,"
                    " timeout=datetime.timedelta(seconds=3))")
            done = python(code, "gloo")
        self.assertIn("timed out: rank 1 has not come within the 3 s that rank 0 waited", done.stderr)


if __name__ == "__main__":
    unittest.main()
