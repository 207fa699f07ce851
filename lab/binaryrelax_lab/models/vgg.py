"""VGG for images of 32 x 32 pixels, with batch normalization (Simonyan and Zisserman, 2015)."""

from torch import Tensor, nn

from binaryrelax_lab.models.initialisation import initialise_convolutions

STAGES = {  # the outputs of the convolutions before each of the five poolings
    11: ((64,), (128,), (256, 256), (512, 512), (512, 512)),
    16: ((64, 64), (128, 128), (256,) * 3, (512,) * 3, (512,) * 3),
}


class VGG(nn.Module):
    """3x3 convolutions with batch normalization, five poolings, one linear classifier."""

    def __init__(self, depth: int, num_channels: int, num_classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential()
        num_inputs = num_channels
        for stage, widths in enumerate(STAGES[depth], start=1):
            for position, width in enumerate(widths, start=1):
                name = f"{stage}_{position}"
                convolution = nn.Conv2d(num_inputs, width, 3, padding=1, bias=False)
                self.features.add_module(f"conv{name}", convolution)
                self.features.add_module(f"norm{name}", nn.BatchNorm2d(width))
                self.features.add_module(f"relu{name}", nn.ReLU(inplace=True))
                num_inputs = width
            self.features.add_module(f"pool{stage}", nn.MaxPool2d(2))
        self.fc = nn.Linear(num_inputs, num_classes)
        initialise_convolutions(self)

    def forward(self, images: Tensor) -> Tensor:
        """The scores of the classes, one row per image."""
        return self.fc(self.features(images).mean(dim=(2, 3)))
