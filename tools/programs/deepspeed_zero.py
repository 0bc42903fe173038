"""DeepSpeed's ZeRO, stages 1 and 2, on the CPU."""
import sys

from program import Program, main, torchrun

if __name__ == "__main__" and sys.argv[1:] != ["rank"]:
    main(Program("deepspeed_zero", "deepspeed", "ZeRO 1 and 2, 2 ranks", torchrun(__file__, "rank"), near=1e-4,
                 environment={"DS_ACCELERATOR": "cpu"}))
    sys.exit()

import time

import deepspeed
import torch
import torch.distributed as dist

deepspeed.init_distributed(dist_backend="gloo")
seconds = 0
for stage in (1, 2):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    config = {"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True}
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), config=config)
    torch.manual_seed(dist.get_rank())
    begin = time.perf_counter()
    for _ in range(200):
        loss = torch.nn.functional.cross_entropy(engine(torch.randn(8, 64)), torch.randint(0, 10, (8,)))
        engine.backward(loss)
        engine.step()
    seconds += time.perf_counter() - begin
    dist.all_reduce(loss := loss.detach())
    if dist.get_rank() == 0:
        print("RESULT", stage, loss.item() / 2, *(each.double().abs().sum().item() for each in model.parameters()))
if dist.get_rank() == 0:
    print("SECONDS", seconds)
dist.destroy_process_group()
