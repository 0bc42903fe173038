"""A training that test_hvd_elastic.py starts by `python -m tutti_torch.hvd.elastic`.

    elastic_program.py FOLDER STEPS SIZE [PLACE:STEP:WHAT ...]

It makes STEPS steps and as many more as it takes until there are SIZE workers. Before STEP the worker at PLACE does WHAT: it
is killed, stops, leaves with an error, or raises one. In the end each worker writes FOLDER/PLACE.json."""
import json
import os
import signal
import sys
import time

import torch

import tutti_torch.hvd as hvd

SAMPLES = 60


def gradient(step):
    return float(step % 7 - 3)


def weight_after(steps):
    """Of a training in one process: all ranks have the same gradients, small integers, so no sum is rounded."""
    weight, momentum = 0.0, 0.0
    for step in range(steps):
        momentum = 0.5 * momentum + gradient(step)
        weight -= 0.25 * momentum
    return weight


def act(place, step, plans):
    for plan in plans:
        who, when, what = plan.split(":")
        if (int(who), int(when)) != (place, step):
            continue
        if what == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "stops":
            os.kill(os.getpid(), signal.SIGSTOP)
        if what == "leaves":
            os._exit(3)
        raise ValueError("planned")


def main():
    folder, steps, size, plans = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    torch.set_num_threads(1)
    hvd.init()
    place = int(os.environ["HVD_ELASTIC_PLACE"])
    with open(f"{folder}/{place}.pid", "w") as file:
        file.write(str(os.getpid()))
    model = torch.nn.Linear(1, 1, bias=False).double()
    torch.nn.init.constant_(model.weight, 0.0 if place == 0 else 100.0 + place)  # others take over that of rank 0
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.5),
                                         named_parameters=model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(range(SAMPLES))
    sizes, resets, samples = [], [], []

    @hvd.elastic.run
    def train(state, word):
        sizes.append(hvd.size())
        samples.append(list(state.sampler))
        batch = 0
        while state.step < steps or hvd.size() < size:
            act(place, state.step, plans)
            optimizer.zero_grad()
            model(torch.full((1, 1), gradient(state.step)).double()).sum().backward()
            optimizer.step()
            state.sampler.record_batch(batch, 1)
            batch += 1
            state.step += 1
            time.sleep(0.005)
            state.commit()
        return word

    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, step=0)
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])
    word = train(state, "done")
    told = {"word": word, "step": state.step, "weight": model.weight.item(), "rank": hvd.rank(), "size": hvd.size(),
            "sizes": sizes, "resets": resets, "samples": samples, "processed": sorted(sampler.processed_indices)}
    with open(f"{folder}/{place}.json", "w") as file:
        json.dump(told, file)
    hvd.shutdown()


if __name__ == "__main__":
    main()
