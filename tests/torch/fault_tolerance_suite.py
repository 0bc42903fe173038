"""torch's own tests of groups that change their members, test/distributed/test_c10d_fault_tolerance.py, on the backend tutti.
They are in no wheel of torch:

    TORCH_SOURCES=<a checkout of pytorch> python tests/torch/fault_tolerance_suite.py [what unittest selects]

The file leaves its strictest tests to the backend nccl2 by name. So tutti stands under that name, with tensors on the CPU;
SUITE_AS=gloo gives it the name of the other backend that the file knows. What is left out is in SKIPPED, with the reason.
"""
import importlib.util
import os
import pathlib
import sys

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("OMP_NUM_THREADS", "1")
AS = os.environ.setdefault("SUITE_AS", "nccl2")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal.common_distributed import MultiProcessTestCase  # noqa: E402
from torch.testing._internal.common_utils import run_tests  # noqa: E402

import tutti_torch  # noqa: E402,F401

path = pathlib.Path(os.environ["TORCH_SOURCES"], "test", "distributed", "test_c10d_fault_tolerance.py")
specification = importlib.util.spec_from_file_location("fault_tolerance", path)
module = sys.modules["fault_tolerance"] = importlib.util.module_from_spec(specification)
specification.loader.exec_module(module)

SKIPPED = {
    "test_reconfigure_rejects_reused_uuid": "the others wait for the first member in nccl2; here they hear its reason at once "
                                            "(tests/torch/test_reconfigure.py)",
    "test_grow_rejects_reused_uuid": "the same",
} if AS == "nccl2" else {
    "test_reconfigure_after_abort": "expects no error of a group that was aborted, since Gloo reports none",
}
begin = dist.init_process_group


def begin_on_tutti(backend, *arguments, **named):
    assert backend == AS, backend
    begin("tutti", *arguments, **named)
    assert dist.get_backend() == "tutti"


dist.init_process_group = begin_on_tutti


class TuttiFaultTolerance(module.AbstractFaultToleranceTest, MultiProcessTestCase):
    backend_name, device_type, supports_work_result, env = AS, "cpu", False, {}

    def _spawn_processes(self):
        self._start_processes(torch.multiprocessing.get_context("fork").Process)  # they need not load torch again


for name, why in SKIPPED.items():
    if hasattr(TuttiFaultTolerance, name):
        def left_out(self, why=why):
            self.skipTest(why)
        left_out.__name__ = name
        setattr(TuttiFaultTolerance, name, left_out)

if __name__ == "__main__":
    run_tests()
