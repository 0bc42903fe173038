#!/usr/bin/env python3
"""plugins/torch/setup.py: which of CUDA's headers, and which runtime, the backend for PyTorch is built with."""
# Covers plugins/torch/setup.py.
import importlib.util
import pathlib
import platform
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("torch_setup", ROOT / "plugins" / "torch" / "setup.py")
torch_setup = importlib.util.module_from_spec(spec)
spec.loader.exec_module(torch_setup)

HEADERS = ("cuda_runtime_api.h", "crt/host_defines.h")


class Cuda(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.wheels, self.home = pathlib.Path(place.name, "nvidia"), pathlib.Path(place.name, "cuda")

    @staticmethod
    def make(folder, *names):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        return folder

    def headers(self):
        return torch_setup.cuda_headers(self.wheels, str(self.home))

    def test_the_wheels_come_first(self):
        self.make(self.home / "include", *HEADERS)
        older = self.make(self.wheels / "cuda_runtime/include", *HEADERS)
        self.assertEqual(self.headers(), older)
        newer = self.make(self.wheels / "cu13/include", *HEADERS)
        self.assertEqual(self.headers(), newer)

    def test_wheels_without_all_headers_are_passed_over(self):
        self.make(self.wheels / "cu13/include", "cuda_runtime_api.h")
        self.make(self.wheels / "cuda_nvcc/include", "crt/host_defines.h")
        home = self.make(self.home / "include", *HEADERS)
        self.assertEqual(self.headers(), home)

    def test_the_folder_of_the_machine_in_cuda_home(self):
        self.make(self.home / "include", "cuda_runtime_api.h")
        home = self.make(self.home / f"targets/{platform.machine()}-linux/include", *HEADERS)
        self.assertEqual(self.headers(), home)

    def test_nowhere(self):
        self.make(self.wheels / "cu13/include", "cuda_runtime_api.h")
        self.assertIsNone(self.headers())
        self.assertIsNone(torch_setup.cuda_headers(self.wheels, None))

    def test_the_runtime_is_that_of_torch(self):
        headers = self.home / "include"
        self.assertIsNone(torch_setup.cuda_runtime(self.wheels, headers))
        self.make(self.home, "lib64/libcudart.so", "lib64/libcudart.so.13")
        self.assertEqual(torch_setup.cuda_runtime(self.wheels, headers), self.home / "lib64/libcudart.so")
        self.make(self.wheels, "cu13/lib/libcudart.so.13")
        self.assertEqual(torch_setup.cuda_runtime(self.wheels, headers), self.wheels / "cu13/lib/libcudart.so.13")


if __name__ == "__main__":
    unittest.main()
