#!/usr/bin/env python3
"""Checks what a compiler does not: arrows between folders (arrows.py), sizes of files, functions and classes, reads of the
environment, where tests stand and what they cover (test_places.py), tables of measured numbers (figures.py), and what a
script can find of the rules for prose (prose.py).

check_style.py [ROOT]: exit code 1 and one line a violation; what is longer than wanted and the comment share are listed.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import arrows  # noqa: E402
import figures  # noqa: E402
import prose  # noqa: E402
import test_places  # noqa: E402
from literals import LITERALS, SUFFIXES, blanked, code_of  # noqa: E402

OUTSIDE = ("tools/perf", "examples", "plugins")  # users of include/ alone
FOLDERS = ("include", "src", "tests", "tools", "bench", "examples", "plugins")
FILE_WANTED, FILE_LIMIT = 300, 500
FUNCTION_WANTED, FUNCTION_LIMIT = 40, 60
CLASS_WANTED, CLASS_LIMIT = 30, 75  # functions
# The environment is read through the table of settings; launchers are recognised by their variables;
# the CUDA runtime has its own;
# programs hand settings to communicators and to programs that they start.
MAY_READ_ENVIRONMENT = {"src/core/settings.cc", "src/comm/rendezvous/launcher.cc", "src/comm/rendezvous/url.cc", "src/device/cuda_driver.cc",
                        "tools/perf/ranks.cc", "tools/perf/sweep.cc", "tools/perf/peers.cc", "tools/probe/sweeps.cc"}
READS_ENVIRONMENT = re.compile(r"\b(getenv|secure_getenv|environ)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)
NAMED_FILE = re.compile(r"`((?:src|tests|tools|bench|examples|plugins|include|docs|cmake)/[\w./*-]+[\w*])`")
CLASS = re.compile(r"\b(?<!enum )(?:class|struct) (?:(?:alignas|TUTTI_\w+)\([^)]*\) |\[\[\w+\]\] )*(\w+)(?:<[^;{]*>)?(?: final)?"
                   r"(?: ?:(?!:)[^;{()]*)?\s*\{")
# What is no part of a declaration, or has brackets and is no list of parameters.
ATTRIBUTE = re.compile(r"\b(?:TUTTI_\w+|alignas|noexcept)\((?:[^()]|\([^()]*\))*\)|\[\[[^\]]*\]\]"
                       r"|\b(?:public|private|protected):(?!:)")
NO_MEMBER = re.compile(r"(?:using|friend|typedef|static_assert|enum|class|struct|union)\b")
CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")


def functions(text):
    """(name, first line, number of lines) of each function with a body outside other functions."""
    code = code_of(text)
    found, stack, start = [], [], 0
    for match in re.finditer(r"[{};]", code):
        place, sign = match.start(), match.group()
        if sign == "{":
            head = code[start:place]
            inside = any(kind in ("function", "initializer") for kind, _, _ in stack)
            stack.append(("block" if inside else kind_of(head), start, head))
        elif sign == "}" and stack:
            kind, begin, head = stack.pop()
            if kind == "function":
                first = code.count("\n", 0, begin + len(head) - len(head.lstrip())) + 1
                name = re.search(r"([\w:~]+|operator\S+)\s*\(", head)
                found.append((name.group(1) if name else "?", first, code.count("\n", 0, place) + 2 - first))
            if kind == "initializer":
                continue  # what it belongs to goes on after it
        if not any(kind == "initializer" for kind, _, _ in stack):
            start = place + 1
    return found


def kind_of(head):
    """What an opening brace outside functions begins, by the text before it."""
    if "(" not in head:
        return "container" if CONTAINER.search(head) else "initializer"
    tail = head[head.rfind(")") + 1:]
    if re.search(r"\)\s*:\s*[^:]", head) and re.search(r"\w\s*$", tail) and not re.fullmatch(
            r"\s*(const|noexcept|override|final|mutable|&|\s)*(->[^;=]*)?", tail):
        return "initializer"  # a member's braces in a constructor's list
    if "=" in tail:
        return "initializer"
    before = head[:head.find("(")]
    if CONTAINER.search(before) and not re.search(r"[\w>&*]\s+[\w:~]+\s*$", re.sub(r"__attribute__", "", before)):
        return "container"
    return "function"


def declarations(code, begin):
    """What is declared in the class whose braces begin there, each without its body."""
    depth, text = 0, ""
    for place in range(begin, len(code)):
        sign = code[place]
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if depth < 0:
            return
        ends_body = sign == "}" and depth == 0 and kind_of_member(text) == "function"
        if (sign == ";" and depth == 0) or (ends_body and not re.match(r"\s*[,{)]", code[place + 1:place + 80])):
            yield text
            text = ""
        elif depth == 0 and sign not in "{}":
            text += sign


def kind_of_member(text):
    """"function", "member" or, if it is neither, ""."""
    text = ATTRIBUTE.sub(" ", text).strip()
    while text != (shorter := re.sub(r"<[^<>]*>", "", text)):
        text = shorter
    text = re.sub(r"^template\s*", "", text)
    if not text or NO_MEMBER.match(text):
        return ""
    head = text.split("=")[0]
    return "function" if "operator" in head or ("(" in head and not re.search(r"\(\s*\*", head)) else "member"


def classes(text):
    """(name, first line, functions, members) of each class."""
    code = code_of(text)
    for head in CLASS.finditer(code):
        kinds = [kind_of_member(each) for each in declarations(code, head.end())]
        yield head.group(1), code.count("\n", 0, head.start()) + 1, kinds.count("function"), kinds.count("member")


def room_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def check_outside(path, text):
    """Programs of ours that are made as those of others are."""
    if not any(path.startswith(folder + "/") for folder in OUTSIDE):
        return
    for target in INCLUDE.findall(text):
        if arrows.folder_of(target) in arrows.ARROWS or target.startswith("../"):
            yield f"{path}: uses the C API alone, must not include {target}"


def check_environment(path, text):
    if path.startswith(("src/", "tools/")) and path not in MAY_READ_ENVIRONMENT:
        if READS_ENVIRONMENT.search(blanked(text)):
            yield f"{path}: reads the environment; settings are read in src/core/settings.cc"


def check_sizes(path, text, long_ones):
    lines = text.count("\n")
    if path != "include/tutti/tutti.h" and lines > FILE_WANTED:
        long_ones.append(f"{path}: {lines} lines")
        if lines > FILE_LIMIT:
            yield f"{path}: {lines} lines, the limit is {FILE_LIMIT}"
    for name, first, length in functions(text):
        if length > FUNCTION_WANTED:
            long_ones.append(f"{path}:{first}: {name}: {length} lines")
        if length > FUNCTION_LIMIT:
            yield f"{path}:{first}: {name} has {length} lines, the limit is {FUNCTION_LIMIT}"


def check_classes(path, text, long_ones):
    """Of the library's headers; a stand-in of the tests has what it stands in for."""
    if not path.startswith("src/") or not path.endswith((".h", ".cuh")):
        return
    for name, first, count, members in classes(text):
        if count > CLASS_WANTED:
            long_ones.append(f"{path}:{first}: {name}: {count} functions, {members} members")
        if count > CLASS_LIMIT:
            yield f"{path}:{first}: {name} has {count} functions, the limit is {CLASS_LIMIT}"


