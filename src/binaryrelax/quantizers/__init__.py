"""The sets Q and the projections onto them."""

from binaryrelax.quantizers.absmean import TernaryAbsMean as TernaryAbsMean
from binaryrelax.quantizers.binary import Binary as Binary
from binaryrelax.quantizers.granularity import (
    Granularity as Granularity,
    PerChannel as PerChannel,
    PerGroup as PerGroup,
    PerLayer as PerLayer,
)
from binaryrelax.quantizers.kinds import (
    public_granularities as public_granularities,
    public_quantizers as public_quantizers,
)
from binaryrelax.quantizers.levels import (
    Levels as Levels,
    PowerOfTwo as PowerOfTwo,
    Uniform as Uniform,
)
from binaryrelax.quantizers.lloyd import OneStepLloyd as OneStepLloyd
from binaryrelax.quantizers.quantizer import (
    ExactQuantizer as ExactQuantizer,
    Quantizer as Quantizer,
    distance as distance,
)
from binaryrelax.quantizers.ternary import Ternary as Ternary
from binaryrelax.quantizers.threshold import TernaryThreshold as TernaryThreshold
