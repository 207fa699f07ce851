"""Train PyTorch networks whose weights take 1 or 2 bits: the public names."""

from binaryrelax.export import (
    accelerate as accelerate,
    export_native as export_native,
    export_onnx as export_onnx,
    export_openvino as export_openvino,
)
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
from binaryrelax.packed import (
    Certificate as Certificate,
    LayerCertificate as LayerCertificate,
    PackedConv1d as PackedConv1d,
    PackedConv2d as PackedConv2d,
    PackedConv3d as PackedConv3d,
    PackedConvTranspose1d as PackedConvTranspose1d,
    PackedConvTranspose2d as PackedConvTranspose2d,
    PackedConvTranspose3d as PackedConvTranspose3d,
    PackedEmbedding as PackedEmbedding,
    PackedFileError as PackedFileError,
    PackedLayer as PackedLayer,
    PackedLinear as PackedLinear,
    certify as certify,
    load_packed as load_packed,
    pack as pack,
    save_packed as save_packed,
    set_kernel_threads as set_kernel_threads,
    set_mode as set_mode,
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
    TernaryAbsMean as TernaryAbsMean,
    TernaryThreshold as TernaryThreshold,
    Uniform as Uniform,
    distance as distance,
)

__version__ = "0.2.0"
