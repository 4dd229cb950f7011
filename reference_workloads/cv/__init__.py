"""Images and what is in them: classification, embeddings of faces, images with text."""

from reference_workloads.shipped import shipped

add = shipped("cv")

add(
    "alexnet",
    title="AlexNet, one tower",
    source="Krizhevsky, One weird trick for parallelizing convolutional neural networks, arXiv 1404.5997; "
    "dimensions as in torchvision",
    parameters=61_100_840,
    flops=2 * 0.714e9,  # torchvision's documentation: 0.71 G multiply-adds
    sample={"batch": 1},
    presets={"standard": {"batch": 128}, "small": {"batch": 64}, "tiny": {"batch": 2, "shrink": 8}},
    optimizer="sgd_momentum",
    tags=("Fathom", "convnet-benchmarks", "TensorFlow benchmarks", "convolution", "2014"),
)

add(
    "vgg16",
    built_by="vgg:vgg16",
    title="VGG-16 (configuration D)",
    source="Simonyan and Zisserman, Very deep convolutional networks, arXiv 1409.1556",
    parameters=138_357_544,
    flops=2 * 15.47e9,  # torchvision's documentation: 15.47 G multiply-adds
    sample={"batch": 1},
    presets={"standard": {"batch": 64}, "small": {"batch": 8}, "tiny": {"batch": 2, "image": 64, "shrink": 16}},
    optimizer="sgd_momentum",
    tags=("AI Matrix", "Fathom", "TensorFlow benchmarks", "HPC workload analysis", "convolution", "2014"),
)

add(
    "googlenet",
    title="GoogLeNet (Inception v1), without auxiliary classifiers",
    source="Szegedy et al., Going deeper with convolutions, arXiv 1409.4842; parameters as in Caffe's "
    "BVLC GoogLeNet (the paper rounds each layer's)",
    parameters=6_998_552,
    flops=2 * 1.5e9,  # the paper: 1.5 billion multiply-adds; its table rounds every layer
    sample={"batch": 1},
    presets={"standard": {"batch": 64}, "small": {"batch": 16}, "tiny": {"batch": 2, "image": 64, "shrink": 8}},
    optimizer="sgd_momentum",
    tags=("AI Matrix", "convnet-benchmarks", "convolution", "branches", "2014"),
)

add(
    "resnet50",
    built_by="resnets:resnet50",
    title="ResNet-50 v1.5 (stride in the 3x3 convolution)",
    source="He et al., Deep residual learning for image recognition, arXiv 1512.03385; MLPerf's v1.5",
    parameters=25_557_032,
    flops=2 * 4.09e9,  # torchvision's documentation: 4.09 G multiply-adds
    sample={"batch": 1},
    presets={"standard": {"batch": 64}, "small": {"batch": 16}, "tiny": {"batch": 2, "image": 64, "shrink": 8}},
    optimizer="sgd_momentum",
    tags=(
        "AI Matrix",
        "AIBench",
        "MLPerf",
        "Fathom",
        "TBD",
        "DAWNBench",
        "TensorFlow benchmarks",
        "HPC workload analysis",
        "convolution",
        "residual",
        "transformers",
        "2015",
    ),
)

add(
    "mobilenet_v2",
    title="MobileNetV2, width 1.0",
    source="Sandler et al., MobileNetV2: inverted residuals and linear bottlenecks, arXiv 1801.04381; "
    "parameters as in torchvision (the paper: 3.4 M)",
    parameters=3_504_872,
    flops=2 * 0.3e9,  # the paper: 300 M multiply-adds
    sample={"batch": 1},
    presets={"standard": {"batch": 96}, "small": {"batch": 32}, "tiny": {"batch": 2, "image": 64, "shrink": 4}},
    optimizer="rmsprop",
    tags=("convolution", "depthwise", "residual", "2018"),
)

add(
    "resnet152",
    built_by="resnets:resnet152",
    title="ResNet-152 v1.5 (stride in the 3x3 convolution)",
    source="He et al., Deep residual learning for image recognition, arXiv 1512.03385; stride as in MLPerf's v1.5",
    parameters=60_192_808,  # published: 60,192,808 (torchvision)
    flops=2 * 11.51e9,  # torchvision's documentation: 11.51 G multiply-adds (the paper, v1: 11.3)
    sample={"batch": 1},
    presets={"standard": {"batch": 64}, "small": {"batch": 4}, "tiny": {"batch": 2, "image": 64, "shrink": 8}},
    optimizer="sgd_momentum",
    tags=("AI Matrix", "TensorFlow benchmarks", "convolution", "residual", "transformers", "2015"),
)

