#!/usr/bin/env python3
"""The folders of src and the arrows between them: who includes whom, who may, and what stays hidden from includes.

arrows.py [ROOT]           one line a folder: files, lines, floor, and how many includes go where
arrows.py --picture [ROOT] the same as a Mermaid diagram; docs/architecture.md has it between two marks
"""
import collections
import pathlib
import re
import sys

# The folders that each folder may include, beside itself. `include` is the public header.
TRANSPORTS = {"transport", "transport/shm", "transport/tcp", "transport/mixed"}
ARROWS = {
    "core": set(),
    "net": {"core"},
    "device": {"core"},
    "schedule": {"core"},
    "schedule/simulator": {"core", "schedule"},
    "kernels": {"core"},
    "kernels/device": {"core", "kernels"},
    "collectives": {"core", "schedule"},
    "collectives/hierarchical": {"core", "schedule", "collectives"},
    "collectives/choice": {"core", "schedule", "schedule/simulator", "collectives", "collectives/hierarchical"},
    "transport": {"core"},
    "transport/shm": {"core", "net", "transport"},
    "transport/tcp": {"core", "net", "transport"},
    "transport/mixed": {"core", "transport", "transport/shm", "transport/tcp"},
    "transport/device": {"core", "device", "transport", "transport/shm"},
    "executor": {"core", "schedule", "kernels"} | TRANSPORTS,
    "executor/device": {"core", "device", "schedule", "kernels", "kernels/device", "transport", "transport/device", "executor"},
    "comm/call": {"include", "core", "schedule", "kernels", "executor"},
    "comm/messages": {"core", "net"},
    "comm/membership": {"core", "net", "transport/shm", "transport/tcp", "comm/messages"},
    "comm/recovery": {"core", "net", "comm/membership", "comm/messages"},
    "comm/join": {"core", "net", "transport/shm", "transport/tcp", "comm/membership", "comm/messages", "comm/recovery"},
    "comm/rendezvous": {"core", "net", "comm/membership", "comm/messages", "comm/join"},
    "comm/failure": {"core", "device", "executor", "executor/device", "comm/membership", "comm/messages"},
    "comm/device": {"core", "device", "schedule", "collectives", "collectives/choice", "transport", "transport/device", "executor", "executor/device",
                    "comm/call", "comm/messages", "comm/membership", "comm/join"},
    "comm": {"include", "core", "net", "device", "schedule", "collectives", "collectives/choice", "kernels", "executor", "executor/device", "comm/call",
             "comm/messages", "comm/membership", "comm/recovery", "comm/join", "comm/rendezvous", "comm/failure", "comm/device"} | TRANSPORTS | {"transport/device"},
    "comm/queue": {"core", "device", "executor", "comm", "comm/call", "comm/failure", "comm/device"},
    "comm/api": {"include", "core", "device", "transport/device", "executor", "comm", "comm/call", "comm/messages", "comm/membership", "comm/join",
                 "comm/device", "comm/queue"},
}
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
MOST_LINES, MOST_FILES = 4500, 40
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)
WORD = re.compile(r"\b[A-Za-z_]\w*\b")
LITERALS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-zA-Z_])\'(?:\\.|[^\'\\\n])*\'', re.S)
# What a header declares at the level of the namespace, where our format indents nothing.
TYPE = re.compile(r"^(?:class|struct|union|concept)(?: alignas\([^)]*\)| \[\[\w+\]\]| [A-Z_]+\([^{;]*?\))* (\w+)(?: final)?(?: :[^;{]*)?"
                  r" ?[{=]|^enum(?: class)? (\w+)|^using (\w+) =", re.M)
# The same words with another meaning: types within types and functions, parameters of templates.
OTHER_TYPE = re.compile(r"^ +(?:class|struct|union|enum class|enum|using) (\w+)|(?:class|typename)(?:\.\.\.)? (\w+)[,>]", re.M)
FUNCTION = re.compile(r"^(?!using|return|static|template|inline|constexpr|#| )[ \w:<>,&*]*?[ &*](\w+)\([^;{}]*\)(?: noexcept)?;", re.M)
MEMBER_DEFINED = re.compile(r"^(?! )[ \w:<>,&*]*?\b(\w+)::~?\w+\([^;{}]*\)[^;{}]*\{", re.M)
FUNCTION_DEFINED = re.compile(r"^(?! |static|inline|constexpr|template)[ \w:<>,&*]*?[ &*](\w+)\([^;{}]*\)(?: noexcept)? ?\{", re.M)


def folder_of(path):
    """"src/comm/join/root.h" and "comm/join/root.h" are of comm/join; "" if there is no folder."""
    parts = path.removeprefix("src/").split("/")[:-1]
    return "/".join(parts)


def code_of(text):
    """Without comments and literals, and what they filled."""
    return LITERALS.sub(" ", text)


def sources(root):
    """{path under src: text}."""
    return {path.relative_to(root / "src").as_posix(): path.read_text(encoding="utf-8")
            for path in sorted((root / "src").rglob("*")) if path.suffix in SUFFIXES and path.is_file()}


def check_includes(path, text):
    """Of one file of src."""
    folder = folder_of(path)
    if folder not in ARROWS:
        yield f"src/{path}: src/{folder} is no folder that the arrows know"
        return
    for mark, target in INCLUDE.findall(text):
        goal = "include" if target.startswith("tutti/") else folder_of(target)
        if goal in ARROWS or goal == "include":
            if goal != folder and goal not in ARROWS[folder]:
                yield f"src/{path}: {folder} must not include {target}"
        elif mark == '"':
            yield f"src/{path}: {target} is named by its folder under src"


