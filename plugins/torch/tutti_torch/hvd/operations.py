"""Operations on named tensors. The ...async ones return a handle for poll() and synchronize(). Without `process_set` all
ranks take part; it is a ProcessSet that this rank belongs to."""
import torch

from .compression import Compression
from .request import Request
from .world import engine, global_process_set

Average, Sum, Min, Max, Product = "AVG", "SUM", "MIN", "MAX", "PRODUCT"


def _submit(process_set, kind, name, tensor, output, own=None, **settings):
    there = engine(process_set)
    family = kind.removeprefix("sparse_")  # ranks that have a dense and a sparse tensor of one name disagree
    name = f"{family}.{name}" if name is not None else f"{family}.unnamed.{next(there.unnamed)}"
    return there.submit(Request(name, kind, tensor, output, own, **settings))


def _check_reduction(tensor, op, prescale_factor=1.0, postscale_factor=1.0):
    if op not in (Average, Sum, Min, Max, Product):
        raise ValueError(f"{op} is none of hvd.Average, Sum, Min, Max and Product")
    if tensor.layout != torch.strided:
        raise ValueError(f"a tensor of layout {tensor.layout}; for sparse ones there is sparse_allreduce_async()")
    if op == Average and not tensor.is_floating_point():
        raise ValueError(f"the average of {tensor.dtype} is not defined; use hvd.Sum")
    if (prescale_factor, postscale_factor) != (1.0, 1.0) and not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"{tensor.dtype} cannot be scaled")


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                     process_set=global_process_set, compression=Compression.none, output=None):
    if average is not None and op is not None:
        raise ValueError("give op or average, not both")
    op = op or (Sum if average is False else Average)
    _check_reduction(tensor, op, prescale_factor, postscale_factor)
    return _submit(process_set, "allreduce", name, tensor, tensor if output is None else output, op=op,
                   prescale=prescale_factor, postscale=postscale_factor, wire=compression.wire_for(tensor))


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                    process_set=global_process_set, compression=Compression.none):
    return allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set, compression,
                            output=torch.empty_like(tensor))


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
               process_set=global_process_set, compression=Compression.none):
    return allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set,
                            compression).wait()


def allreduce(tensor, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0,
              postscale_factor=1.0, process_set=global_process_set):
    return allreduce_async(tensor, average, name, op, prescale_factor, postscale_factor, process_set,
                           compression).wait()


def _numbered(name, i):
    return None if name is None else f"{name}.{i}"


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                            process_set=global_process_set, compression=Compression.none):
    """A handle for several at once; they are summed together where types allow."""
    return GroupedHandle(allreduce_async(tensor, average, _numbered(name, i), op, prescale_factor, postscale_factor,
                                         process_set, compression) for i, tensor in enumerate(tensors))


def grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                             process_set=global_process_set, compression=Compression.none):
    return GroupedHandle(allreduce_async_(tensor, average, _numbered(name, i), op, prescale_factor, postscale_factor,
                                          process_set, compression) for i, tensor in enumerate(tensors))


def grouped_allreduce(tensors, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0,
                      postscale_factor=1.0, process_set=global_process_set):
    return grouped_allreduce_async(tensors, average, name, op, prescale_factor, postscale_factor, process_set,
                                   compression).wait()


def grouped_allreduce_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                       process_set=global_process_set):
    return grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set).wait()


def sparse_allreduce_async(tensor, name=None, op=None, process_set=global_process_set):
    """The sum or average of sparse COO tensors of one shape: all ranks get all entries, and add those of equal indices."""
    op = op or Average
    if op not in (Average, Sum):
        raise ValueError(f"{op} of sparse tensors; there are hvd.Average and hvd.Sum")
    if tensor.layout != torch.sparse_coo:
        raise ValueError(f"a tensor of layout {tensor.layout}, which is not torch.sparse_coo")
    if op == Average and not tensor.is_floating_point():
        raise ValueError(f"the average of {tensor.dtype} is not defined; use hvd.Sum")
    tensor = tensor.detach().coalesce()
    return _submit(process_set, "sparse_allreduce", name, tensor, tensor, own=tensor.indices().shape[1], op=op,
                   sparse_dimensions=tensor.sparse_dim())


def allgather_async(tensor, name=None, process_set=global_process_set):
    if tensor.dim() == 0:
        tensor = tensor.reshape(1)
    return _submit(process_set, "allgather", name, tensor, tensor)


