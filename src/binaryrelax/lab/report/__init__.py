"""Tables, pages and a picture, all computed from the files of runs."""

from binaryrelax.lab.report.demo_page import write_page as write_page
from binaryrelax.lab.report.picture import write_picture as write_picture
from binaryrelax.lab.report.results_page import (
    ReportSummary as ReportSummary,
    write_report as write_report,
)
from binaryrelax.lab.report.runs import FinishedRun as FinishedRun, load_run as load_run
from binaryrelax.lab.report.table import TableRow as TableRow, table_row as table_row