def comment_lines(text):
    """(lines with a comment, lines that are not blank)."""
    kept = {number for match in LITERALS.finditer(text) if match.group().startswith(("//", "/*"))
            for number in range(text.count("\n", 0, match.start()), text.count("\n", 0, match.end()) + 1)}
    return len(kept), sum(1 for line in text.split("\n") if line.strip())


def source_files(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def check_named_files(root):
    """Paths that documents name are there: files, programs that are made of such a file, or patterns."""
    for page in [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]:
        name = page.relative_to(root).as_posix()
        if name == "CHANGELOG.md" or name.startswith("docs/measured/"):
            continue  # they tell of what was
        for path in NAMED_FILE.findall(page.read_text(encoding="utf-8")):
            if not any(root.glob(path.rstrip("*") + "*")):
                yield f"{name}: there is no {path}"


def check_picture(root):
    """The picture of the folders in the documents is that of today's includes."""
    page = root / "docs/architecture.md"
    if page.is_file() and arrows.picture(root) not in page.read_text(encoding="utf-8"):
        yield "docs/architecture.md: the picture is not that of tools/arrows.py --picture"


def check(root):
    """(violations, what is longer than wanted, {part: (comment lines, lines)}) of a tree."""
    violations, long_ones, shares = [*arrows.violations(root), *check_picture(root), *check_named_files(root)], [], {}
    violations += test_places.violations(root)
    violations += figures.differences(root)
    violations += prose.check_pages(root)
    for path, text in source_files(root):
        violations += check_outside(path, text)
        violations += check_environment(path, text)
        violations += check_sizes(path, text, long_ones)
        violations += check_classes(path, text, long_ones)
        violations += prose.check(path, text)
        part = room_of(path) or path.split("/")[0]
        comments, lines = comment_lines(text)
        had = shares.get(part, (0, 0))
        shares[part] = (had[0] + comments, had[1] + lines)
    return violations, long_ones, shares


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    violations, long_ones, shares = check(root)
    print(f"Longer than wanted (files {FILE_WANTED}, functions {FUNCTION_WANTED} lines, classes {CLASS_WANTED} functions):")
    print("\n".join("  " + line for line in long_ones) or "  none")
    print("Comment lines: " + ", ".join(f"{part} {100 * c // max(n, 1)} %" for part, (c, n) in sorted(shares.items())))
    for line in violations:
        print("error: " + line)
    print(f"{len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
