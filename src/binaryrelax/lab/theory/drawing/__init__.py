"""The figures of docs/theory.md, each drawn from the numbers of its JSON file alone."""
