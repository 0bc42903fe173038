"""python -m tutti_comm: prints the version, or where what others compile against is."""
import argparse

import tutti_comm

PLACES = {"prefix": ".", "include": "include", "cmakedir": "lib/cmake/tutti", "pkgconfigdir": "lib/pkgconfig"}

parser = argparse.ArgumentParser(prog="python -m tutti_comm", description="Prints where Tutti is.")
choice = parser.add_mutually_exclusive_group(required=True)
choice.add_argument("--version", action="store_true", help="the library's version")
for name, place in PLACES.items():
    choice.add_argument(f"--{name}", dest="place", action="store_const", const=place, help=f"the folder of {name}")
arguments = parser.parse_args()
print(tutti_comm.__version__ if arguments.version else (tutti_comm.prefix() / arguments.place).resolve())
