"""fairscale's OSS and ShardedDataParallel: each rank keeps a part of the optimizer's state and reduces its gradients."""
import sys

from program import Program, main, torchrun

if __name__ == "__main__" and sys.argv[1:] != ["rank"]:
    main(Program("fairscale_oss", "fairscale", "OSS and ShardedDataParallel, 2 ranks", torchrun(__file__, "rank"), near=1e-4))
    sys.exit()

import time
import warnings

import torch
import torch.distributed as dist
from fairscale.nn.data_parallel import ShardedDataParallel
from fairscale.optim.oss import OSS

warnings.simplefilter("ignore")
dist.init_process_group("gloo")
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(),
                            torch.nn.Linear(256, 10))
optimizer = OSS(model.parameters(), torch.optim.Adam, lr=1e-3)
model = ShardedDataParallel(model, optimizer)
torch.manual_seed(2 + dist.get_rank())
begin = time.perf_counter()
for _ in range(200):
    inputs = torch.randn(8, 64)
    model.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), inputs[:, :10].argmax(1)).backward()
    optimizer.step()
if dist.get_rank() == 0:
    print("SECONDS", time.perf_counter() - begin)
    print("RESULT", *(each.double().abs().sum().item() for each in model.parameters()))
dist.destroy_process_group()
