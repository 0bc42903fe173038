"""Opacus clips the gradient of each sample and sums over ranks, without the noise, which is another each time."""
import sys

from program import Program, main, torchrun

if __name__ == "__main__" and sys.argv[1:] != ["rank"]:
    main(Program("opacus_private", "opacus", "clipped training, 2 ranks", torchrun(__file__, "rank"), near=1e-4))
    sys.exit()

import time
import warnings

import opacus
import torch
import torch.distributed as dist
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel

warnings.simplefilter("ignore")
dist.init_process_group("gloo")
torch.manual_seed(1)
torch.manual_seed(2 + dist.get_rank())
data = torch.utils.data.TensorDataset(torch.randn(512, 32), torch.randint(0, 4, (512,)))
torch.manual_seed(1)
model = DifferentiallyPrivateDistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.ReLU(),
                                                                         torch.nn.Linear(256, 4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = opacus.PrivacyEngine().make_private(
    module=model, optimizer=optimizer, data_loader=torch.utils.data.DataLoader(data, batch_size=32), noise_multiplier=0.0,
    max_grad_norm=1.0, poisson_sampling=False)
begin = time.perf_counter()
for _ in range(20):
    for inputs, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
if dist.get_rank() == 0:
    print("RESULT", *(each.double().abs().sum().item() for each in model.parameters()))
    print("SECONDS", time.perf_counter() - begin)
dist.destroy_process_group()
