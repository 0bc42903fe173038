#!/usr/bin/env python3
"""What a script can find of the rules for prose (CONTRIBUTING.md, rule 6): comments that are no sentences, words that are
avoided, lines that are too long.

prose.py [ROOT]: one line for each comment and message of src, include and tools that breaks them.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import literals  # noqa: E402

CHECKED = ("src/", "include/", "tools/")
COLUMNS = 120
# Pages with longer lines. A new page has none.
WIDE_PAGES = {
    "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md", "docs/design/choice.md", "docs/design/device.md",
    "docs/design/device_kernels.md", "docs/design/failure.md", "docs/design/groups.md", "docs/design/hierarchy.md",
    "docs/design/kernels.md", "docs/design/links.md", "docs/design/registered_memory.md", "docs/design/rendezvous.md",
    "docs/design/schedule.md", "docs/design/security.md", "docs/design/send_recv.md", "docs/design/staging.md",
    "docs/design/tcp.md", "docs/design/waiting.md", "docs/design/wire_types.md", "docs/launchers.md", "docs/measuring.md",
    "docs/performance.md", "docs/predicting.md", "docs/simulation.md", "docs/testing.md", "docs/torch.md"}

# How a comment begins that has no subject or no verb. "As" and "By" may begin a sentence whose comma comes early.
FRAGMENT = re.compile(r"Of |The same(?:[,;]| (?:by|for|from|if|in|of|on|to|with|without)\b)"
                      r"|By (?!default\b|convention\b)|As (?![^.:;]*,)|With (?:[^.,;]*:|\S+ ?\S* ?\S* ?\S* ?\S*\.$)")
# A thing may be left or hidden behind another one; who is told something hears it, but what is said is reported.
RIGHT = re.compile(r"\b(?:leav\w*|left|hid\w*)\b[^.;]*?\bbehind\b|\btold (?:apart|by|how|that|to|what|when|whether|who|why)\b", re.I)
AVOIDED = re.compile(r"\b(?:behind|in vain|told)\b", re.I)


def faults(text):
    """(line, what is wrong) of a file of C++."""
    said = literals.comments(text)
    for line, words in said:
        if FRAGMENT.match(words):
            yield line, f'"{words[:40]}" begins no sentence'
    for line, words in said + list(literals.strings(text)):
        for word in AVOIDED.findall(RIGHT.sub("", words)):
            yield line, f'"{word.lower()}" in "{words[:40]}"'


def check(path, text):
    """Violations of one file."""
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > COLUMNS and re.search(r"//|^\s*/?\*", line):
            yield f"{path}:{number}: a comment of {len(line)} columns, the limit is {COLUMNS}"
    if not path.startswith(CHECKED):
        return
    for line, what in faults(text):
        yield f"{path}:{line}: {what}"


def check_pages(root):
    """Lines of documents but for rows of tables and what is in fences."""
    for page in [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]:
        name, fenced = page.relative_to(root).as_posix(), False
        for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
            fenced ^= line.startswith("```")
            if len(line) > COLUMNS and not fenced and not line.startswith("|") and name not in WIDE_PAGES:
                yield f"{name}:{number}: {len(line)} columns, the limit is {COLUMNS}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    for folder in CHECKED:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in literals.SUFFIXES:
                for line, what in faults(path.read_text(encoding="utf-8")):
                    print(f"{path.relative_to(root).as_posix()}:{line}: {what}")


if __name__ == "__main__":
    main()
