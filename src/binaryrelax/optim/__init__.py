"""The relaxation, its schedules, and the optimizer that runs them."""

from binaryrelax.optim.monitor import (
    LayerRecord as LayerRecord,
    measure as measure,
    monitor as monitor,
)
from binaryrelax.optim.optimizer import BinaryRelax as BinaryRelax
from binaryrelax.optim.projected_gradient import ProjectedGradient as ProjectedGradient
from binaryrelax.optim.relaxation import relax as relax
from binaryrelax.optim.schedules import (
    GeometricGrowth as GeometricGrowth,
    Hard as Hard,
    LinearMix as LinearMix,
    Schedule as Schedule,
)
from binaryrelax.optim.selection import (
    SelectedWeights as SelectedWeights,
    select_weights as select_weights,
)
