"""tutti-plan as its users meet it, and the pictures of docs/: plan_test.py PROGRAM [--draw | unittest arguments]."""
# Covers tools/plan/*.cc, schedule/simulator/picture.cc, schedule/drawing.cc.
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM = ""
ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"


def plan(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120)


def pictures():
    """(name, arguments) of each picture of docs/."""
    for line in (PICTURES / "commands.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, arguments = line.split(":", 1)
            yield name, arguments.split()


def grids():
    """(file, text, arguments, the lines below) of each picture in a comment of an algorithm."""
    for path in sorted((ROOT / "src" / "collectives").glob("*.h")):
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"^// `tutti-plan (.*--grid)`.*\n//\n((?://   rank .*\n)+)", text, re.M):
            yield path, text, match[1].split(), match[2]


def drawn_grid(arguments):
    run = plan(*arguments)
    assert run.returncode == 0, run.stderr
    return "".join(f"//   {line}\n" for line in run.stdout.splitlines())


class Pictures(unittest.TestCase):
    def test_those_in_comments_are_drawn_again(self):
        found = list(grids())
        self.assertGreater(len(found), 10)
        for path, _, arguments, lines in found:
            with self.subTest(path.name):
                self.assertEqual(drawn_grid(arguments), lines)

    def test_those_of_the_documentation_are_drawn_again(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, arguments in pictures():
                with self.subTest(name):
                    path = pathlib.Path(folder) / f"{name}.svg"
                    run = plan(*arguments, "--svg", str(path))
                    self.assertEqual(run.returncode, 0, run.stderr)
                    self.assertEqual(path.read_bytes(), (PICTURES / f"{name}.svg").read_bytes(),
                                     "docs/pictures differs from what tutti-plan draws; draw it anew with --draw")

    def test_each_file_has_its_command(self):
        self.assertEqual(sorted(path.stem for path in PICTURES.glob("*.svg")), sorted(name for name, _ in pictures()))

    def test_a_picture_has_all_steps_and_messages(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "ring.svg"
            self.assertEqual(plan("all_reduce", "--ranks", "5", "--algo", "ring", "--lanes", "1", "--svg", str(path)).returncode, 0)
            root = xml.etree.ElementTree.parse(path).getroot()
            shapes = [element.tag.split("}")[1] for element in root.iter()]
            # 5 ranks of 9 steps, 5 colours of the key, the background; 8 messages a rank, each a line and a tip.
            self.assertEqual(shapes.count("rect"), 5 * 9 + 5 + 1)
            self.assertEqual(shapes.count("path"), 2 * 5 * 8)

    def test_times_are_on_the_axis(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "timed.svg"
            self.assertEqual(plan("all_reduce", "--ranks", "8", "--bytes", "1M", "--svg", str(path)).returncode, 0)
            self.assertIn(">\u00b5s<", path.read_text(encoding="utf-8"))

    @unittest.skipUnless(shutil.which("rsvg-convert"), "skipped: there is no rsvg-convert")
    def test_png(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tree.png"
            run = plan("broadcast", "--ranks", "4", "--algo", "tree", "--png", str(path))
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(path.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")


class Words(unittest.TestCase):
    def candidates(self, output):
        table = output[output.index("algorithm "):].splitlines()[1:]
        return {line.split()[0]: line for line in table[:next(i for i, line in enumerate(table) if line.startswith("("))]}

    def test_every_collective(self):
        for collective in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "gather", "scatter",
                           "all_to_all", "barrier"):
            for arguments in (("--ranks", "1"), ("--ranks", "6"), ("--ranks", "6", "--transport", "tcp"),
                              ("--ranks", "8", "--hosts", "2"), ("--ranks", "300", "--hosts", "75")):
                with self.subTest(collective, arguments=arguments):
                    run = plan(collective, *arguments, "--bytes", "64K")
                    self.assertEqual(run.returncode, 0, run.stderr)
                    chosen = re.search(r"^Chosen: (\w+) ", run.stdout, re.M).group(1)
                    candidates = self.candidates(run.stdout)
                    self.assertGreater(len(candidates), 1)
                    self.assertIn("<-", candidates[chosen])
                    self.assertEqual(run.stdout.count("<-"), 1)

    def test_the_fastest_comes_first(self):
        run = plan("all_reduce", "--ranks", "8", "--bytes", "1M")
        ratios = [float(re.search(r" (\d+\.\d\d) ", line).group(1)) for line in self.candidates(run.stdout).values()]
        self.assertEqual(ratios, sorted(ratios))
        self.assertEqual(ratios[0], 1.0)

    def test_the_schedule_of_a_rank(self):
        run = plan("all_reduce", "--ranks", "4", "--algo", "ring", "--lanes", "1", "--rank", "2")
        self.assertIn("all_reduce ring: rank 2 of 4; parts 4, input 4, output 4, scratch 0\n"
                      "   0  chunk 2: take input[2], send to 3\n", run.stdout)

    def test_a_tile_that_is_asked_for_holds_for_all_candidates(self):
        run = plan("all_reduce", "--ranks", "8", "--bytes", "1M", "--tile", "64K")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual({line.split()[-2] for line in self.candidates(run.stdout).values() if "<-" not in line}, {"16"})

    def test_costs_from_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".costs") as file:
            file.write("# a slow link\ntcp.latency 1000000000\n")
            file.flush()
            run = plan("all_reduce", "--ranks", "2", "--hosts", "2", "--bytes", "8", "--costs", file.name)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertRegex(run.stdout, r"Predicted: 1(\.\d+)? ms")


class Errors(unittest.TestCase):
    def assert_refused(self, text, *arguments):
        run = plan(*arguments)
        self.assertEqual(run.returncode, 2, run.stdout)
        self.assertIn(text, run.stderr)
        self.assertTrue(run.stderr.startswith("tutti-plan: "), run.stderr)

    def test_bad_options(self):
        self.assert_refused("name one of: all_reduce", "--ranks", "4")
        self.assert_refused("'all_reduse' is none", "all_reduse", "--ranks", "4")
        self.assert_refused("how many ranks", "all_reduce")
        self.assert_refused("is not a size", "all_reduce", "--ranks", "4", "--bytes", "many")
        self.assert_refused("there is no rank 4", "broadcast", "--ranks", "4", "--root", "4")
        self.assert_refused("there is no rank 9", "all_reduce", "--ranks", "4", "--rank", "9")
        self.assert_refused("does not offer 'chain' here; it offers all_pairs", "all_reduce", "--ranks", "4", "--algo", "chain")
        self.assert_refused("5 hosts for 4 ranks", "all_reduce", "--ranks", "4", "--hosts", "5")
        self.assert_refused("neither shm nor tcp", "all_reduce", "--ranks", "4", "--transport", "ucx")
        self.assert_refused("no picture", "all_reduce", "--ranks", "65", "--svg", "x.svg")
        self.assert_refused("cannot be read", "all_reduce", "--ranks", "4", "--costs", "/nonexistent")

    def test_costs_that_are_none(self):
        for text, complaint in (("tcp.speed 5", "there is no cost 'tcp.speed'"), ("step fast", "no name and a whole number"),
                                ("step 5 6", "no name and a whole number"), ("cores 0", "cores must be at least 1")):
            with self.subTest(text), tempfile.NamedTemporaryFile("w") as file:
                file.write(text + "\n")
                file.flush()
                self.assert_refused(complaint, "all_reduce", "--ranks", "4", "--costs", file.name)

    def test_a_file_that_cannot_be_written(self):
        run = plan("all_reduce", "--ranks", "4", "--svg", "/nonexistent/x.svg")
        self.assertEqual(run.returncode, 1)
        self.assertIn("cannot be written", run.stderr)

    def test_help(self):
        run = plan("--help")
        self.assertEqual(run.returncode, 0)
        for word in ("--ranks", "--bytes", "--algo", "--hosts", "--transport", "--root", "--rank ", "--lanes", "--svg", "--png"):
            self.assertIn(word, run.stdout)


def draw():
    for path, text, arguments, lines in grids():
        path.write_text(text.replace(lines, drawn_grid(arguments)), encoding="utf-8")
    for name, arguments in pictures():
        subprocess.run([PROGRAM, *arguments, "--svg", str(PICTURES / f"{name}.svg")], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    if sys.argv[1:] == ["--draw"]:
        draw()
    else:
        unittest.main()
