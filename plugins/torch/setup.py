"""Builds tutti_torch against the torch that is installed.

Tutti itself is that of the prefix that TUTTI_HOME names, or of tutti-comm where that is installed too. Else, or if
TUTTI_TORCH_BUILD names a folder for it, it is built by CMake from the tree that this folder lies in, and libtutti.so travels
inside the package. Its CUDA parts are in it where nvcc is found; TUTTI_CUDA=ON has the build fail without, TUTTI_CUDA=OFF
leaves them out. TORCH_CUDA_ARCH_LIST ("8.0;9.0+PTX") names the architectures, else CMake's own choice counts.
"""
import importlib.util
import os
import pathlib
import platform
import shutil
import site
import subprocess
import sys
import sysconfig

COMMS_LIBRARY = "$ORIGIN/../tutti_comm/lib"
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def find_torch():
    """pip builds in an environment of its own, which hides the installed torch; compiling needs that very one."""
    try:
        import torch  # noqa: F401
        return
    except ImportError:
        pass
    places = [sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]]
    places += site.getsitepackages() + [site.getusersitepackages()]
    sys.path += [place for place in places if place not in sys.path]
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise SystemExit(f"tutti_torch is compiled against torch, so install torch (2.6 or newer) first: {error}")


def run(*command):
    print("+", *command, flush=True)
    subprocess.check_call([str(part) for part in command])


def installed_tutti():
    """(prefix, folder of the library, where the extension looks for it) of an installed Tutti, or None."""
    home = os.environ.get("TUTTI_HOME")
    if home:
        folders = [path for name in ("lib", "lib64") for path in pathlib.Path(home, name).rglob("libtutti.so.0")]
        if not folders:
            raise SystemExit(f"no libtutti.so.0 below TUTTI_HOME={home}")
        return pathlib.Path(home), folders[0].parent, folders[0].parent
    comm = importlib.util.find_spec("tutti_comm")
    if comm and not os.environ.get("TUTTI_TORCH_BUILD"):
        prefix = pathlib.Path(comm.origin).parent
        return prefix, prefix / "lib", COMMS_LIBRARY
    return None


def architectures(wanted):
    """TORCH_CUDA_ARCH_LIST in CMake's words: only what has +PTX brings its code along for later GPUs."""
    listed = []
    for entry in wanted.replace(",", ";").replace(" ", ";").split(";"):
        if not entry:
            continue
        number, _, ptx = entry.partition("+")
        if not number.replace(".", "").rstrip("af").isdigit() or ptx not in ("", "PTX"):
            raise SystemExit(f"TORCH_CUDA_ARCH_LIST: {entry} is no architecture such as 9.0 or 9.0+PTX")
        listed.append(number.replace(".", "") + ("" if ptx else "-real"))
    return ";".join(listed)


def built_tutti():
    """Builds a Tutti into the package, and returns the same three."""
    if not (ROOT / "include" / "tutti" / "tutti.h").exists():
        raise SystemExit("Tutti's sources are not around plugins/torch; set TUTTI_HOME to the prefix of an installed one")
    build = pathlib.Path(os.environ.get("TUTTI_TORCH_BUILD", ROOT / "build" / "torch-plugin"))
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    wanted = architectures(os.environ.get("TORCH_CUDA_ARCH_LIST", ""))
    named = [f"-DCMAKE_CUDA_ARCHITECTURES={wanted}"] if wanted else []
    run("cmake", "-S", ROOT, "-B", build, *generator, *launcher, "-DCMAKE_BUILD_TYPE=Release", "-DTUTTI_TESTS=OFF",
        "-DTUTTI_BENCH=OFF", f"-DTUTTI_CUDA={os.environ.get('TUTTI_CUDA', 'AUTO')}", *named)
    run("cmake", "--build", build, "--target", "tutti", "-j", os.environ.get("MAX_JOBS", os.cpu_count() or 1))
    library = HERE / "tutti_torch" / "lib"
    library.mkdir(exist_ok=True)
    for old in library.glob("libtutti.so*"):
        old.unlink()
    shutil.copy(build / "src" / "libtutti.so", library / "libtutti.so.0")
    return ROOT, library, "$ORIGIN/lib"


