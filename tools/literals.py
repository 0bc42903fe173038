"""Comments and literals of C and C++."""
import re

SUFFIXES = {".h", ".c", ".cc", ".inl", ".cu", ".cuh"}
LITERALS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^()\s\\]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-zA-Z_])\'(?:\\.|[^\'\\\n])*\'', re.S)


def blanked(text):
    """The text with comments and literals as spaces; lines stay where they are."""
    return LITERALS.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def code_of(text):
    """Nor lines of the preprocessor; lines stay where they are."""
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda match: re.sub(r"[^\n]", " ", match.group()), blanked(text), flags=re.M)


def strings(text):
    """(line, string)."""
    for match in LITERALS.finditer(text):
        if match.group()[0] in "R\"":
            yield text.count("\n", 0, match.start()) + 1, match.group()


def comments(text):
    """(first line, text) of each comment; lines with nothing but a comment, one after the other, are one."""
    found, last = [], 0
    for match in LITERALS.finditer(text):
        if not match.group().startswith(("//", "/*")):
            continue
        line = text.count("\n", 0, match.start()) + 1
        alone = not text[text.rfind("\n", 0, match.start()) + 1:match.start()].strip()
        words = " ".join(re.sub(r"(?m)^\s*(///?<?|/\*\*?<?|\*/?)|\*/$", " ", match.group()).split())
        if alone and found and last == line - 1:
            found[-1] = (found[-1][0], f"{found[-1][1]} {words}".strip())
        else:
            found.append((line, words))
        last = line if alone and match.group().startswith("//") else 0
    return found
