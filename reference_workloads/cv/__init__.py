"""Image classification on ImageNet-sized images (3 x 224 x 224, 1000 classes)."""

from statsnet.workloads.registry import register

register(
    "reference_workloads.cv.alexnet:build",
    name="alexnet",
    domain="cv",
    title="AlexNet, one tower",
    source="Krizhevsky, One weird trick for parallelizing convolutional neural networks, arXiv 1404.5997; "
    "dimensions as in torchvision",
    parameters=61_100_840,
    flops=2 * 0.714e9,  # torchvision's documentation: 0.71 G multiply-adds
    sample={"batch": 1},
    presets={
        "standard": {"batch": 128},
        "small": {"batch": 64},
        "tiny": {"batch": 2, "shrink": 8},
    },
    optimizer="sgd_momentum",
    tags=("convolution", "2014"),
)

register(
    "reference_workloads.cv.vgg16:build",
    name="vgg16",
    domain="cv",
    title="VGG-16 (configuration D)",
    source="Simonyan and Zisserman, Very deep convolutional networks, arXiv 1409.1556",
    parameters=138_357_544,
    flops=2 * 15.47e9,  # torchvision's documentation: 15.47 G multiply-adds
    sample={"batch": 1},
    presets={
        "standard": {"batch": 64},
        "small": {"batch": 8},
        "tiny": {"batch": 2, "image": 64, "shrink": 16},
    },
    optimizer="sgd_momentum",
    tags=("convolution", "2014"),
)

register(
    "reference_workloads.cv.googlenet:build",
    name="googlenet",
    domain="cv",
    title="GoogLeNet (Inception v1), without auxiliary classifiers",
    source="Szegedy et al., Going deeper with convolutions, arXiv 1409.4842; parameters as in Caffe's "
    "BVLC GoogLeNet (the paper rounds each layer's)",
    parameters=6_998_552,
    flops=2 * 1.5e9,  # the paper: 1.5 billion multiply-adds; its table rounds every layer
    sample={"batch": 1},
    presets={
        "standard": {"batch": 64},
        "small": {"batch": 16},
        "tiny": {"batch": 2, "image": 64, "shrink": 8},
    },
    optimizer="sgd_momentum",
    tags=("convolution", "branches", "2014"),
)

register(
    "reference_workloads.cv.resnet50:build",
    name="resnet50",
    domain="cv",
    title="ResNet-50 v1.5 (stride in the 3x3 convolution)",
    source="He et al., Deep residual learning for image recognition, arXiv 1512.03385; MLPerf's v1.5",
    parameters=25_557_032,
    flops=2 * 4.09e9,  # torchvision's documentation: 4.09 G multiply-adds
    sample={"batch": 1},
    presets={
        "standard": {"batch": 64},
        "small": {"batch": 16},
        "tiny": {"batch": 2, "image": 64, "shrink": 8},
    },
    optimizer="sgd_momentum",
    tags=("convolution", "residual", "transformers", "2015"),
)

register(
    "reference_workloads.cv.mobilenet_v2:build",
    name="mobilenet_v2",
    domain="cv",
    title="MobileNetV2, width 1.0",
    source="Sandler et al., MobileNetV2: inverted residuals and linear bottlenecks, arXiv 1801.04381; "
    "parameters as in torchvision (the paper: 3.4 M)",
    parameters=3_504_872,
    flops=2 * 0.3e9,  # the paper: 300 M multiply-adds
    sample={"batch": 1},
    presets={
        "standard": {"batch": 96},
        "small": {"batch": 32},
        "tiny": {"batch": 2, "image": 64, "shrink": 4},
    },
    optimizer="rmsprop",
    tags=("convolution", "depthwise", "residual", "2018"),
)
