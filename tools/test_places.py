"""Where tests stand and which files they cover, for check_style.py.

A test has at its top, in a comment, a sentence of at most two lines that names files: "Covers net/dialer.cc, core/*.h." Their
paths begin in src, in tests or in the root. Each .cc and .cu of src is named so, or has its own test (src/net/dialer.cc:
tests/net/dialer_test.cc), or is a row of the table in docs/testing.md.
"""
import re

SENTENCE = re.compile(r"^(?://|#) Covers (?:[^\n]*\n(?://|#) )??[^\n]*\.$", re.M)
NAME = re.compile(r"(?:[\w*]+/)+[\w*]+\.\w+")
HEAD = 12  # lines
SUFFIXES = (".cc", ".cu", ".py", ".sh")
EXCEPTIONS = re.compile(r"^## Files that no test covers$(.*?)(?=^## |\Z)", re.M | re.S)
EXCEPTION = re.compile(r"^\| `src/(\S+)` \|", re.M)


def covered(text):
    """What the sentence at the top of a test names."""
    sentence = SENTENCE.search("\n".join(text.split("\n")[:HEAD]))
    return NAME.findall(sentence.group()) if sentence else []


def check_head(name, text, is_of_src):
    """Tests of a file of src begin with the sentence; suites of behaviour begin with what they promise."""
    first = text.split("\n", 1)[0]
    if name.endswith(".cc") and not first.startswith("// "):
        yield f"{name}: the first line does not say what is tested"
    elif is_of_src and not first.startswith("// Covers "):
        yield f"{name}: the first line does not say which files it covers"
    elif not covered(text):
        yield f"{name}: no sentence at the top says which files it covers"


def check_coverage(root, named):
    """Each file of src has a test or is in the table of those that have none, and not both."""
    page = root / "docs/testing.md"
    table = EXCEPTIONS.search(page.read_text(encoding="utf-8")) if page.is_file() else None
    without = set(EXCEPTION.findall(table.group(1))) if table else set()
    for path in sorted((root / "src").rglob("*")):
        file = path.relative_to(root / "src").as_posix()
        if path.suffix not in (".cc", ".cu"):
            continue
        has_test = path in named or (root / "tests" / file).with_name(f"{path.stem}_test.cc").is_file()
        if has_test and file in without:
            yield f"docs/testing.md: src/{file} has a test"
        if not has_test and file not in without:
            yield f"src/{file}: no test covers it"


def violations(root):
    listing = root / "tests/CMakeLists.txt"
    listed = set(re.split(r"[\s()]+", listing.read_text(encoding="utf-8"))) if listing.is_file() else None
    named = set()
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        name, folder = path.relative_to(root).as_posix(), path.parent.relative_to(root / "tests").as_posix()
        text = path.read_text(encoding="utf-8")
        if path.stem.endswith("_test"):
            yield from check_head(name, text, (root / "src" / folder).is_dir())
        for file in covered(text):
            found = [each for part in ("src", "tests", ".") for each in (root / part).glob(file)]
            named.update(found)
            if not found:
                yield f"{name}: there is no {file}"
        has_program = listed is None or folder in listed or (path.parent / "CMakeLists.txt").is_file()
        if name.endswith("_test.cc") and not has_program:
            yield f"{name}: no program of tests/CMakeLists.txt has the folder {folder}"
    if listed is not None:
        yield from check_coverage(root, named)
