"""Packed networks: weights as codes of a few bits, in memory and in files."""

from binaryrelax.packed.certificate import (
    Certificate as Certificate,
    LayerCertificate as LayerCertificate,
    certify as certify,
)
from binaryrelax.packed.conversion import pack as pack
from binaryrelax.packed.engines import set_kernel_threads as set_kernel_threads
from binaryrelax.packed.layers import (
    PackedConv1d as PackedConv1d,
    PackedConv2d as PackedConv2d,
    PackedConv3d as PackedConv3d,
    PackedConvTranspose1d as PackedConvTranspose1d,
    PackedConvTranspose2d as PackedConvTranspose2d,
    PackedConvTranspose3d as PackedConvTranspose3d,
    PackedEmbedding as PackedEmbedding,
    PackedLinear as PackedLinear,
    set_mode as set_mode,
)
from binaryrelax.packed.loading import load_packed as load_packed
from binaryrelax.packed.manifest import PackedFileError as PackedFileError
from binaryrelax.packed.packed_layer import PackedLayer as PackedLayer
from binaryrelax.packed.saving import save_packed as save_packed
