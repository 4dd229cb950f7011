"""Object detection, keypoints, text in images and segmentation: dense predictions on large images."""

from reference_workloads.shipped import shipped

add = shipped("detection")

add(
    "mask_rcnn",
    title="Mask R-CNN, ResNet-101 with a feature pyramid",
    source="He et al., Mask R-CNN, arXiv 1703.06870; sizes as in facebookresearch/maskrcnn-benchmark, COCO",
    parameters=63_287_477,  # published: 63.2 M (Wang et al., arXiv 2102.12122, 80 classes)
    sample={"batch": 1, "image": 800, "proposals": 1000},
    presets={
        "standard": {"batch": 2, "image": 800, "proposals": 1000},
        "small": {"batch": 1, "image": 320, "proposals": 250},
        "tiny": {"batch": 2, "image": 64, "proposals": 20, "shrink": 8},
    },
    optimizer="sgd_momentum",
    tags=("AI Matrix", "MLPerf", "convolution", "feature pyramid", "region proposals", "2017"),
)

add(
    "faster_rcnn",
    title="Faster R-CNN, ResNet-50 without a pyramid, VOC 2007",
    source="Ren et al., Faster R-CNN, arXiv 1506.01497; sizes as in jwyang/faster-rcnn.pytorch",
    parameters=28_412_246,  # nobody published it
    sample={"batch": 1, "image": 600, "proposals": 300},
    presets={
        "standard": {"batch": 4, "image": 600, "proposals": 300},
        "small": {"batch": 1, "image": 300, "proposals": 100},
        "tiny": {"batch": 2, "image": 96, "proposals": 10, "shrink": 8},
    },
    optimizer="sgd_momentum",
    tags=("AI Matrix", "AIBench", "TBD", "convolution", "residual", "region proposals", "2015"),
)

add(
    "ssd_vgg",
    title="SSD300, VGG-16",
    source="Liu et al., SSD: single shot multibox detector, arXiv 1512.02325; weiliu89/caffe, VOC",
    parameters=26_285_486,  # published: 26.285 M (OpenVINO's model zoo, ssd300)
    flops=62.815e9,  # OpenVINO's model zoo, ssd300, 2 per multiply-add
    sample={"batch": 1},
    presets={"standard": {"batch": 32}, "small": {"batch": 2}, "tiny": {"batch": 2, "shrink": 16}},
    optimizer="sgd_momentum",
    tags=("AI Matrix", "convolution", "dilated convolution", "single shot", "2015"),
)

add(
    "ssd_resnet34",
    title="SSD, ResNet-34, 1200x1200 (inference) or 300x300 (training)",
    source="MLPerf training, arXiv 1910.01500, and inference, arXiv 1911.02549, with mlcommons' code",
    parameters=19_972_534,  # published: 20.058 M (OpenVINO's model zoo, ssd-resnet34-1200-onnx)
    flops=433.411e9,  # OpenVINO's model zoo; MLPerf's paper: 433 GOPS
    sample={"batch": 1, "image": 1200},
    presets={
        "standard": {"batch": 8, "image": 1200},
        "small": {"batch": 4, "image": 300},
        "tiny": {"batch": 2, "image": 300, "shrink": 16},
    },
    optimizer="sgd_momentum",
    tags=("AI Matrix", "MLPerf", "convolution", "residual", "single shot", "2018"),
)

add(
    "dssd",
    title="DSSD 321, ResNet-101",
    source="Fu et al., DSSD: deconvolutional single shot detector, arXiv 1701.06659; chengyangfu/caffe, VOC",
    parameters=172_209_008,  # nobody published it
    sample={"batch": 1},
    presets={"standard": {"batch": 8}, "small": {"batch": 1}, "tiny": {"batch": 2, "shrink": 16}},
    optimizer="sgd_momentum",
    tags=("AI Matrix", "convolution", "residual", "deconvolution", "single shot", "2017"),
)

add(
    "cpn",
    title="Cascaded pyramid network, ResNet-50, 17 keypoints",
    source="Chen et al., Cascaded pyramid network for multi-person pose estimation, arXiv 1711.07319; "
    "chenyilun95/tf-cpn",
    parameters=27_009_770,  # published: 27.0 M (Sun et al., arXiv 1902.09212)
    sample={"batch": 1, "image": 384},
    presets={
        "standard": {"batch": 16, "image": 384},
        "small": {"batch": 4, "image": 384},
        "tiny": {"batch": 2, "image": 96, "shrink": 8},
    },
    optimizer="adam",
    tags=("AI Matrix", "convolution", "residual", "feature pyramid", "keypoints", "2017"),
)

add(
    "seglink",
    title="SegLink text detector, VGG-16",
    source="Shi et al., Detecting oriented text in natural images by linking segments, arXiv 1703.06520; "
    "bgshih/seglink",
    parameters=23_980_280,  # nobody published it
    sample={"batch": 1, "image": 512},
    presets={
        "standard": {"batch": 16, "image": 512},
        "small": {"batch": 1, "image": 384},
        "tiny": {"batch": 2, "image": 128, "shrink": 16},
    },
    optimizer="sgd_momentum",
    tags=("AI Matrix", "convolution", "dilated convolution", "text", "2017"),
)

add(
    "crnn",
    title="CRNN text recognition, 32x100",
    source="Shi et al., An end-to-end trainable neural network for image-based sequence recognition, "
    "arXiv 1507.05717; bgshih/crnn",
    parameters=8_331_301,  # published: 8.3 M (paper)
    sample={"batch": 1},
    presets={"standard": {"batch": 256}, "small": {"batch": 32}, "tiny": {"batch": 2, "shrink": 8}},
    optimizer="rmsprop",
    tags=("AI Matrix", "convolution", "recurrent", "text", "2015"),
)

add(
    "retinanet",
    title="RetinaNet, ResNeXt-50 32x4d with a feature pyramid, Open Images",
    source="Lin et al., Focal loss for dense object detection, arXiv 1708.02002; sizes as in MLPerf training "
    "v2.0 and inference v2.1",
    parameters=37_060_652,  # these layers give torchvision's 34,014,999 with ResNet-50 and 91 classes
    sample={"batch": 1, "image": 800},
    presets={
        "standard": {"batch": 8, "image": 800},
        "small": {"batch": 1, "image": 384},
        "tiny": {"batch": 2, "image": 64, "shrink": 8},
    },
    optimizer="adam",
    tags=("MLPerf", "convolution", "grouped convolution", "feature pyramid", "single shot", "2017"),
)

add(
    "unet3d",
    title="3D U-Net, patches of KiTS19",
    source="Isensee et al., nnU-Net, arXiv 1809.10486; sizes as in MLPerf training v1.0 (mlcommons/training, "
    "image_segmentation)",
    parameters=31_190_243,  # published: 31.2 M, for nnU-Net's 3D network
    sample={"batch": 1, "image": 128},
    presets={
        "standard": {"batch": 2, "image": 128},
        "small": {"batch": 1, "image": 64},
        "tiny": {"batch": 2, "image": 16, "levels": 3, "shrink": 8},
    },
    optimizer="sgd_momentum",
    tags=("MLPerf", "3D convolution", "segmentation", "monai", "2018"),
)
