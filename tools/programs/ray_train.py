"""Ray Train with its TorchTrainer, whose workers take Gloo on the CPU."""
import sys

from program import Program, main

if __name__ == "__main__" and sys.argv[1:] != ["rank"]:
    main(Program("ray_train", "ray", "TorchTrainer, 2 workers", ["{python}", __file__, "rank"], ["ray[train]"], near=1e-4,
                 environment={"RAY_TRAIN_V2_ENABLED": "1", "RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0",
                              "RAY_AUTH_MODE": "disabled"}))
    sys.exit()

import pathlib
import tempfile

import ray
import ray.train
from ray.train.torch import TorchTrainer


def train(config):
    import time

    import torch
    import torch.distributed as dist
    from ray.train.torch import prepare_model
    torch.manual_seed(1)
    model = prepare_model(torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(dist.get_rank())
    begin = time.perf_counter()
    for _ in range(1000):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 32)), torch.randint(0, 4, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    seconds = time.perf_counter() - begin
    total = sum(each.double().abs().sum().item() for each in model.parameters())
    if dist.get_rank() == 0:
        pathlib.Path(config["outcome"]).write_text(f"RESULT {dist.get_backend()} {total}\nSECONDS {seconds}")


ray.init(num_cpus=2, log_to_driver=False)
with tempfile.TemporaryDirectory() as folder:
    outcome = pathlib.Path(folder, "outcome")
    trainer = TorchTrainer(train, train_loop_config={"outcome": str(outcome)},
                           scaling_config=ray.train.ScalingConfig(num_workers=2, use_gpu=False), run_config=ray.train.RunConfig(storage_path=folder))
    trainer.fit()
    print(outcome.read_text())
