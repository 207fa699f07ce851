"""The figures of README and docs, a file per subject: evidence becomes tables and pictures."""

from binaryrelax_lab.report.figures.evidence import Evidence as Evidence
from binaryrelax_lab.report.figures.filled_pages import (
    all_pictures as all_pictures,
    stale_files as stale_files,
)