add(
    "densenet121",
    title="DenseNet-121, growth 32",
    source="Huang et al., Densely connected convolutional networks, arXiv 1608.06993",
    parameters=7_978_856,  # published: 7,978,856 (torchvision)
    flops=2 * 2.83e9,  # torchvision's documentation: 2.83 G multiply-adds
    sample={"batch": 1},
    presets={"standard": {"batch": 64}, "small": {"batch": 8}, "tiny": {"batch": 2, "image": 64, "shrink": 4}},
    optimizer="sgd_momentum",
    tags=("AI Matrix", "convolution", "concatenation", "2016"),
)

add(
    "squeezenet",
    title="SqueezeNet 1.0",
    source="Iandola et al., SqueezeNet, arXiv 1602.07360; AI Matrix runs version 1.1 (minor=1)",
    parameters=1_248_424,  # published: 1,248,424 (paper, table 1)
    flops=2 * 0.82e9,  # torchvision's documentation: 0.82 G multiply-adds
    sample={"batch": 1},
    presets={"standard": {"batch": 64}, "small": {"batch": 32}, "tiny": {"batch": 2, "image": 64, "shrink": 8}},
    optimizer="sgd_momentum",
    tags=("AI Matrix", "convolution", "branches", "2016"),
)

add(
    "inception_v3",
    title="Inception v3, without auxiliary classifier, 299 x 299",
    source="Szegedy et al., Rethinking the Inception architecture for computer vision, arXiv 1512.00567; "
    "layers as in torchvision",
    parameters=23_834_568,  # published: 23,834,568 (torchvision without its auxiliary classifier)
    flops=2 * 5.71e9,  # torchvision's documentation: 5.71 G multiply-adds
    sample={"batch": 1},
    presets={"standard": {"batch": 64}, "small": {"batch": 8}, "tiny": {"batch": 2, "image": 139, "shrink": 8}},
    optimizer="rmsprop",
    tags=("TBD", "TensorFlow benchmarks", "convolution", "branches", "2015"),
)

add(
    "overfeat",
    title="OverFeat, fast model, 231 x 231",
    source="Sermanet et al., OverFeat, arXiv 1312.6229; layers as in soumith/convnet-benchmarks",
    parameters=145_920_872,  # published: 145 M (paper, table 4); the sizes give 145,920,872
    flops=2 * 2.81e9,  # the paper, table 4: 2810 million connections
    sample={"batch": 1},
    presets={"standard": {"batch": 128}, "small": {"batch": 16}, "tiny": {"batch": 2, "shrink": 8}},
    optimizer="sgd_momentum",
    tags=("convnet-benchmarks", "convolution", "2013"),
)

add(
    "vgg11",
    built_by="vgg:vgg11",
    title="VGG-11 (configuration A)",
    source="Simonyan and Zisserman, Very deep convolutional networks, arXiv 1409.1556",
    parameters=132_863_336,  # published: 132,863,336 (torchvision; the paper, table 2: 133 M)
    flops=2 * 7.61e9,  # torchvision's documentation: 7.61 G multiply-adds
    sample={"batch": 1},
    presets={"standard": {"batch": 64}, "small": {"batch": 8}, "tiny": {"batch": 2, "image": 64, "shrink": 16}},
    optimizer="sgd_momentum",
    tags=("convnet-benchmarks", "convolution", "2014"),
)

add(
    "cifar_resnet",
    title="Pre-activation ResNet-18 for CIFAR-10, 32 x 32",
    source="He et al., Identity mappings in deep residual networks, arXiv 1603.05027; widths as in "
    "kuangliu/pytorch-cifar",
    parameters=11_172_170,  # kuangliu's: 11,171,146; with the paper's last normalisation 11,172,170
    sample={"batch": 1},
    presets={"standard": {"batch": 128}, "small": {"batch": 64}, "tiny": {"batch": 2, "shrink": 8}},
    optimizer="sgd_momentum",
    tags=("DAWNBench", "convolution", "residual", "2016"),
)

add(
    "efficientnet_b0",
    title="EfficientNet-B0",
    source="Tan and Le, EfficientNet: rethinking model scaling, arXiv 1905.11946",
    parameters=5_288_548,  # published: 5,288,548 (torchvision; the paper, table 2: 5.3 M)
    flops=2 * 0.386e9,  # torchvision: 0.386 G multiply-adds (the paper: 0.39)
    sample={"batch": 1},
    presets={"standard": {"batch": 64}, "small": {"batch": 32}, "tiny": {"batch": 2, "image": 64, "shrink": 4}},
    optimizer="rmsprop",
    tags=("convolution", "depthwise", "residual", "squeeze and excitation", "transformers", "2019"),
)

