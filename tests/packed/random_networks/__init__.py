"""Small random networks of every kind, and what packing, saving and exporting them must give."""

from tests.packed.random_networks.case import Case as Case
from tests.packed.random_networks.judging import FINE as FINE, judge as judge, reason as reason
from tests.packed.random_networks.parts import ODDITIES as ODDITIES, SUBCLASSES as SUBCLASSES
from tests.packed.random_networks.truth import outputs as outputs
