"""Train PyTorch networks whose weights take 1 or 2 bits: the public names."""

from binaryrelax.optim import (
    BinaryRelax as BinaryRelax,
    GeometricGrowth as GeometricGrowth,
    Hard as Hard,
    LayerRecord as LayerRecord,
    LinearMix as LinearMix,
    ProjectedGradient as ProjectedGradient,
    Schedule as Schedule,
    SelectedWeights as SelectedWeights,
    measure as measure,
    monitor as monitor,
    relax as relax,
    select_weights as select_weights,
)
from binaryrelax.quantizers import (
    Binary as Binary,
    ExactQuantizer as ExactQuantizer,
    Granularity as Granularity,
    Levels as Levels,
    OneStepLloyd as OneStepLloyd,
    PerChannel as PerChannel,
    PerGroup as PerGroup,
    PerLayer as PerLayer,
    PowerOfTwo as PowerOfTwo,
    Quantizer as Quantizer,
    Ternary as Ternary,
    TernaryThreshold as TernaryThreshold,
    Uniform as Uniform,
    distance as distance,
)

__version__ = "0.1.0"
