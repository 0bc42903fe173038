"""One rank uses the backend with tensors on a GPU, and prints each stage before it begins: if the process ends there, the last
line says where. Run by tools/gpu-check.sh."""
import tempfile


def stage(name):
    print(name, flush=True)


stage("import torch")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

stage("begin to use the GPU")
torch.cuda.set_device(0)
tensor = torch.ones(1000, device="cuda")
torch.cuda.synchronize()

stage("import tutti_torch")
import tutti_torch  # noqa: E402, F401

with tempfile.NamedTemporaryFile() as store:
    stage("make a group")
    dist.init_process_group("cpu:tutti,cuda:tutti", init_method=f"file://{store.name}", rank=0, world_size=1)
    stage("call with a tensor of the host")
    dist.all_reduce(torch.ones(1000))
    stage("call with a tensor of the GPU")
    dist.all_reduce(tensor)
    stage("wait for it")
    torch.cuda.synchronize()
    assert tensor.eq(1).all()
    stage("end the group")
    dist.destroy_process_group()
stage("end")
