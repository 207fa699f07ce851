"""What a page says, and whether it is well formed."""

import json
import re
from html.parser import HTMLParser
from typing import Any


class Outline(HTMLParser):
    """Collects text and attributes, and refuses elements that are closed in the wrong order."""

    VOID = frozenset({"meta", "input", "br", "link"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open, self.attributes, self.text = [], [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    @property
    def all_text(self) -> str:
        """The text between the elements, with single spaces."""
        return " ".join(" ".join(self.text).split())


def data_of(page: str) -> Any:
    """What the scripts of the page read."""
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def assert_needs_no_network(page: str) -> None:
    assert not re.search(r"https?://", page)
    attributes = Outline(page).attributes
    assert not {name for name, _ in attributes} & {"src", "srcset"}
    assert all(value.startswith("#") for name, value in attributes if name == "href")
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert "default-src 'none'" in page
