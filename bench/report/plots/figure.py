"""The style, colours, text and SVG of all pictures."""

from __future__ import annotations

import html
import io
import itertools
import re

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from data import Results

# Text stays text, which is small, searchable and in the font of the reader.
matplotlib.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "rapt",
        "font.family": "DejaVu Sans",
        "font.size": 8,
        "axes.titlesize": 9,
        "axes.titleweight": "bold",
        "axes.labelsize": 8,
        "axes.edgecolor": "#888888",
        "axes.linewidth": 0.6,
        "axes.axisbelow": True,
        "xtick.color": "#444444",
        "ytick.color": "#444444",
        "grid.color": "#e4e4e4",
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "text.parse_math": False,
        "hatch.linewidth": 0.6,
    }
)

PAGE_WIDTH = 10.2  # inches of 72 CSS points

# After Okabe and Ito, and Tol: distinct with any colour vision.
_COLOURS = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00",
    "#882255", "#999933", "#332288", "#44aa99", "#aa4466", "#7f7f7f",
)  # fmt: skip
MARKERS = "osD^vPX<>hd*"
LEVEL_COLOURS = {"L1": "#440154", "L2": "#31688e", "L3": "#1f9e89", "mem": "#d95f02"}


class Palette:
    """One colour and marker for each library, the same in every picture."""

    def __init__(self, results: Results) -> None:
        self._styles = dict(zip(results.libraries, itertools.cycle(zip(_COLOURS, MARKERS))))

    def colour(self, library: str) -> str:
        return self._styles[library][0]

    def marker(self, library: str) -> str:
        return self._styles[library][1]


def text_width(texts: list[str], font_size: float) -> float:
    """The width of the widest text, in inches."""
    longest = sorted(texts, key=len)[-3:]
    return max(TextPath((0, 0), text, size=font_size).get_extents().width for text in longest) / 72


def engineering(value: float) -> str:
    for scale, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:.3g} {letter}"
    return f"{value:.3g}"


def plain_log_ticks(ax: Axes) -> None:
    """1, 2, 5, 10 in plain digits; only powers of ten where the range is wide."""
    for one in (ax.xaxis, ax.yaxis):
        low, high = one.get_view_interval()
        steps = (1.0, 2.0, 5.0) if high / low < 300 else (1.0,)
        if high / low < 6:
            steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
        one.set_major_locator(LogLocator(subs=steps, numticks=50))
        one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.12g}"))
        one.set_minor_locator(NullLocator())
        one.set_minor_formatter(NullFormatter())


_figure_numbers = itertools.count()


def svg(figure: Figure, description: str) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", facecolor="none")
    pyplot.close(figure)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    # Many pictures make a large page: drop comments and millionths of a point.
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0]), text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    # Each picture numbers its parts from 1, but all share the names of one page.
    figure_number = next(_figure_numbers)
    numbers: dict[str, int] = {}

    def renamed(found: re.Match[str]) -> str:
        return f"{found[1]}f{figure_number}-{numbers.setdefault(found[2], len(numbers))}"

    text = re.sub(r'(\sid="|url\(#|xlink:href="#)([^")]+)', renamed, text)
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(description)}"', 1)
