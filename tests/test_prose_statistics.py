"""Sentences are counted as a reader meets them."""

import pytest
from tools.prose_statistics import (
    long_sentences,
    main,
    num_words,
    report,
    sentences,
    statistics_of,
)

PAGE = """# A heading does not count. Not at all.

A first sentence with `some code of many words` in it. It links [two words](docs/a.md#b) and 0.5.
The third goes on over
two lines, e.g. this one, see eq. 11 there!

```python
x = 1  # No sentence. None.
```

| a table. | does not. |
| --- | --- |
| Count. | At all. |

<!-- figures: demo -->

![A picture. Two sentences.](image.png)

* An item is one. **Bold** begins another.
* The last item has no full stop

    binaryrelax certify FILE. Not this.

<!-- end -->
"""


def test_code_tables_headings_pictures_and_markers_do_not_count():
    assert sentences(PAGE) == [
        "A first sentence with CODE in it.",
        "It links two words and 0.5.",
        "The third goes on over two lines, e.g this one, see eq 11 there!",
        "An item is one.",
        "**Bold** begins another.",
        "The last item has no full stop",
    ]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [("One two three.", 3), ("λ = ∞ is - a value", 4), ("scale × {−1, +1}", 3), ("", 0)],
)
def test_a_word_holds_a_letter_or_a_digit(sentence, expected):
    assert num_words(sentence) == expected


def test_statistics_are_those_of_all_pages_together():
    long = "Word" + " word" * 30 + "."
    found = statistics_of(["One two. " + long, "Three four five. " + " ".join(["Six"] * 26)])
    assert (found.sentences, found.median, found.longest) == (4, 14.5, 31)
    assert (found.share_long, found.share_very_long) == (0.5, 0.25)


def test_a_page_without_a_sentence_has_statistics_too():
    assert statistics_of([]).longest == 0


def test_report_tells_readme_from_docs():
    table = report({"README.md": "One two.", "docs/a.md": "Three four five six."}, "now")
    rows = [line.split() for line in table.splitlines()]
    assert [row[:3] for row in rows[1:]] == [
        ["README.md", "1", "2"],
        ["docs", "1", "4"],
        ["all", "2", "3"],
    ]


def test_long_sentences_are_named_with_their_page():
    long = " ".join(["word"] * 26)
    [found] = long_sentences({"a.md": f"Short.\n\n{long}", "b.md": "Short too."})
    assert found.startswith("a.md: 26 words: word")


def test_a_revision_is_shown_before_what_is_there(capsys):
    main(["--against", "HEAD"])
    shown = capsys.readouterr().out
    assert shown.index("before, HEAD") < shown.index("now") and shown.count("README.md") == 2
