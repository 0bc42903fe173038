"""In which kind of process the backend cannot use a GPU: a new one, or a child of a fork server that has loaded nothing, or
torch and the plugin; with torch alone, with the plugin loaded, in a call of one rank, or of two. Each case has a process of its
own, and each rank prints its stages before they begin: if it ends there, the last line says where. A signal prints the frames,
those of C too where there is a compiler. Arguments are the numbers of cases. Run by tools/gpu-check.sh."""
import ctypes
import faulthandler
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile

LOADED = {"a new process": None, "a fork server's child": [],
          "a child of a fork server that has loaded the plugin": ["torch", "tutti_torch", "torch.distributed"]}
RANKS = {"torch alone": 1, "the plugin loaded": 1, "a call": 1, "a call of two ranks": 2}
CASES = [(work, process) for work in RANKS for process in LOADED]
TRACER = r"""
#include <execinfo.h>
#include <signal.h>
#include <unistd.h>
static void (*python[65])(int);
static void tell(int number) {
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  signal(number, python[number]); /* Python tells its own frames */
  raise(number);
}
void trace_signals(void) {
  void* first[1];
  backtrace(first, 1); /* loads what it needs */
  const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT};
  for (int i = 0; i < 3; ++i) python[numbers[i]] = signal(numbers[i], tell);
}
"""


def stage(name):
    os.write(1, f"  {os.getpid()}: {name}\n".encode())


def be_rank(rank, work, folder):
    faulthandler.enable()
    tracer = os.path.join(folder, "tracer.so")
    if os.path.exists(tracer):
        ctypes.CDLL(tracer).trace_signals()
    stage("import torch")
    import torch

    stage("begin to use the GPU")
    torch.cuda.set_device(0)
    tensor = torch.ones(1000, device="cuda")
    torch.cuda.synchronize()
    if work != "torch alone":
        stage("import tutti_torch")
        import tutti_torch  # noqa: F401

        stage("use the GPU again")
        tensor *= 1
        torch.cuda.synchronize()
    if work.startswith("a call"):
        make_calls(torch, tensor, rank, RANKS[work], folder)
    stage("end")


def make_calls(torch, tensor, rank, ranks, folder):
    import torch.distributed as dist

    stage("make a group")
    dist.init_process_group("cpu:tutti,cuda:tutti", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    stage("call with a tensor of the host")
    dist.all_reduce(torch.ones(1000))
    stage("call with a tensor of the GPU")
    dist.all_reduce(tensor)
    stage("wait for it")
    torch.cuda.synchronize()
    assert tensor.cpu().eq(ranks).all()
    stage("end the group")
    dist.destroy_process_group()


def run_case(number):
    work, process = CASES[number]
    loaded = LOADED[process]
    context = multiprocessing.get_context("spawn" if loaded is None else "forkserver")
    if loaded is not None:
        context.set_forkserver_preload(loaded)
    with tempfile.TemporaryDirectory() as folder:
        if shutil.which("cc"):
            subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", "-o", f"{folder}/tracer.so"], input=TRACER.encode(), check=True)
        ranks = [context.Process(target=be_rank, args=(rank, work, folder)) for rank in range(RANKS[work])]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join(30)
            if one.exitcode is None:
                one.kill()
                one.join()
        print("  exit codes:", *(one.exitcode for one in ranks), flush=True)
        return any(one.exitcode for one in ranks)


def main():
    if sys.argv[1:2] == ["--case"]:
        return run_case(int(sys.argv[2]))
    failed = []
    for number in map(int, sys.argv[1:] or range(len(CASES))):
        work, process = CASES[number]
        print(f"{number}: {work}, in {process}", flush=True)
        if subprocess.run([sys.executable, __file__, "--case", str(number)], check=False).returncode != 0:
            failed.append(number)
    print("failed:", *failed or ["none"])
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
