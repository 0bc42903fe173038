"""torchmetrics gathers the state of its metrics from all ranks."""
import sys

from program import Program, main, torchrun

if __name__ == "__main__" and sys.argv[1:] != ["rank"]:
    main(Program("torchmetrics_sync", "torchmetrics", "metrics over 2 ranks", torchrun(__file__, "rank"), near=1e-6))
    sys.exit()

import time

import torch
import torch.distributed as dist
import torchmetrics

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
metrics = torchmetrics.MetricCollection([torchmetrics.classification.MulticlassAccuracy(5), torchmetrics.CatMetric(),
                                         torchmetrics.classification.MulticlassConfusionMatrix(5)], compute_groups=False)
begin = time.perf_counter()
for _ in range(100):
    guesses, labels = torch.randint(0, 5, (1000 + dist.get_rank(),)), torch.randint(0, 5, (1000 + dist.get_rank(),))
    for name, metric in metrics.items():
        metric.update(guesses.float()) if name == "CatMetric" else metric.update(guesses, labels)
    values = {name: metric.compute() for name, metric in metrics.items()}
if dist.get_rank() == 0:
    print("RESULT", {name: value.double().sum().item() for name, value in values.items()})
    print("SECONDS", time.perf_counter() - begin)
dist.destroy_process_group()
