"""The backend "tutti" of torch.distributed.

    torch.distributed.init_process_group("tutti")

torch finds it by itself (2.15 and newer; before, `import tutti_torch` makes the name known). It serves tensors on cpu, and
on cuda where it was built against a torch with CUDA. Options of a group: `pg_options=tutti_torch.Options(wire_dtype=
torch.bfloat16)`. `take("gloo")`, or TUTTI_TORCH_AS=gloo in the environment, makes a program's groups of gloo be made of
tutti. See docs/torch.md.
"""
import importlib.metadata

import torch
import torch.distributed as dist

from tutti_torch_as import take

from .build_options import USES_TUTTI_COMM

if USES_TUTTI_COMM:
    import tutti_comm  # noqa: F401  so that its library is found wherever it is installed
try:
    from ._C import Options, ProcessGroupTutti, cuda, version
except ImportError as error:
    try:
        needs = ", ".join(importlib.metadata.requires("tutti-torch") or [])
    except importlib.metadata.PackageNotFoundError:
        needs = "another torch"
    minor = ".".join(torch.__version__.split(".")[:2])
    if f"torch=={minor}." in needs:
        raise
    raise ImportError(f"tutti-torch was compiled for {needs}, this is torch {torch.__version__}; install the tutti-torch "
                      f"of this torch ({error})") from error
from . import groups
from .sync_batch_norm import SyncBatchNorm

__all__ = ["Options", "ProcessGroupTutti", "SyncBatchNorm", "take", "version"]


def register():
    """Makes the name "tutti" known to torch.distributed."""
    if "TUTTI" not in dist.Backend._plugins:
        dist.Backend.register_backend("tutti", groups.create, extended_api=True,
                                      devices=["cpu", "cuda"] if cuda else ["cpu"])


if dist.is_available():
    register()
