"""Operations on named tensors. The ...async ones return a handle for poll() and synchronize(). Without `process_set` all
ranks take part; it is a ProcessSet that this rank belongs to. Gradients go through allreduce, allgather, broadcast,
alltoall and reducescatter, as they do through Horovod's: that of a sum is summed, all others are averaged over the ranks.
"""
import torch

from .compression import Compression
from .gradients import through
from .request import Request
from .world import engine, global_process_set

Average, Sum, Min, Max, Product = "AVG", "SUM", "MIN", "MAX", "PRODUCT"


def _named(process_set, kind, name):
    """The name under which ranks meet. An unnamed call takes its number before anything is checked, so that a call that
    is refused on one rank does not shift the others."""
    there = engine(process_set)
    return f"{kind}.{name}" if name is not None else f"{kind}.unnamed.{next(there.unnamed)}"


def _submit(process_set, kind, name, tensor, output, own=None, **settings):
    return engine(process_set).submit(Request(name, kind, tensor, output, own, **settings))


def _submit_dense(process_set, kind, name, tensor, output, own=None, **settings):
    if tensor.layout != torch.strided:
        raise ValueError(f"a tensor of layout {tensor.layout}; for sparse ones there is sparse_allreduce_async()")
    takes_result = output is tensor and kind in ("allreduce", "broadcast")
    if takes_result and not _has_own_places(tensor):
        raise ValueError("elements of the tensor share memory, so that it cannot take the result")
    if takes_result and (tensor.is_conj() or tensor.is_neg()):
        raise ValueError("the tensor is a conjugated or negated view, so that it cannot take the result")
    resolved = tensor if takes_result else tensor.resolve_conj().resolve_neg()
    return _submit(process_set, kind, name, resolved, resolved if output is tensor else output, own, **settings)


def _has_own_places(tensor):
    """Whether no two elements lie at one place. Says no to some odd layouts where none do."""
    reach = 1
    for stride, extent in sorted(zip(tensor.stride(), tensor.shape)):
        if extent > 1 and stride < reach:
            return False
        reach = max(reach, stride * extent)
    return True


def _empty_like(tensor):
    with torch.inference_mode(False):
        return torch.empty_like(tensor, requires_grad=False)


def _check_reduction(tensor, op, prescale_factor=1.0, postscale_factor=1.0):
    if op not in (Average, Sum, Min, Max, Product):
        raise ValueError(f"{op} is none of hvd.Average, Sum, Min, Max and Product")
    if op == Average and not tensor.is_floating_point():
        raise ValueError(f"the average of {tensor.dtype} is not defined; use hvd.Sum")
    if (prescale_factor, postscale_factor) != (1.0, 1.0) and not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"{tensor.dtype} cannot be scaled")


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                     process_set=global_process_set, compression=Compression.none, output=None):
    name = _named(process_set, "allreduce", name)
    if average is not None and op is not None:
        raise ValueError("give op or average, not both")
    op = op or (Sum if average is False else Average)
    _check_reduction(tensor, op, prescale_factor, postscale_factor)
    return _submit_dense(process_set, "allreduce", name, tensor, tensor if output is None else output, op=op,
                         prescale=float(prescale_factor), postscale=float(postscale_factor),
                         wire=compression.wire_for(tensor))


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                    process_set=global_process_set, compression=Compression.none):
    return allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set, compression,
                            output=_empty_like(tensor))


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
               process_set=global_process_set, compression=Compression.none):
    return allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set,
                            compression).wait()


def allreduce(tensor, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0,
              postscale_factor=1.0, process_set=global_process_set):
    def forward(mine):
        return allreduce_async(mine, average, name, op, prescale_factor, postscale_factor, process_set,
                               compression).wait()

    def backward(gradient):
        if op in (Min, Max, Product):
            raise NotImplementedError(f"no gradient goes through an allreduce with op={op}")
        return allreduce(gradient, average, _of_gradient(name), compression, op, prescale_factor, postscale_factor,
                         process_set)
    return through(tensor, forward, backward)


def _of_gradient(name):
    return None if name is None else f"{name}.gradient"


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
    name = _named(process_set, "allreduce", name)  # ranks that have a dense and a sparse tensor of one name disagree
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
    name = _named(process_set, "allgather", name)
    if tensor.dim() == 0:
        tensor = tensor.reshape(1)
    return _submit_dense(process_set, "allgather", name, tensor, tensor)


