"""Where the tests of tensors on devices run: on GPUs, or on a stand-in that takes the host's memory for that of GPUs.

The stand-in is a device of torch that stand_in/torch_device.cc registers, and a libtutti.so.0 whose driver it is, which
TUTTI_TEST_STAND_IN names (the target tutti_stand_in builds it). Both have the name "standin" here. It is taken where it can
be had, which takes torch 2.15 (the first whose devices tell the handles of their streams), else GPUs are. This module has to
be imported before tutti_torch.
"""
import contextlib
import ctypes
import importlib.util
import os
import subprocess
import sys
import sysconfig
import time
import types

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
# A fork server imports this module, and if the server uses CUDA, its children cannot. So torch looks for GPUs without it.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
library = os.environ.get("TUTTI_TEST_STAND_IN")
extension = None  # the stand-in's, where that is taken


def build():
    """Compiles the stand-in's device for this torch, and returns its path."""
    folder = os.path.join(os.path.dirname(library), f"torch-{torch.__version__}")
    made = os.path.join(folder, "torch_stand_in.so")
    sources = [os.path.join(HERE, "stand_in", "torch_device.cc"), os.path.join(HERE, "stand_in", "stand_in_library.h")]
    if os.path.exists(made) and os.path.getmtime(made) > max(map(os.path.getmtime, sources)):
        return made
    from torch.utils.cpp_extension import include_paths, library_paths

    os.makedirs(folder, exist_ok=True)
    root = os.path.dirname(os.path.dirname(HERE))
    command = ["c++", "-std=c++20", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Wno-unused-parameter",
               "-DTORCH_EXTENSION_NAME=torch_stand_in", f"-I{root}/include"]
    command += [f"-isystem{path}" for path in include_paths() + [sysconfig.get_paths()["include"]]]
    command += [sources[0], "-o", made + ".part"]
    command += [f"-L{path}" for path in library_paths()] + ["-lc10", "-ltorch_cpu", "-ltorch_python"]
    subprocess.run(command, check=True)
    os.replace(made + ".part", made)
    return made


def _load(path):
    spec = importlib.util.spec_from_file_location("torch_stand_in", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _take_stand_in():
    global extension
    ctypes.CDLL(library, mode=os.RTLD_GLOBAL)
    extension = _load(build())
    os.environ["TUTTI_TEST_TORCH_DEVICE"] = "standin"
    torch.utils.rename_privateuse1_backend("standin")
    module = types.ModuleType("torch.standin")
    module.is_available = module.is_initialized = lambda: True
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    module.device_count, module.current_device = extension.device_count, extension.current_device
    module.set_device = lambda device: extension.set_device(torch.device(device).index if device else 0)
    torch._register_device_module("standin", module)
    torch.utils.generate_methods_for_privateuse1_backend()
    # A fork server imports this first, and finds modules by this variable alone.
    os.environ["PYTHONPATH"] = os.pathsep.join([HERE] + list(filter(None, [os.environ.get("PYTHONPATH")])))


if library and tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) >= (2, 15):
    assert "tutti_torch" not in sys.modules, "it would use another libtutti.so.0"
    _take_stand_in()

kind = "standin" if extension else "cuda" if torch.cuda.is_available() else None
WHY_NONE = "no GPU, and no torch 2.15 with a library with the stand-in, which TUTTI_TEST_STAND_IN names"
BACKEND = f"cpu:tutti,{kind}:tutti"


def begin(rank, devices=1, same=False, connections=0):
    """In the process of a rank, before its group is made: its device. The stand-in has so many devices for each process;
    with `same` all processes see the same ones."""
    if extension:
        extension.start(devices, 0 if same else rank * devices, connections)
        return torch.device("standin", 0)
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def device_count():
    return extension.device_count() if extension else torch.cuda.device_count()


def fill_later(tensor, value, seconds):
    """The current stream fills the tensor when so many seconds have passed. Returns at once."""
    if extension:
        extension.fill_later(tensor, value, seconds)
    else:
        torch.cuda._sleep(int(seconds * 1.5e9))
        tensor.fill_(value)


def synchronize(device):
    """Waits for the device's current stream."""
    if extension:
        extension.synchronize(device.index, extension.current_stream(device.index))
    else:
        torch.cuda.current_stream(device).synchronize()


@contextlib.contextmanager
def other_stream(device):
    """Another stream than the default one is current."""
    if not extension:
        with torch.cuda.stream(torch.cuda.Stream(device)):
            yield
        return
    before = extension.current_stream(device.index)
    extension.use_stream(device.index, 8)
    try:
        yield
    finally:
        extension.use_stream(device.index, before)


def captured(device, call):
    """What the call puts on the current stream as a function that puts it on the current stream again."""
    if not extension:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        return graph.replay
    extension.begin_capture(device.index)
    call()
    graph = extension.end_capture(device.index)
    assert graph, "the capture has failed"
    return lambda: extension.launch(device.index, graph)


def launches():
    """Kernels so far; None where nobody counts them."""
    return extension.launches() if extension else None


def wait_until(is_so, seconds=20, pause=0.01):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it does not come"
        time.sleep(pause)
