"""PyTorch-Ignite: idist.Parallel(backend="gloo"), an engine with a metric over all ranks."""
import sys

from program import Program, main, torchrun

if __name__ == "__main__" and sys.argv[1:] != ["rank"]:
    main(Program("ignite_parallel", "pytorch-ignite", "idist.Parallel, a trainer and a metric, 2 ranks", torchrun(__file__, "rank"),
                 near=1e-4))
    sys.exit()

import time

import ignite.distributed as idist
import torch
from ignite.engine import Engine
from ignite.metrics import Accuracy


def train(rank):
    torch.manual_seed(1)
    model = idist.auto_model(torch.nn.Linear(32, 4))
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=0.1))
    torch.manual_seed(rank)

    def step(engine, batch):
        inputs, labels = torch.randn(16, 32), torch.randint(0, 4, (16,))
        outputs = model(inputs)
        loss = torch.nn.functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return outputs, labels
    engine = Engine(step)
    Accuracy().attach(engine, "accuracy")
    begin = time.perf_counter()
    state = engine.run(range(500), max_epochs=2)
    seconds = time.perf_counter() - begin
    gathered = idist.all_gather(torch.tensor([float(rank)]))
    if rank == 0:
        print("RESULT", idist.backend(), state.metrics["accuracy"], gathered.tolist(),
              *(each.double().abs().sum().item() for each in model.parameters()))
        print("SECONDS", seconds)


with idist.Parallel(backend="gloo") as parallel:
    parallel.run(train)
