"""How tools/figures.py and tools/figures_gpu.py write numbers and tables."""
import textwrap

KIB, MIB = 1 << 10, 1 << 20


def size_text(size):
    if size == 0:
        return "barrier"
    for unit, factor in (("MiB", MIB), ("KiB", KIB)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"


def us_text(value):
    if value is None:
        return ""
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}".replace(",", " ")


def ratio_text(value):
    return "<0.001" if value < 0.001 else f"{value:.3f}" if value < 0.095 else f"{value:.2f}"


def between(low, high):
    return low if low == high else f"{low}–{high}"


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def wrapped(text, indent=""):
    return textwrap.wrap(text, 120, subsequent_indent=indent, break_on_hyphens=False)
