"""Networks that studies run. Import this module in a function, after `lab.torch()`: it needs torch."""

from __future__ import annotations

from typing import Any

from torch import nn

from cudalab.device.arrays import installed

STAGES = ((3, 1), (4, 2), (6, 2), (3, 2))  # of ResNet-50: blocks, and the stride of the first
WIDTH = 64  # channels of its first stage
EXPANSION = 4  # a bottleneck's output channels, in multiples of its own width


def resnet50(classes: int = 1000, width: int = WIDTH) -> Any:
    """ResNet-50 with random weights: torchvision's if it is installed, else ours.

    `width`: channels of the first stage. With another width than ResNet-50's it is always ours.
    """
    if width == WIDTH and installed("torchvision"):
        from torchvision.models import resnet50 as theirs

        return theirs(weights=None, num_classes=classes)
    return ResNet50(classes, width)


class Bottleneck(nn.Module):
    """A residual block: 1x1 to `width` channels, 3x3 with the stride, 1x1 to EXPANSION * width."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = EXPANSION * width
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Any) -> Any:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)) + (x if self.downsample is None else self.downsample(x)))


class ResNet50(nn.Module):
    """ResNet-50 after "Deep Residual Learning for Image Recognition", the stride in the 3x3 as torchvision has it.

    Its parameters have torchvision's names, so one state fits both. `width`: channels of the first stage.
    """

    def __init__(self, classes: int = 1000, width: int = WIDTH) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        channels = width
        for i, (blocks, stride) in enumerate(STAGES):
            inner = width * 2**i
            stage = [Bottleneck(channels if not b else EXPANSION * inner, inner, 1 if b else stride)
                     for b in range(blocks)]  # fmt: skip
            self.add_module(f"layer{i + 1}", nn.Sequential(*stage))
            channels = EXPANSION * inner
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Any) -> Any:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for i in range(len(STAGES)):
            x = getattr(self, f"layer{i + 1}")(x)
        return self.fc(self.avgpool(x).flatten(1))


class SmallCNN(nn.Module):
    """Three convolutions of 3x3, each with ReLU and halved, then one linear layer; for images of any size from 8x8.

    `norm` puts a BatchNorm after each convolution, `bias` says whether these have one.
    """

    def __init__(self, classes: int = 10, width: int = 32, norm: bool = True, bias: bool = True) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in ((3, width), (width, 2 * width), (2 * width, 4 * width)):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=bias)]
            layers += [nn.BatchNorm2d(outputs)] if norm else []
            layers += [nn.ReLU(), nn.MaxPool2d(2)]
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classify = nn.Linear(4 * width, classes)

    def forward(self, x: Any) -> Any:
        return self.classify(self.features(x))
