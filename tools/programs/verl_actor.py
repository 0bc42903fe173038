"""Workers of verl, on Ray, that train a policy by verl's advantages, loss and FSDP."""
import sys

from program import Program, main

if __name__ == "__main__" and sys.argv[1:] != ["rank"]:
    main(Program("verl_actor", "verl", "2 workers, PPO's loss, FSDP of a small Qwen2", ["{python}", __file__, "rank"], near=1e-3,
                 environment={"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "TOKENIZERS_PARALLELISM": "false"}))
    sys.exit()

import time

import numpy
import ray
import torch
from torch.distributed.device_mesh import init_device_mesh
from transformers import Qwen2Config, Qwen2ForCausalLM
from verl import DataProto
from verl.single_controller.base import Worker
from verl.single_controller.base.decorator import Dispatch, register
from verl.single_controller.ray import RayClassWithInitArgs, RayResourcePool, RayWorkerGroup
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, compute_policy_loss
from verl.utils.distributed import initialize_global_process_group_ray
from verl.utils.fsdp_utils import apply_fsdp2
from verl.utils.torch_functional import allgather_dict_tensors, distributed_masked_mean, logprobs_from_logits


@ray.remote
class Actor(Worker):
    def __init__(self):
        super().__init__()
        initialize_global_process_group_ray(backend="cpu:gloo")
        torch.manual_seed(1)
        self.policy = Qwen2ForCausalLM(Qwen2Config(vocab_size=256, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
                                                   num_attention_heads=4, num_key_value_heads=2))
        apply_fsdp2(self.policy, {"mesh": init_device_mesh("cpu", (2,))}, {})
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=1e-3)

    def log_probabilities(self, tokens):
        return logprobs_from_logits(self.policy(input_ids=tokens[:, :-1]).logits, tokens[:, 1:])

    @register(Dispatch.DP_COMPUTE_METRIC)
    def update(self, data):
        tokens, advantages = data.batch["tokens"], data.batch["advantages"]
        mask = torch.ones_like(advantages)
        with torch.no_grad():
            old = self.log_probabilities(tokens)
        begin = time.perf_counter()
        for _ in range(30):
            self.optimizer.zero_grad()
            loss = compute_policy_loss(old, self.log_probabilities(tokens), advantages, mask, cliprange=0.2)[0]
            loss.backward()
            self.optimizer.step()
        seconds = time.perf_counter() - begin
        with torch.no_grad():
            new = self.log_probabilities(tokens)
        gathered = allgather_dict_tensors({"new": new}, 2, None)["new"]
        return [loss.item(), distributed_masked_mean(new - old, mask).item(), gathered.double().sum().item()], seconds


ray.init(num_cpus=2, log_to_driver=False)
workers = RayWorkerGroup(RayResourcePool([2], use_gpu=False, max_colocate_count=1), RayClassWithInitArgs(Actor))
torch.manual_seed(2)
tokens = torch.randint(256, (16, 33))
rewards = torch.zeros(16, 32)
rewards[:, -1] = (tokens % 2).float().mean(1)
advantages, _ = compute_grpo_outcome_advantage(rewards, torch.ones(16, 32), numpy.arange(16) // 4)
outcomes = workers.update(DataProto.from_single_dict({"tokens": tokens, "advantages": advantages}))
print("RESULT", *(outcome for outcome, _ in outcomes))
print("SECONDS", max(seconds for _, seconds in outcomes))