add(
    "vit_base",
    title="ViT-B/16, vision transformer",
    source="Dosovitskiy et al., An image is worth 16x16 words, arXiv 2010.11929",
    parameters=86_567_656,  # published: 86,567,656 (torchvision; the paper, table 1: 86 M)
    flops=2 * 17.56e9,  # torchvision's documentation: 17.56 G multiply-adds, of which attention 0.72
    sample={"batch": 1},
    presets={
        "standard": {"batch": 64},
        "small": {"batch": 4},
        "tiny": {"batch": 2, "image": 64, "layers": 2, "hidden": 64},
    },
    optimizer="adam",
    tags=("transformer", "attention", "transformers", "2020"),
)

add(
    "swin_tiny",
    title="Swin-T, shifted windows of 7 x 7",
    source="Liu et al., Swin transformer, arXiv 2103.14030",
    parameters=28_288_354,  # published: 28,288,354 (torchvision; the paper, table 1: 29 M)
    flops=2 * 4.49e9,  # torchvision's documentation: 4.49 G multiply-adds, of which attention 0.14
    sample={"batch": 1},
    presets={
        "standard": {"batch": 64},
        "small": {"batch": 8},
        "tiny": {"batch": 2, "image": 64, "window": 2, "shrink": 4},
    },
    optimizer="adamw",
    tags=("transformer", "windowed attention", "transformers", "2021"),
)

add(
    "convnext_tiny",
    title="ConvNeXt-T",
    source="Liu et al., A ConvNet for the 2020s, arXiv 2201.03545; sizes as in facebookresearch/ConvNeXt",
    parameters=28_589_128,  # published: 28,589,128 (torchvision; the paper: 28.6 M)
    flops=2 * 4.46e9,  # torchvision's documentation: 4.46 G multiply-adds (the paper: 4.5)
    sample={"batch": 1},
    presets={"standard": {"batch": 64}, "small": {"batch": 8}, "tiny": {"batch": 2, "image": 64, "shrink": 4}},
    optimizer="adamw",
    tags=("convolution", "depthwise", "layer norm", "residual", "2022"),
)

add(
    "clip",
    title="CLIP ViT-B/32, image and text",
    source="Radford et al., Learning transferable visual models from natural language supervision, "
    "arXiv 2103.00020; FLOPs from mlfoundations/open_clip's table of models",
    parameters=151_277_313,  # published: 151,277,313 (openai/CLIP)
    flops=14.78e9,  # one image (8.82) and one text (5.96), 2 per multiply-add; attention is 0.24 of them
    sample={"batch": 1, "sequence": 77},
    presets={
        "standard": {"batch": 128, "sequence": 77},
        "small": {"batch": 8, "sequence": 77},
        "tiny": {"batch": 2, "sequence": 16, "image": 64, "layers": 2, "hidden": 192, "vocabulary": 1000},
    },
    optimizer="adamw",
    tags=("transformer", "attention", "causal attention", "images and text", "transformers", "2021"),
)

add(
    "rgbd_resnet50",
    built_by="resnets:rgbd_resnet50",
    title="ResNet-50 v1.5 on colour and depth, 253 faces",
    source="Xiong et al., Improving RGB-D face recognition via transfer learning from a pretrained 2D "
    "network, Bench 2019; AIBench's 3D face recognition",
    parameters=24_029_565,  # none published; ResNet-50's 25,557,032 + 3,136 - 1,530,603 = 24,029,565
    sample={"batch": 1},
    presets={"standard": {"batch": 64}, "small": {"batch": 16}, "tiny": {"batch": 2, "image": 64, "shrink": 8}},
    optimizer="sgd_momentum",
    tags=("AIBench", "convolution", "residual", "transformers", "2019"),
)

add(
    "facenet",
    title="FaceNet, Inception-ResNet v1, triplets of 160 x 160",
    source="Schroff et al., FaceNet, arXiv 1503.03832; Szegedy et al., Inception-v4, arXiv 1602.07261; "
    "layers as in davidsandberg/facenet and timesler/facenet-pytorch",
    parameters=23_482_624,  # published: about 24 M (AIBench); facenet-pytorch's layers give 23,482,624
    sample={"batch": 1},
    presets={
        "standard": {"batch": 30},  # 90 images, as in davidsandberg/facenet
        "small": {"batch": 8},
        "tiny": {"batch": 2, "image": 112, "shrink": 8},
    },
    optimizer="adagrad",
    tags=("AIBench", "convolution", "branches", "residual", "embedding of images", "2016"),
)

add(
    "spatial_transformer",
    title="Spatial transformer on MNIST",
    source="Jaderberg et al., Spatial transformer networks, arXiv 1506.02025; layers as in AIBench and in "
    "PyTorch's tutorial",
    parameters=27_360,  # published: 0.03 M (AIBench, its smallest); the layers give 27,360
    sample={"batch": 1},
    # AIBench trains on 64 images, which take a CPU too little time to measure well.
    presets={"standard": {"batch": 64}, "small": {"batch": 1024}, "tiny": {"batch": 4}},
    optimizer="sgd",
    tags=("AIBench", "convolution", "sampling of images", "2015"),
)
