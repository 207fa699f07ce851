"""All pages, those of the site and those beside the code, and the code blocks of a page."""

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
FOR_THE_REPOSITORY = ("CONTRIBUTING", "CHANGELOG", "SECURITY", "examples/README", "networks/README")
PAGES = [
    README,
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / f"{name}.md" for name in FOR_THE_REPOSITORY),
]
FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<kind>[\w-]*).*$")
MARK = re.compile(r"<!-- (run|run: peers|not run: \S.*) -->")
RUNNABLE = ("python", "sh")
ALSO_CODE = {"bash", "console", "shell", "py", "pycon", "zsh"}  # write python or sh


@dataclass(frozen=True)
class Block:
    """Code between two fences.

    Args:
        kind: what stands after the opening fence.
        mark: what the comment right above says, such as "run: peers".
        line: of the page where the code begins, counted from 1.
    """

    kind: str
    mark: str
    line: int
    code: str

    @property
    def is_for_peers(self) -> bool:
        return self.mark == "run: peers"

    @property
    def runs(self) -> bool:
        return self.kind in RUNNABLE and not self.mark.startswith("not run: ")

    @property
    def problem(self) -> str:
        """Why it breaks the convention, or nothing."""
        if self.kind in ALSO_CODE:
            return f"```{self.kind} is neither ```python nor ```sh"
        if self.kind == "sh" and not self.mark:
            return "a ```sh block without <!-- run --> or <!-- not run: REASON -->"
        return ""


def blocks_of(text: str) -> list[Block]:
    """All fenced blocks of a page."""
    lines = text.splitlines()
    found, begin, fence = [], 0, None
    for number, line in enumerate(lines):
        match = FENCE.match(line)
        if fence is None and match:
            fence, begin = match, number
        elif fence is not None and line.strip() == fence["ticks"]:
            code = dedent("\n".join(lines[begin + 1 : number])) + "\n"
            found.append(Block(fence["kind"], _mark_above(lines, begin), begin + 2, code))
            fence = None
    return found


def _mark_above(lines: list[str], fence: int) -> str:
    above = lines[fence - 1].strip() if fence else ""
    match = MARK.fullmatch(above)
    return match[1] if match else ""


def outside_of_blocks(text: str) -> str:
    """A page without its code."""
    text = re.sub(r"^( *)(`{3,}).*?^ *\2 *$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()
