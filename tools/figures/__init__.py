"""The figures of README and docs, a file per source; each turns JSON files into Markdown."""
