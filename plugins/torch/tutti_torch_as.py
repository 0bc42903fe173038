"""Tutti under the name of another backend of torch.distributed.

    TUTTI_TORCH_AS=gloo python program.py

torch calls take_named() at the end of `import torch` (entry point "torch.backends"), in every process of the environment.
So this module imports nothing unless the variable is set, and tutti_torch itself is imported when the first group is made.
"""
import os

VARIABLE = "TUTTI_TORCH_AS"
NAMES = ("gloo", "mpi", "nccl")


def take_named():
    """Takes the names that the environment lists, with commas between them."""
    names = [name.strip().lower() for name in os.environ.get(VARIABLE, "").split(",")]
    names = [name for name in names if name]
    if names:
        take(*names)


def take(*names):
    """From now on groups of these backends are made of tutti: "gloo", "mpi", or "nccl", which is taken only if there is no
    GPU. `get_backend()` keeps saying the name. All ranks of a group have to do so. Groups that are there stay what they are.

    ValueError for other names, RuntimeError if this torch is too old to let others make groups under these names."""
    for name in names:
        if name not in NAMES:
            raise ValueError(f"{VARIABLE}: tutti cannot take the name {name!r}, only {', '.join(NAMES)}")
    import torch
    from torch.distributed import distributed_c10d
    from torch.distributed.distributed_c10d import Backend

    if not hasattr(distributed_c10d, "_register_builtin_gloo_backend"):
        raise RuntimeError(f"{VARIABLE}: torch {torch.__version__} lets nobody else make groups under the names of its "
                           f"own backends; torch 2.15 does")
    for name in names:
        if name == "nccl" and torch.cuda.device_count() > 0:
            continue
        distributed_c10d._FR_SELF_RECORDING_BACKENDS.discard(name)  # what torch's flight recorder need not look at
        # Not of the type GLOO: DistributedDataParallel takes a backend of that type for an object of Gloo's class.
        Backend.register_backend(name, _creator(name), extended_api=True, devices=["cpu", "cuda"])


def _creator(name):
    def create(group, options):
        from tutti_torch import groups

        return groups.create_as(name, group, options)

    return create