def check_folders(files):
    """Sizes of folders."""
    for folder, (count, lines) in sorted(sizes(files).items()):
        if lines > MOST_LINES or count > MOST_FILES:
            yield f"src/{folder}: {count} files with {lines} lines, the limit is {MOST_FILES} and {MOST_LINES}"


def names_of(pattern, code):
    """What the groups of a pattern find."""
    return {name for found in pattern.finditer(code) for name in found.groups() if name}


def declared(files, pattern, other=None):
    """{name: folder} of what is declared in the headers of one folder alone, and has no `other` meaning anywhere."""
    found, taken = collections.defaultdict(set), set()
    for path, text in files.items():
        code = code_of(text)
        taken |= names_of(other, code) if other else set()
        for name in names_of(pattern, code) if path.endswith((".h", ".cuh")) else ():
            found[name].add(folder_of(path))
    return {name: folders.pop() for name, folders in found.items() if len(folders) == 1 and name not in taken}


def check_names(files):
    """Types that are used without an arrow to where they are defined: they come through another folder's header."""
    types = declared(files, TYPE, OTHER_TYPE)
    for path, text in files.items():
        folder, code = folder_of(path), code_of(text)
        own = names_of(TYPE, code) if path.endswith((".cc", ".cu")) else set()
        for name in sorted(set(WORD.findall(code)) & types.keys() - own):
            if folder in ARROWS and types[name] != folder and types[name] not in ARROWS[folder]:
                yield f"src/{path}: {folder} must not use {name} of {types[name]}"


def check_links(files):
    """What is declared in one folder and defined in another: an arrow that only the linker sees."""
    types, functions = declared(files, TYPE, OTHER_TYPE), declared(files, FUNCTION)
    for path, text in files.items():
        if not path.endswith((".cc", ".cu")):
            continue
        code = code_of(without_unnamed(text))
        defined = {(name, types.get(name)) for name in names_of(MEMBER_DEFINED, code)}
        defined |= {(name, functions.get(name)) for name in names_of(FUNCTION_DEFINED, code)}
        for name, home in sorted(defined, key=str):
            if home is not None and home != folder_of(path):
                yield f"src/{path}: defines {name}, which {home} declares"


def without_unnamed(text):
    """The text without its unnamed namespaces, whose functions are nobody else's."""
    return re.sub(r"^namespace \{$.*?^\}  // namespace$", "", text, flags=re.M | re.S)


def violations(root):
    files = sources(root)
    for path, text in files.items():
        yield from check_includes(path, text)
    yield from check_folders(files)
    yield from check_names(files)
    yield from check_links(files)


def sizes(files):
    """{folder: (files, lines)}."""
    found = collections.defaultdict(lambda: (0, 0))
    for path, text in files.items():
        count, lines = found[folder_of(path)]
        found[folder_of(path)] = count + 1, lines + text.count("\n")
    return dict(found)


def graph(files):
    """{folder: {folder that it includes: how often}}."""
    found = {folder_of(path): collections.Counter() for path in files}
    for path, text in files.items():
        for _, target in INCLUDE.findall(text):
            goal = folder_of(target)
            if goal in found and goal != folder_of(path):
                found[folder_of(path)][goal] += 1
    return found


def floors(arrows):
    """{folder: floor}: 0 includes nobody, and each is above all that it includes. Fails if there is a circle."""
    found = {}

    def floor(folder, above):
        if folder in above:
            sys.exit("a circle: " + " -> ".join([*above, folder]))
        if folder not in found:
            found[folder] = max((floor(goal, [*above, folder]) + 1 for goal in arrows[folder]), default=0)
        return found[folder]

    for folder in arrows:
        floor(folder, [])
    return found


def shown(arrows):
    """The arrows that do not follow from others."""
    floors(arrows)  # without a circle what follows ends

    def reached(folder):
        return {further for goal in arrows[folder] for further in {goal} | reached(goal)}

    for folder in sorted(arrows):
        roundabout = {further for goal in arrows[folder] for further in reached(goal)}
        for goal in sorted(set(arrows[folder]) - roundabout):
            yield folder, goal


def picture(root):
    arrows = graph(sources(root))
    name = {folder: folder.replace("/", "_") for folder in arrows}
    lines = ["```mermaid", "flowchart TD"]
    lines += [f"  {name[folder]}[{folder}]" for folder in sorted(arrows)]
    lines += [f"  {name[folder]} --> {name[goal]}" for folder, goal in shown(arrows)]
    return "\n".join([*lines, "```"])


def table(root):
    files = sources(root)
    arrows = graph(files)
    level, size = floors(arrows), sizes(files)
    for folder in sorted(arrows, key=lambda folder: (level[folder], folder)):
        goals = ", ".join(f"{goal} {count}" for goal, count in sorted(arrows[folder].items()))
        yield f"{level[folder]:2}  {folder:18} {size[folder][0]:3} files {size[folder][1]:5} lines  {goals}"
    counts = [count for goals in arrows.values() for count in goals.values()]
    yield f"{len(arrows)} folders on {max(level.values()) + 1} floors, {len(counts)} arrows, {sum(counts)} includes"


def main():
    words = [word for word in sys.argv[1:] if word != "--picture"]
    root = pathlib.Path(words[0]) if words else pathlib.Path(__file__).resolve().parent.parent
    print(picture(root) if "--picture" in sys.argv else "\n".join(table(root)))


if __name__ == "__main__":
    main()
