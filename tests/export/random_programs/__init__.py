"""Small random networks that the native runtime must run, and what it must give for them."""

from tests.export.random_programs.case import Case as Case
from tests.export.random_programs.judging import judge as judge
