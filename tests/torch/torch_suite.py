"""torch's own distributed tests (torch/testing/_internal/distributed/distributed_test.py) on the backend tutti.

    python tests/torch/torch_suite.py                 the whole suite
    python tests/torch/torch_suite.py -k all_reduce   what unittest selects
    python tests/torch/torch_suite.py --short         the selection that the project's tests run

The suite chooses its tests by the name of the backend: a plug-in gets few. So it runs under the name of a backend that
it knows (SUITE_AS: gloo by default; mpi brings the all-to-alls on the CPU), which tutti_torch.take() makes mean tutti.
SUITE_BACKEND=gloo runs it on Gloo itself, to compare. WORLD_SIZE (default 2) ranks. What is left out although Gloo passes
it is in SKIPPED, with the reason. Each test starts processes of its own.
"""
import functools
import os
import sys
import tempfile
import warnings

BACKEND = os.environ.setdefault("SUITE_BACKEND", "tutti")
os.environ["BACKEND"] = os.environ.setdefault("SUITE_AS", "gloo")
os.environ.setdefault("WORLD_SIZE", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # the suite wants a GPU for each rank, or none
os.environ.setdefault("OMP_NUM_THREADS", "1")
if "TEMP_DIR" not in os.environ:
    os.environ["TEMP_DIR"] = tempfile.mkdtemp(prefix="tutti-suite-")
os.environ.setdefault("INIT_METHOD", "file://" + os.path.join(os.environ["TEMP_DIR"], "shared_init_file"))
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.distributed_c10d as c10d  # noqa: E402

import tutti_torch  # noqa: E402,F401  registers the backend, in the spawned children too
from torch.testing._internal import common_distributed  # noqa: E402,F401
from torch.testing._internal.distributed import distributed_test  # noqa: E402

AS = os.environ["SUITE_AS"]


def made_of_tutti(function):
    """`function` with every mention of MPI replaced. With MPI the launcher says who the ranks are; the suite is none."""
    @functools.wraps(function)
    def call(*arguments, **named):
        if named.get("backend") == AS:
            named["backend"] = "tutti"
        return function(*[("tutti" if value == AS else value) if isinstance(value, str) else value
                          for value in arguments], **named)
    return call


if BACKEND == "tutti" and AS == "mpi":
    dist.init_process_group = made_of_tutti(dist.init_process_group)
    dist.new_group = c10d.new_group = made_of_tutti(c10d.new_group)
elif BACKEND == "tutti":
    tutti_torch.take(AS)

SKIPPED = {
    "test_ddp_logging_data_cpu": "DDP's log says 'custom', because it takes what says 'gloo' for an object of Gloo's class",
}
# Of each kind of operation one test or two; half a minute.
SHORT = ("test_all_reduce_sum", "test_all_reduce_complex_unsupported_ops", "test_all_reduce_coalesced_sum",
         "test_all_gather", "test_all_gather_object_default_pg", "test_broadcast", "test_gather", "test_scatter",
         "test_scatter_object_list", "test_reduce_sum", "test_reduce_max", "test_send_recv", "test_send_recv_any_source",
         "test_send_recv_with_tag", "test_isend", "test_irecv", "test_batch_isend_irecv_gloo", "test_barrier",
         "test_barrier_timeout_global", "test_monitored_barrier_gloo", "test_new_subgroups_with_group_param",
         "test_DistributedDataParallelCPU", "test_accumulate_gradients_no_sync_allreduce_hook",
         "test_accumulate_gradients_no_sync", "test_sparse_all_reduce_sum", "test_static_graph_api_cpu")


class TestTutti(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        # Forked children need not load torch again; the suite itself would spawn them.
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    def _barrier(self, *arguments, **named):
        """Every rank of every test comes by here first."""
        if dist.is_initialized():
            made_of = dist.group.WORLD._get_backend(torch.device("cpu")).name()
            if made_of != BACKEND:
                raise AssertionError(f"the suite runs on {made_of}, not on {BACKEND}")
        super()._barrier(*arguments, **named)


if BACKEND == "tutti":
    for name, why in SKIPPED.items():
        method = getattr(TestTutti, name, None)
        if method is not None:
            def left_out(self, why=why):
                self.skipTest(why)
            left_out.__name__ = name
            setattr(TestTutti, name, left_out)

if __name__ == "__main__":
    from torch.testing._internal.common_utils import run_tests

    if "--short" in sys.argv:
        sys.argv.remove("--short")
        sys.argv += [f"TestTutti.{name}" for name in SHORT]
    run_tests()