def cuda_headers(wheels, home):
    """Where cuda_runtime_api.h is: in the wheels that torch brought, or in CUDA_HOME; None if nowhere. It includes some of
    crt/, which is in a wheel of its own that torch does not bring."""
    places = sorted(wheels.glob("cu[0-9]*/include")) + sorted(wheels.glob("*/include"))
    if home:
        places += [pathlib.Path(home, folder) for folder in ("include", f"targets/{platform.machine()}-linux/include")]
    for place in places:
        if all((place / name).exists() for name in ("cuda_runtime_api.h", "crt/host_defines.h")):
            return place
    return None


def cuda_runtime(wheels, headers):
    """CUDA's runtime: the one that torch brought, whosever the headers are, else the one of the headers; or None."""
    found = sorted(wheels.glob("*/lib/libcudart.so*")) or sorted(headers.parent.glob("lib*/libcudart.so*"))
    return found[0] if found else None


def extension():
    import torch
    from torch.utils.cpp_extension import CUDA_HOME, CppExtension

    prefix, library, run_path = installed or built_tutti()
    sources = sorted(str(path.relative_to(HERE)) for path in (HERE / "csrc").glob("*.cc"))
    options = dict(
        include_dirs=[str(prefix / "include"), str(HERE / "csrc")],
        library_dirs=[str(library)],
        libraries=[],
        define_macros=[],
        extra_compile_args=["-std=c++20", "-O2", "-g1", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fvisibility=hidden"],
        extra_link_args=["-Wl,--no-as-needed", "-l:libtutti.so.0", f"-Wl,-rpath,{run_path}"],
    )
    if torch.version.cuda and (int(major), int(minor)) >= (2, 15):  # what is used of it needs none of CUDA's headers
        options["define_macros"].append(("TUTTI_TORCH_CUDA", "1"))
        return CppExtension("tutti_torch._C", sources, **options)
    wheels = pathlib.Path(torch.__file__).parent.parent / "nvidia"
    headers = cuda_headers(wheels, CUDA_HOME) if torch.version.cuda else None
    if headers:
        options["include_dirs"].append(str(headers))
        options["define_macros"].append(("TUTTI_TORCH_CUDA", "1"))
        options["libraries"] += ["c10_cuda"]
        runtime = cuda_runtime(wheels, headers)
        options["extra_link_args"] += [str(runtime)] if runtime else []
    elif torch.version.cuda:
        print("tutti_torch: torch has CUDA but cuda_runtime_api.h, with crt/host_defines.h beside it, is nowhere: "
              "tensors on a GPU are left out", flush=True)
    return CppExtension("tutti_torch._C", sources, **options)


if __name__ == "__main__":  # a test imports this file
    from setuptools import setup

    find_torch()
    import torch
    from torch.utils.cpp_extension import BuildExtension

    major, minor = torch.__version__.split("+")[0].split(".")[:2]
    if (int(major), int(minor)) < (2, 6):
        raise SystemExit(f"tutti_torch needs torch 2.6 or newer, this is {torch.__version__}")

    installed = installed_tutti()
    uses_comm = installed is not None and installed[2] == COMMS_LIBRARY
    (HERE / "tutti_torch" / "build_options.py").write_text(
        f"# Written by setup.py.\nUSES_TUTTI_COMM = {uses_comm}  # whose libtutti.so this package was built to use\n")
    for stale in (HERE / "build").glob("lib*"):  # setuptools would put in what another kind of build left there
        shutil.rmtree(stale)

    setup(
        name="tutti-torch",
        version="0.1.0",
        description="The backend 'tutti' of torch.distributed",
        packages=["tutti_torch", "tutti_torch.hvd", "tutti_torch.hvd.elastic"],
        py_modules=["tutti_torch_as"],
        entry_points={
            "torch.distributed.backends": ["tutti = tutti_torch:register"],
            "torch.backends": ["tutti = tutti_torch_as:take_named"],
        },
        install_requires=[f"torch=={major}.{minor}.*"]  # c10d::Backend stays the same for so long
        + (["tutti-comm==0.1.*"] if uses_comm else []),
        package_data={"tutti_torch": [] if installed else ["lib/*"]},
        ext_modules=[extension()],
        cmdclass={"build_ext": BuildExtension.with_options(use_ninja=shutil.which("ninja") is not None)},
        options={"build_ext": {"force": True}},  # what was linked for another Tutti would be taken for new
        python_requires=">=3.9",
    )
