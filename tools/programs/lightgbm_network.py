"""LightGBM on two processes: with its own sockets, and with tutti_comm as its network (LGBM_NetworkInitWithFunctions).

It takes the wheel that tools/wheels.sh --comm makes.
"""
import sys

from program import Program, main

if __name__ == "__main__" and sys.argv[1:2] not in (["sockets"], ["tutti"]):
    main(Program("lightgbm_network", "lightgbm", "training with tree_learner=data, 2 processes", ["{python}", __file__, "tutti"],
                 ["lightgbm", "scikit-learn", "build/wheels/tutti_comm-*.whl"], plain_command=["{python}", __file__, "sockets"], against="its sockets",
                 by="tutti_comm"))
    sys.exit()

import ctypes
import multiprocessing
import os
import socket
import tempfile
import time

SIZE = 2
int32, pointer = ctypes.c_int32, ctypes.c_void_p
REDUCER = ctypes.CFUNCTYPE(None, pointer, pointer, ctypes.c_int, int32)
REDUCE_SCATTER = ctypes.CFUNCTYPE(None, pointer, int32, ctypes.c_int, ctypes.POINTER(int32), ctypes.POINTER(int32), ctypes.c_int,
                                  pointer, int32, ctypes.POINTER(REDUCER))
ALL_GATHER = ctypes.CFUNCTYPE(None, pointer, int32, ctypes.POINTER(int32), ctypes.POINTER(int32), ctypes.c_int, pointer, int32)


def memory(address, size):
    return (ctypes.c_uint8 * size).from_address(address)


def network_of(comm):
    """LightGBM's two functions: blocks of bytes that are reduced by its own function, and blocks that are gathered."""
    def reduce_scatter(data, size, type_size, begins, sizes, blocks, out, out_size, reducer):
        mine = sizes[comm.rank]
        received = bytearray(mine * blocks)
        comm.all_to_all_v(memory(data, size), sizes[:blocks], received, [mine] * blocks, begins[:blocks])
        address = ctypes.addressof((ctypes.c_uint8 * len(received)).from_buffer(received))
        ctypes.memmove(out, address, mine)
        for rank in range(1, blocks):
            reducer[0](address + rank * mine, out, type_size, mine)

    def all_gather(data, size, begins, sizes, blocks, out, out_size):
        comm.all_gather_v(memory(data, sizes[comm.rank]), memory(out, out_size), sizes[:blocks], begins[:blocks])
    return REDUCE_SCATTER(reduce_scatter), ALL_GATHER(all_gather)


def train(rank, network, url, ports, results):
    import lightgbm
    import numpy
    numbers = numpy.random.default_rng(1)
    inputs = numbers.normal(size=(20000, 50))
    labels = (inputs[:, :5].sum(axis=1) + numbers.normal(size=20000) > 0).astype(int)
    options = {"objective": "binary", "tree_learner": "data", "num_machines": SIZE, "num_threads": 1, "verbose": -1,
               "pre_partition": True, "seed": 1}
    if network == "tutti":
        import tutti_comm
        comm = tutti_comm.init(url, size=SIZE, rank=rank)
        functions = network_of(comm)
        library = lightgbm.basic._LIB
        assert library.LGBM_NetworkInitWithFunctions(SIZE, rank, *(ctypes.cast(each, pointer) for each in functions)) == 0
    else:
        options |= {"machines": ",".join(f"127.0.0.1:{port}" for port in ports), "local_listen_port": ports[rank]}
    begin = time.perf_counter()
    booster = lightgbm.train(options, lightgbm.Dataset(inputs[rank::SIZE], labels[rank::SIZE]), 50)
    seconds = time.perf_counter() - begin
    results.put((rank, seconds, float(numpy.abs(booster.predict(inputs) - labels).mean()), booster.num_trees()))
    if network == "tutti":
        lightgbm.basic._LIB.LGBM_NetworkFree()
        comm.close()


def free_ports():
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    results, ports = context.Queue(), free_ports()
    with tempfile.TemporaryDirectory() as folder:
        url = f"file://{os.path.join(folder, 'join')}"
        processes = [context.Process(target=train, args=(rank, sys.argv[1], url, ports, results)) for rank in range(SIZE)]
        for process in processes:
            process.start()
        outcomes = sorted(results.get(timeout=300) for _ in processes)
        for process in processes:
            process.join()
    print("RESULT", *(outcome[2:] for outcome in outcomes))
    print("SECONDS", max(outcome[1] for outcome in outcomes))
    sys.exit(any(process.exitcode for process in processes))
