"""What layers share that hold codes and scales instead of float weights. They do not train."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NoReturn
from weakref import ref

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from binaryrelax.packed.engines import (
    MODES,
    Engine,
    ModeName,
    Product,
    engine_for,
    has_kernels,
    mode_named,
)
from binaryrelax.packed.packed_weight import PackedWeight, WeightFormat, problem_of_state


class PackedLayer(nn.Module):
    """What packed layers share: codes, scales, a bias or none, and the float weight on demand.

    ``pack`` and ``load_packed`` make them. They do not train.

    Args:
        layer: whose place it takes, float or packed; sizes, stride and the like are its.
        weight: codes and scales.
        bias: of the float layer.

    Attributes:
        dtype: of ``weight``: that of the packed weight, until ``model.to(dtype)`` asks for another.

    Examples:
        >>> from torch import nn
        >>> from binaryrelax import Binary, PackedLayer, pack, select_weights
        >>> model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Conv2d(16, 4, 1))
        >>> weights = select_weights(model, Binary(), keep_float=("2",))
        >>> for weight, quantizer in weights.items():  # as training would leave it
        ...     weight.data = quantizer.project(weight.data)
        >>> layers = pack(model, weights).named_children()
        >>> {name: layer.codes.nbytes for name, layer in layers if isinstance(layer, PackedLayer)}
        {'0': 144}
    """

    KIND: ClassVar[str]  # what files call it
    COPIED: ClassVar[tuple[str, ...]]  # attributes of the layer whose place it takes
    PLAIN: ClassVar[type[nn.Module]]  # the layer whose place it takes
    codes: Tensor
    scale: Tensor
    bias: nn.Parameter | None

    def __init__(self, layer: nn.Module, weight: PackedWeight, bias: Tensor | None) -> None:
        super().__init__()
        for name in self.COPIED:
            setattr(self, name, getattr(layer, name))
        self.format: WeightFormat = weight.format
        self.register_buffer("codes", weight.codes)
        self.register_buffer("scale", weight.scale)
        if bias is not None and not isinstance(bias, nn.Parameter):  # one may be shared: it stays
            bias = nn.Parameter(bias, requires_grad=False)
        self.register_parameter("bias", bias)
        self.dtype = weight.format.dtype
        self.mode = "exact"
        self._has_kernels = has_kernels(weight.format)
        self._products: dict[str, _Made] = {}  # what the engines have re-tiled

    @property
    def mode(self) -> ModeName:
        """How it treats activations.

        "exact" takes them as they come. "fast" lets a kernel round them to 8 bits where it gains
        by that (one scale per row of a Linear layer's input, one per image of a convolution's).
        """
        return self._mode

    @mode.setter
    def mode(self, mode: ModeName) -> None:
        self._mode: ModeName = mode_named(mode).name

    @property
    def packed_weight(self) -> PackedWeight:
        """Codes and scales, with what they mean."""
        return PackedWeight(self.format, self.codes, self.scale)

    @property
    def weight(self) -> Tensor:
        """The float weight, made anew at every access: the bits of the weight that was packed.

        Of a model that was converted to another dtype it is what the float layer would have then.
        """
        weight = self.packed_weight.unpack().to(self.dtype)
        if not torch.compiler.is_compiling():
            weight._is_param = True  # who looks for a parameter, as tie_weights does, finds one
        return weight

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "weight":
            self._refuse_other_weight(value)
        else:
            super().__setattr__(name, value)

    def _refuse_other_weight(self, value: Any) -> None:
        """Tying a weight to what it is tied to already changes nothing; no other can be put in."""
        if not isinstance(value, Tensor) or not _same_values(value, self.weight):
            raise ValueError(
                f"{type(self).__name__}.weight: a packed layer holds codes, and takes no other "
                "weight; change the float model and pack it again"
            )

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output, by the fastest engine that takes this input."""
        bias = self._parameters["bias"]  # not self.bias, which takes a microsecond to look up
        engine = engine_for(x, bias) if self._has_kernels else None
        product = None if engine is None else self._product(engine)
        if product is not None:
            return product(x, bias, MODES[self._mode])
        return self.float_product(x, *self._float_parameters(x))

    @abstractmethod
    def float_product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The output, by torch, from the float weight."""

    def make_product(self, engine: Engine) -> Product | None:
        """The output, by an engine that reads the codes; None if it has no kernel for this."""
        return None

    def _float_parameters(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Weight and bias in the precision of the input."""
        dtype, bias = self.product_dtype(x), self._parameters["bias"]
        return self.packed_weight.unpack().to(dtype), None if bias is None else bias.to(dtype)

    def product_dtype(self, x: Tensor) -> torch.dtype:
        """In which precision it multiplies that input with its weight."""
        # A weight converted to whole numbers would be another one: torch refuses such inputs.
        return x.dtype if x.is_floating_point() else self.scale.dtype

    def options(self) -> dict[str, Any]:
        """What makes a float layer like the one whose place it has, given to ``PLAIN``."""
        settings = {name: getattr(self, name) for name in self.COPIED}
        return {**settings, "bias": self._parameters["bias"] is not None}

    def _product(self, engine: Engine) -> Product | None:
        """What ``make_product`` has made, made anew when codes or scales are others."""
        made = self._products.get(engine.name)
        codes, scale = self._buffers["codes"], self._buffers["scale"]
        assert codes is not None and scale is not None
        if made is None or not made.is_of(codes, scale):
            product = self.make_product(engine) if engine.knows(self.format) else None
            made = self._products[engine.name] = _Made(product, codes, scale)
        return made.product

    def __prepare_scriptable__(self) -> NoReturn:
        """Torch asks for this before it scripts a model."""
        raise ValueError(
            f"torch.jit.script: a {type(self).__name__} cannot be scripted; use torch.jit.trace, "
            "torch.export, torch.compile, export_onnx or export_openvino"
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> PackedLayer:
        """``model.to(...)``: scales move, but stay float32; rounded ones would be other weights."""
        codes, scale = self.codes, self.scale
        # What happens to a float weight: its dtype tells what the layer's is from now on.
        self.dtype = fn(torch.empty(0, dtype=self.dtype, device=scale.device)).dtype
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.scale.dtype != torch.float32:
            self.scale = scale.to(self.scale.device)
        self.codes, self.scale = _shared(codes, self.codes), _shared(scale, self.scale)
        self._products.clear()
        return self

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Says beside the tensors what they mean, where torch keeps versions of modules."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        metadata = getattr(destination, "_metadata", {})
        metadata.setdefault(prefix[:-1], {})["format"] = self.format.described

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: Mapping[str, Any],
        *others: Any,  # the last are torch's error messages
    ) -> None:
        """Forgets what was re-tiled: tensors of inference mode do not tell when written to."""
        self._products.clear()
        tensors = state_dict.get(f"{prefix}codes"), state_dict.get(f"{prefix}scale")
        problem = problem_of_state(self.format, local_metadata.get("format"), *tensors)
        if problem is not None:
            others[-1].append(f"packed layer {prefix[:-1]!r}: {problem}")
        else:
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_products": {}}  # copies and pickles re-tile for themselves

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.__dict__.setdefault("dtype", self.format.dtype)  # pickles of 0.1 do not tell it

    def _describe_weight(self) -> str:
        form = self.format
        return f"codes={len(form.codebook)}, {form.granularity}, mode={self.mode!r}"


class _Made:
    """A product, and the tensors that it was made from as they were."""

    def __init__(self, product: Product | None, codes: Tensor, scale: Tensor) -> None:
        self.product, self.codes, self.scale = product, codes, scale
        self.versions = _version(codes), _version(scale)

    def is_of(self, codes: Tensor, scale: Tensor) -> bool:
        """Whether it was made from these tensors, and neither has been written to since."""
        return (
            codes is self.codes
            and scale is self.scale
            and self.versions == (_version(codes), _version(scale))
        )


# Where a tensor went that layers may share: the others that have it follow.
_went_to: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def _shared(old: Tensor, new: Tensor) -> Tensor:
    """What takes the place of a layer's tensor: for layers that share one, the same for all."""
    if new is old:
        return old
    known: Tensor | None = _went_to[old]() if old in _went_to else None
    if known is not None and known.device == new.device:
        return known
    _went_to[old] = ref(new)
    return new


def _same_values(first: Tensor, second: Tensor) -> bool:
    return (
        first.shape == second.shape
        and first.device == second.device
        and torch.equal(first.detach(), second.to(first.dtype))
    )


def _version(tensor: Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version
