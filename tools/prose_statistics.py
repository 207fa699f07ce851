"""How long the sentences of README and docs are: median, and the shares over 25 and 30 words.

    python tools/prose_statistics.py                   the pages as they are
    python tools/prose_statistics.py --against REV     before, at a git revision, and after
    python tools/prose_statistics.py --long            also every sentence over 25 words

Code, tables, headings, comments and addresses of links do not count. A piece of code within a
sentence counts as one word.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
LONG, VERY_LONG = 25, 30  # words
NOT_PROSE = re.compile(
    r"^```.*?^```|^~~~.*?^~~~|^\$\$.*?^\$\$|^---\n.*?^---\n|<!--.*?-->", re.DOTALL | re.MULTILINE
)
TABLE_ROW = re.compile(r"^[ \t]*\|.*$", re.MULTILINE)
HEADING = re.compile(r"^(?:#.*|=+|-{3,})$", re.MULTILINE)
INDENTED_CODE = re.compile(r"(?<=\n\n)(?: {4}.*\n)+")
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
CODE = re.compile(r"`[^`]*`")
CODE_WORD = "CODE"
ITEM = re.compile(r"^\s*(?:[*+-]|\d+\.)\s+(?=\S)", re.MULTILINE)
ADMONITION = re.compile(r"^(?:!!!|\?\?\?\+?|===).*$", re.MULTILINE)
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|et al|cf|vs|eqs?|sec|fig|no|approx)\.", re.IGNORECASE)
# A new sentence begins with a capital letter, a digit, a quotation, code or something emphasised.
BORDER = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+(?=[\"'(\[*_]*[A-Z0-9λρα±])")
WORD = re.compile(r"\S*\w\S*")


@dataclass(frozen=True)
class Statistics:
    """Of the sentences of some pages."""

    sentences: int
    median: float
    share_long: float
    share_very_long: float
    longest: int


def sentences(text: str) -> list[str]:
    """The sentences of a Markdown page, as they are read: without links, code as one word each."""
    return [sentence for block in _blocks(text) for sentence in _sentences_of(block)]


def num_words(sentence: str) -> int:
    """How many words it has: whatever holds a letter or a digit."""
    return len(WORD.findall(sentence))


def statistics_of(pages: Iterable[str]) -> Statistics:
    """Of all sentences of the pages, whose texts are given."""
    lengths = [num_words(sentence) for page in pages for sentence in sentences(page)] or [0]

    def share(limit: int) -> float:
        return sum(length > limit for length in lengths) / len(lengths)

    return Statistics(
        len(lengths), median(lengths), share(LONG), share(VERY_LONG), longest=max(lengths)
    )


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs and items of lists, each on one line."""
    for pattern in (NOT_PROSE, TABLE_ROW, HEADING, ADMONITION, INDENTED_CODE, IMAGE):
        text = pattern.sub("", text)
    text = LINK.sub(r"\1", CODE.sub(CODE_WORD, text))
    for block in re.split(r"\n\s*\n", ITEM.sub("\n\n", text)):
        line = " ".join(block.split())
        if WORD.search(line):
            yield line


def _sentences_of(block: str) -> list[str]:
    whole = ABBREVIATION.sub(r"\1", block)
    return [part for part in BORDER.split(whole) if WORD.search(part)]


def pages_now() -> dict[str, str]:
    """The texts of README and docs by their path."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


def pages_at(revision: str) -> dict[str, str]:
    """The same at a git revision."""
    names = _git("ls-tree", "-r", "--name-only", revision, "--", "README.md", "docs").splitlines()
    return {name: _git("show", f"{revision}:{name}") for name in names if name.endswith(".md")}


def _git(*arguments: str) -> str:
    command = ("git", *arguments)
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def report(pages: dict[str, str], title: str) -> str:
    """A table of README, docs and both."""
    readme = {name: text for name, text in pages.items() if name == "README.md"}
    docs = {name: text for name, text in pages.items() if name not in readme}
    rows = [f"{title:<16} sentences  median  over {LONG}  over {VERY_LONG}  longest"]
    for name, group in (("README.md", readme), ("docs", docs), ("all", pages)):
        found = statistics_of(group.values())
        rows.append(
            f"{name:<16} {found.sentences:9}  {found.median:6g}  {100 * found.share_long:5.1f} %"
            f"  {100 * found.share_very_long:5.1f} %  {found.longest:7}"
        )
    return "\n".join(rows)


def long_sentences(pages: dict[str, str]) -> list[str]:
    """Every sentence over the limit, with its page and length."""
    return [
        f"{name}: {num_words(sentence)} words: {sentence}"
        for name, text in pages.items()
        for sentence in sentences(text)
        if num_words(sentence) > LONG
    ]


def main(arguments: list[str] | None = None) -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--against", metavar="REV", help="a git revision to compare with")
    parser.add_argument("--long", action="store_true", help="list the sentences over the limit")
    asked = parser.parse_args(arguments)
    if asked.against:
        print(report(pages_at(asked.against), f"before, {asked.against}"), end="\n\n")
    print(report(pages_now(), "now"))
    if asked.long:
        print("", *long_sentences(pages_now()), sep="\n")


if __name__ == "__main__":
    main()
