"""ImageNet: the recipes of the paper's Table 3, one network by five methods."""

from dataclasses import replace

from binaryrelax_lab.recipes.image_recipe import ImageRecipe
from binaryrelax_lab.recipes.learning_rate import Steps
from binaryrelax_lab.recipes.methods import by_method
from binaryrelax_lab.recipes.name import RecipeName


def imagenet_resnet18(method: str = "float") -> ImageRecipe:
    """ResNet-18: BinaryRelax gains 2.4 points over BWN and 4.7 over TWN (top-1).

    The paper starts from the float weights that come with torchvision, and the float figures are
    theirs: begin with their file. Without it the float network is trained here, with the settings
    of the others.
    """
    top1 = {"float": 69.6, "bwn": 60.8, "binary": 63.2, "twn": 61.8, "ternary": 66.5}
    top5 = {"float": 89.0, "bwn": 83.0, "binary": 85.1, "twn": 84.2, "ternary": 87.3}
    if method not in top1:
        raise ValueError(f"method={method!r}: it must be one of {', '.join(top1)}")
    recipe = by_method(_float_recipe(), method, growth=1.045, growth_every_epochs=0.5)
    return replace(recipe, paper_accuracy=top1[method], paper_accuracy_top5=top5[method])


def _float_recipe() -> ImageRecipe:
    """The numbers of the paper's section 3.3; it does not name the batch size."""
    return ImageRecipe(
        name=RecipeName("imagenet-resnet18-float"),
        dataset="imagenet",
        network="resnet18-imagenet",
        method="float",
        epochs=70,
        batch_size=256,
        lr=0.1,
        lr_schedule=Steps(milestones=(30, 40, 50)),
        momentum=0.9,
        weight_decay=1e-4,
        phase_two_epoch=55,
        flip=True,
    )


IMAGENET_ROWS = (imagenet_resnet18,)