def allgather(tensor, name=None, process_set=global_process_set):
    """All ranks' tensors, one after the other in the first dimension, which may differ from rank to rank."""
    return allgather_async(tensor, name, process_set).wait()


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    return GroupedHandle(allgather_async(tensor, _numbered(name, i), process_set) for i, tensor in enumerate(tensors))


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    return grouped_allgather_async(tensors, name, process_set).wait()


def _check_root(root_rank, process_set):
    engine(process_set)
    if root_rank not in process_set.ranks:
        raise ValueError(f"root_rank {root_rank} is not in {process_set}")


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    """`root_rank` is a rank of the world, also in a process set."""
    _check_root(root_rank, process_set)
    return _submit(process_set, "broadcast", name, tensor, tensor, root=root_rank)


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    _check_root(root_rank, process_set)
    return _submit(process_set, "broadcast", name, tensor, torch.empty_like(tensor), root=root_rank)


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    return broadcast_async_(tensor, root_rank, name, process_set).wait()


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    return broadcast_async(tensor, root_rank, name, process_set).wait()


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    ranks = engine(process_set).size
    if tensor.dim() == 0:
        raise ValueError("alltoall of a tensor without dimensions")
    if splits is None and tensor.shape[0] % ranks != 0:
        raise ValueError(f"{tensor.shape[0]} rows cannot be divided among {ranks} ranks; give splits")
    parts = [tensor.shape[0] // ranks] * ranks if splits is None else [int(part) for part in splits]
    if len(parts) != ranks or min(parts) < 0 or sum(parts) != tensor.shape[0]:
        raise ValueError(f"splits {parts} of {tensor.shape[0]} rows for {ranks} ranks")
    return _submit(process_set, "alltoall", name, tensor, tensor, own={"splits": parts, "given": splits is not None})


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """Sends the first splits[0] rows to rank 0 and so on; without splits, each rank gets as many. Returns what has come,
    in the order of ranks; with splits, also how many rows came from each."""
    return alltoall_async(tensor, splits, name, process_set).wait()


def reducescatter_async(tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                        postscale_factor=1.0, compression=Compression.none):
    _check_reduction(tensor, op, prescale_factor, postscale_factor)
    if tensor.dim() == 0:
        raise ValueError("reducescatter of a tensor without dimensions")
    return _submit(process_set, "reducescatter", name, tensor, tensor, op=op, prescale=prescale_factor,
                   postscale=postscale_factor, wire=compression.wire_for(tensor))


def reducescatter(tensor, name=None, compression=Compression.none, op=Average, process_set=global_process_set,
                  prescale_factor=1.0, postscale_factor=1.0):
    """This rank's rows of the reduction. If they cannot be divided evenly, the first ranks get one row more. With
    compression, the sum itself is formed in the smaller type."""
    return reducescatter_async(tensor, name, op, process_set, prescale_factor, postscale_factor, compression).wait()


def grouped_reducescatter_async(tensors, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                                postscale_factor=1.0, compression=Compression.none):
    return GroupedHandle(reducescatter_async(tensor, _numbered(name, i), op, process_set, prescale_factor,
                                             postscale_factor, compression) for i, tensor in enumerate(tensors))


def grouped_reducescatter(tensors, name=None, compression=Compression.none, op=Average, process_set=global_process_set,
                          prescale_factor=1.0, postscale_factor=1.0):
    return grouped_reducescatter_async(tensors, name, op, process_set, prescale_factor, postscale_factor,
                                       compression).wait()


class GroupedHandle:
    """Of several requests; its value is a list."""

    def __init__(self, handles):
        self.handles = list(handles)

    def is_done(self):
        return all(handle.is_done() for handle in self.handles)

    def wait(self):
        return [handle.wait() for handle in self.handles]


def poll(handle):
    return handle.is_done()


def synchronize(handle):
    return handle.wait()


def barrier(process_set=global_process_set):
    allreduce(torch.zeros(1), op=Sum, name="barrier", process_set=process_set)


def join(device=-1):
    """For a rank that has no more data. Until all ranks have joined it takes part in the others' sums and averages with
    zeros; other operations are errors meanwhile. Returns the rank that joined last. `device` is Horovod's and not used:
    the zeros are made where the others' tensors are."""
    return engine().submit(Request("join", "join", None, None)).wait()