def allgather(tensor, name=None, process_set=global_process_set):
    """All ranks' tensors, one after the other in the first dimension, which may differ from rank to rank."""
    def backward(gradient):
        rows = allgather_async(torch.tensor([tensor.shape[0] if tensor.dim() else 1]), _of_gradient(name),
                               process_set).wait().tolist()
        mean = allreduce(gradient, None, _of_gradient(name), process_set=process_set)
        first = sum(rows[:process_set.rank()])
        return mean[first:first + rows[process_set.rank()]].view(tensor.shape)
    return through(tensor, lambda mine: allgather_async(mine, name, process_set).wait(), backward)


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    return GroupedHandle(allgather_async(tensor, _numbered(name, i), process_set) for i, tensor in enumerate(tensors))


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    return grouped_allgather_async(tensors, name, process_set).wait()


def _check_root(root_rank, process_set):
    if root_rank not in process_set.ranks:
        raise ValueError(f"root_rank {root_rank} is not in {process_set}")


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    """`root_rank` is a rank of the world, also in a process set."""
    name = _named(process_set, "broadcast", name)
    _check_root(root_rank, process_set)
    return _submit_dense(process_set, "broadcast", name, tensor, tensor, root=root_rank)


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    name = _named(process_set, "broadcast", name)
    _check_root(root_rank, process_set)
    return _submit_dense(process_set, "broadcast", name, tensor, _empty_like(tensor), root=root_rank)


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    return broadcast_async_(tensor, root_rank, name, process_set).wait()


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    def backward(gradient):
        mean = allreduce(gradient, None, _of_gradient(name), process_set=process_set)
        return mean if process_set.ranks[process_set.rank()] == root_rank else torch.zeros_like(mean)
    return through(tensor, lambda mine: broadcast_async(mine, root_rank, name, process_set).wait(), backward)


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    """A handle whose value is what has come, and how many rows came from each rank."""
    name = _named(process_set, "alltoall", name)
    ranks = engine(process_set).size
    if tensor.dim() == 0:
        raise ValueError("alltoall of a tensor without dimensions")
    if splits is None and tensor.shape[0] % ranks != 0:
        raise ValueError(f"{tensor.shape[0]} rows cannot be divided among {ranks} ranks; give splits")
    parts = [tensor.shape[0] // ranks] * ranks if splits is None else [int(part) for part in splits]
    if len(parts) != ranks or min(parts) < 0 or sum(parts) != tensor.shape[0]:
        raise ValueError(f"splits {parts} of {tensor.shape[0]} rows for {ranks} ranks")
    return _submit_dense(process_set, "alltoall", name, tensor, tensor, own={"splits": parts})


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """Sends the first splits[0] rows to rank 0 and so on; without splits, each rank gets as many. Returns what has come,
    in the order of ranks; with splits, also how many rows came from each."""
    received = None

    def forward(mine):
        nonlocal received
        output, received = alltoall_async(mine, splits, name, process_set).wait()
        return output, received

    def backward(gradient):
        return alltoall(gradient, received, _of_gradient(name), process_set)[0]
    output, rows = through(tensor, forward, backward)
    return output if splits is None else (output, rows)


def reducescatter_async(tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                        postscale_factor=1.0, compression=Compression.none):
    name = _named(process_set, "reducescatter", name)
    _check_reduction(tensor, op, prescale_factor, postscale_factor)
    if tensor.dim() == 0:
        raise ValueError("reducescatter of a tensor without dimensions")
    return _submit_dense(process_set, "reducescatter", name, tensor, tensor, op=op, prescale=float(prescale_factor),
                         postscale=float(postscale_factor), wire=compression.wire_for(tensor))


def reducescatter(tensor, name=None, compression=Compression.none, op=Average, process_set=global_process_set,
                  prescale_factor=1.0, postscale_factor=1.0):
    """This rank's rows of the reduction. If they cannot be divided evenly, the first ranks get one row more. With
    compression, the sum itself is formed in the smaller type."""
    def forward(mine):
        return reducescatter_async(mine, name, op, process_set, prescale_factor, postscale_factor, compression).wait()

    def backward(gradient):
        if op not in (Average, Sum):
            raise NotImplementedError(f"no gradient goes through a reducescatter with op={op}")
        whole = allgather(gradient, _of_gradient(name), process_set) * (prescale_factor * postscale_factor)
        return whole / process_set.size() if op == Average else whole
    return through(tensor, forward, backward)


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
    zeros; other operations are errors meanwhile. Returns the rank that joined last. `device` is the number of the GPU
    for the zeros where the others' tensors are on GPUs; -1 means the current one."""
    if device < 0 and torch.cuda.is_available():
        device = torch.cuda.current_device()
    return engine().submit(Request("join", "join", None, None, device=f"cuda:{max(device, 0)}")).wait()
