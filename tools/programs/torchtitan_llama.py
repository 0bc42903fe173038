"""torchtitan's Llama, sharded, trained and clipped by its functions, with sums alone, as Gloo has no PREMUL_SUM."""
import sys

from program import Program, main, torchrun

if __name__ == "__main__" and sys.argv[1:] != ["rank"]:
    main(Program("torchtitan_llama", "torchtitan", "its debugmodel with FSDP, 2 ranks", torchrun(__file__, "rank"), near=1e-3))
    sys.exit()

import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule
from torchtitan.components.loss import cross_entropy_loss
from torchtitan.components.optimizer import default_adamw
from torchtitan.distributed.fsdp import apply_fsdp_to_decoder
from torchtitan.distributed.utils import clip_grad_norm_, dist_mean
from torchtitan.models.common.attention import ScaledDotProductAttention
from torchtitan.models.llama3 import model_registry

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(1)
config = model_registry("debugmodel").model
for layer in config.layers:
    layer.attention.inner_attention = ScaledDotProductAttention.Config()  # flex attention would be compiled
model = config.build()
model.init_weights()
apply_fsdp_to_decoder(model, mesh, torch.float32, torch.float32, pp_enabled=False)
for module in model.modules():
    if isinstance(module, FSDPModule):
        module.set_force_sum_reduction_for_comms(True)
optimizer = default_adamw(1e-3).build(model_parts=[model])
torch.manual_seed(2 + dist.get_rank())
positions = torch.arange(65)
begin = time.perf_counter()
for _ in range(20):
    tokens = (torch.randint(2048, (4, 1)) + positions) % 2048
    optimizer.zero_grad()
    loss = cross_entropy_loss(model(tokens[:, :-1]), tokens[:, 1:]) / 256
    loss.backward()
    norm = clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
seconds = time.perf_counter() - begin
loss = dist_mean(loss.detach(), mesh)
if dist.get_rank() == 0:
    print("RESULT", loss, norm.item(), *(each.to_local().double().abs().sum().item() for each in list(model.parameters())[:4]))
    print("SECONDS", seconds)
dist.destroy_process_group()
