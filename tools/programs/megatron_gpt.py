"""Megatron-core's GPT, its layers cut between ranks; the spec names torch's attention, as Megatron's needs CUDA."""
import sys

from program import Program, main, torchrun

if __name__ == "__main__" and sys.argv[1:] != ["rank"]:
    main(Program("megatron_gpt", "megatron-core", "GPTModel, tensor-parallel, 2 ranks", torchrun(__file__, "rank"), near=1e-4,
                 environment={"CUDA_DEVICE_MAX_CONNECTIONS": "1", "PYTHONWARNINGS": "ignore"}))
    sys.exit()

import time

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.transformer import MegatronModule, TransformerConfig


class Attention(MegatronModule):
    def __init__(self, config, **_):
        super().__init__(config)

    def forward(self, *inputs, **_):
        query, key, value = (each.permute(1, 2, 0, 3) for each in inputs[:3])
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return mixed.permute(2, 0, 1, 3).flatten(2)


dist.init_process_group("gloo")
parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)
torch.manual_seed(1)
config = TransformerConfig(num_layers=2, hidden_size=128, num_attention_heads=4, hidden_dropout=0, attention_dropout=0,
                           tensor_model_parallel_size=2, use_cpu_initialization=True, bias_activation_fusion=False)
layer = get_gpt_layer_local_spec()
layer.submodules.self_attention.submodules.core_attention = Attention
model = GPTModel(config, layer, vocab_size=256, max_sequence_length=64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
positions = torch.arange(65)
begin = time.perf_counter()
for _ in range(100):
    tokens = (torch.randint(256, (4, 1)) + positions) % 256
    loss = model(tokens[:, :-1], positions[:-1].expand(4, -1), None, labels=tokens[:, 1:]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if dist.get_rank() == 0:
    print("SECONDS", time.perf_counter() - begin)
    print("RESULT", loss.item(), *(each.double().abs().sum().item() for each in model.parameters()))
dist.destroy_process_group()
