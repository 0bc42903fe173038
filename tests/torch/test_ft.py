"""tutti_torch.ft: torchft's own tests of process groups on it, and a replica group that is lost and regained."""
import os
import pathlib
import re
import subprocess
import sys
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

try:
    from parameterized import parameterized
    from torchft import process_group_test as theirs, reconfigure_test
    from torchft.process_group import reconfigure_with_store
except ImportError as error:
    print(f"skipped: {error}; tools/torch.sh setup installs torchft-nightly and parameterized where they are to be had")
    sys.exit(77)
from tutti_torch.ft import ProcessGroupTutti

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "torch" / "ft.py"


class Groups(theirs.MultiPgBaseTest):
    """torchft's tests with three threads as ranks, of all collectives: Gloo's leave out three."""
    BACKEND, WORLD_SIZE = "tutti", 3

    @classmethod
    def _create_pg(cls, backend):
        return ProcessGroupTutti(timeout=timedelta(seconds=10))

    def assertRaisesRegex(self, kind, pattern, *arguments, **named):
        """They list what the backends say of a rank that is gone; this is what tutti says."""
        return super().assertRaisesRegex(kind, f"{pattern}|rank 2 ", *arguments, **named)

    @parameterized.expand(theirs._ALL_COLLECTIVES)
    def test_collective(self, collective):
        self._run_parallel(collective)

    @parameterized.expand(theirs._ALL_COLLECTIVES)
    def test_collective_with_resiliency(self, collective):
        self._run_with_resiliency(collective)


class Group(unittest.TestCase):
    def setUp(self):
        self.store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)

    def test_apis(self):
        group = ProcessGroupTutti()
        reconfigure_with_store(group, f"localhost:{self.store.port}/prefix", 0, 1)
        self.assertEqual(group.size(), 1)
        theirs._test_pg(group, torch.tensor([2]))
        model = nn.parallel.DistributedDataParallel(nn.Linear(3, 4), process_group=group)
        model(torch.rand(2, 3))
        reconfigure_with_store(group, f"localhost:{self.store.port}/again", 0, 1)
        theirs._test_pg(group, torch.tensor([2]))
        group.shutdown()

    def test_a_peer_that_does_not_come(self):
        with self.assertRaisesRegex(RuntimeError, "timeout after 10ms|Socket Timeout|rank 1 of 2 did not join"):
            theirs._reconfigure_with_missing_peer(ProcessGroupTutti(timeout=timedelta(seconds=0.01)))

    @unittest.skipUnless(hasattr(dist, "_reconfigure"), "this torch has no reconfigure: 2.14 and newer have")
    def test_resize_and_recover(self):
        """The native group of the backend, without a wrapper."""
        torch.multiprocessing.spawn(resize, args=(self.store.port,), nprocs=3)

    def test_example(self):
        for backend in ("tutti", "gloo"):
            done = subprocess.run([sys.executable, str(EXAMPLE), "--backend", backend], capture_output=True, text=True,
                                  timeout=300, env=dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES=""))
            self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-4000:])
            self.assertRegex(done.stdout, rf"{backend}: a step .* without replica 1 .* with it again .*; the same parameters")
            sys.stdout.write(re.findall(rf"{backend}: a step.*\n", done.stdout)[0])


def resize(rank, port):
    import tutti_torch  # noqa: F401  registers the backend

    reconfigure_test._resize_worker(rank, port, "tutti")


if __name__ == "__main__":
    unittest.main()
