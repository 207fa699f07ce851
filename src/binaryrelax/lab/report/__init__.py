"""Tables, a page and a picture, all computed from the files of run folders."""

from binaryrelax.lab.report.page import write_page as write_page
from binaryrelax.lab.report.picture import write_picture as write_picture
from binaryrelax.lab.report.runs import FinishedRun as FinishedRun, load_run as load_run
from binaryrelax.lab.report.table import TableRow as TableRow, table_row as table_row
