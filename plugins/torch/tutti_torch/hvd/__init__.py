"""Training in Horovod's manner on Tutti: `import tutti_torch.hvd as hvd` in the place of `import horovod.torch as hvd`.

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

Tensors have names. Ranks may submit them in any order; a thread of each rank finds out which ones all ranks have
submitted, checks that they agree on type, shape and operation, and sums small ones together. See docs/torch.md.
"""
from .operations import (Average, Max, Min, Product, Sum, allgather, allgather_async, allreduce, allreduce_,
                         allreduce_async, allreduce_async_, alltoall, alltoall_async, barrier, broadcast, broadcast_,
                         broadcast_async, broadcast_async_, grouped_allgather, grouped_allgather_async,
                         grouped_allreduce, grouped_allreduce_, grouped_allreduce_async, grouped_allreduce_async_,
                         grouped_reducescatter, grouped_reducescatter_async, join, poll, reducescatter,
                         reducescatter_async, sparse_allreduce_async, synchronize)
from .objects import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from .compression import Compression
from .optimizer import DistributedOptimizer
from .process_set import ProcessSet
from .world import (add_process_set, cross_rank, cross_size, global_process_set, init, is_homogeneous, is_initialized,
                    local_rank, local_size, rank, remove_process_set, shutdown, size, start_timeline, stop_timeline)
from .request import DuplicateName, Disagreement, HorovodInternalError
from ..sync_batch_norm import SyncBatchNorm
from . import elastic

__all__ = [name for name in dir() if not name.startswith("_")]
