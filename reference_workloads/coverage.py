"""Which task of which published suite is covered by which workload.

python -m reference_workloads.coverage > docs/workloads.md
"""

from __future__ import annotations

from statsnet.workloads import Workload, all_workloads, get

TASKS: dict[str, tuple[tuple[str, str], ...]] = {
    "AI Matrix": (
        ("GoogLeNet", "cv/googlenet"),
        ("VGG-16", "cv/vgg16"),
        ("ResNet-50", "cv/resnet50"),
        ("ResNet-152", "cv/resnet152"),
        ("DenseNet-121", "cv/densenet121"),
        ("SqueezeNet", "cv/squeezenet"),
        ("Mask R-CNN (ResNet-101)", "detection/mask_rcnn"),
        ("Faster R-CNN", "detection/faster_rcnn"),
        ("SSD (VGG)", "detection/ssd_vgg"),
        ("SSD (ResNet-34)", "detection/ssd_resnet34"),
        ("DSSD", "detection/dssd"),
        ("CPN", "detection/cpn"),
        ("SegLink", "detection/seglink"),
        ("CRNN", "detection/crnn"),
        ("NMT (GNMT 4+4)", "nlp/gnmt"),
        ("DeepSpeech", "speech/deepspeech1"),
        ("BERT", "nlp/bert_base"),
        ("BERT large", "nlp/bert_large"),
        ("DIN", "recsys/din"),
        ("DIEN", "recsys/dien"),
        ("NCF", "recsys/ncf"),
        ("Wide&Deep", "recsys/wide_deep"),
        ("GCN", "graph/gcn"),
        ("layers", "micro/ai_matrix_layers"),
        ("matrix products", "micro/ai_matrix_gemm"),
        ("recurrent layers", "micro/ai_matrix_rnn"),
    ),
    "AIBench": (
        ("image classification", "cv/resnet50"),
        ("image generation", "generation/wgan"),
        ("text-to-text", "nlp/transformer_base"),
        ("image-to-text", "generation/image_captioning"),
        ("image-to-image", "generation/cyclegan"),
        ("speech recognition", "speech/deepspeech2"),
        ("face embedding", "cv/facenet"),
        ("3D face recognition", "cv/rgbd_resnet50"),
        ("object detection", "detection/faster_rcnn"),
        ("recommendation", "recsys/ncf"),
        ("video prediction", "generation/video_prediction"),
        ("image compression", "generation/image_compression"),
        ("3D object reconstruction", "generation/object_reconstruction"),
        ("text summarization", "nlp/summarization"),
        ("spatial transformer", "cv/spatial_transformer"),
        ("learning to rank", "recsys/ranking_distillation"),
        ("neural architecture search", "nlp/enas"),
    ),
    "MLPerf": (
        ("image classification", "cv/resnet50"),
        ("object detection, light", "detection/ssd_resnet34"),
        ("object detection, heavy", "detection/mask_rcnn"),
        ("translation, recurrent", "nlp/gnmt"),
        ("translation, not recurrent", "nlp/transformer_base"),
        ("recommendation", "recsys/ncf"),
        ("reinforcement learning", "rl/minigo"),
        ("speech (first version)", "speech/deepspeech2"),
        ("sentiment", "nlp/sentiment"),
        ("BERT large", "nlp/bert_large"),
        ("DLRM", "recsys/dlrm"),
        ("DLRM-DCNv2", "recsys/dlrm_dcnv2"),
        ("RetinaNet", "detection/retinanet"),
        ("3D-UNet", "detection/unet3d"),
        ("RNN-T", "speech/rnnt"),
        ("Llama 2 70B, prefill", "llm/llama2_70b_prefill"),
        ("Llama 3 8B, prefill", "llm/llama3_8b_prefill"),
        ("Llama 3 8B, decode", "llm/llama3_8b_decode"),
        ("mixture of experts (Mixtral)", "llm/mixtral"),
        ("Stable Diffusion XL", "generation/sdxl_unet"),
        ("Flux", "generation/flux"),
        ("Whisper", "speech/whisper_base"),
        ("R-GAT", "graph/rgat"),
        ("GPT-J", "llm/gptj"),
    ),
    "DeepBench": (
        ("dense matrix products", "micro/deepbench_gemm"),
        ("convolutions", "micro/deepbench_conv"),
        ("recurrent layers", "micro/deepbench_rnn"),
        ("sparse matrix products", "micro/deepbench_sparse"),
        ("all-reduce", "micro/deepbench_all_reduce"),
    ),
    "DNNMark": (("primitives", "micro/dnnmark"),),
    "Fathom": (
        ("seq2seq", "nlp/seq2seq"),
        ("MemN2N", "nlp/memn2n"),
        ("Deep Speech", "speech/deepspeech1"),
        ("VAE", "generation/vae"),
        ("ResNet", "cv/resnet50"),
        ("VGG", "cv/vgg16"),
        ("AlexNet", "cv/alexnet"),
        ("deep Q", "rl/dqn"),
    ),
    "TBD": (
        ("ResNet-50", "cv/resnet50"),
        ("Inception-v3", "cv/inception_v3"),
        ("seq2seq", "nlp/seq2seq"),
        ("Transformer", "nlp/transformer_base"),
        ("Faster R-CNN", "detection/faster_rcnn"),
        ("Deep Speech 2", "speech/deepspeech2"),
        ("WGAN", "generation/wgan"),
        ("A3C", "rl/a3c"),
    ),
    "DAWNBench": (
        ("CIFAR-10", "cv/cifar_resnet"),
        ("ImageNet", "cv/resnet50"),
        ("SQuAD (BiDAF)", "nlp/bidaf"),
    ),
    "convnet-benchmarks": (
        ("AlexNet", "cv/alexnet"),
        ("OverFeat", "cv/overfeat"),
        ("VGG-A", "cv/vgg11"),
        ("GoogLeNet", "cv/googlenet"),
    ),
    "TensorFlow benchmarks": (
        ("Inception-v3", "cv/inception_v3"),
        ("ResNet-50", "cv/resnet50"),
        ("ResNet-152", "cv/resnet152"),
        ("VGG-16", "cv/vgg16"),
        ("AlexNet", "cv/alexnet"),
    ),
    "HPC workload analysis": (
        ("VGG", "cv/vgg16"),
        ("ResNet", "cv/resnet50"),
        ("seq2seq translation", "nlp/seq2seq"),
        ("RNN language model", "nlp/rnn_lm"),
        ("attention-over-attention reader", "nlp/aoa_reader"),
    ),
}


def document() -> str:
    """docs/workloads.md."""
    parts = [
        "# Reference workloads",
        "",
        "Generated by `python -m reference_workloads.coverage > docs/workloads.md`; a test checks it.",
        "",
        "Each workload is a published architecture with random weights and made-up inputs. Its file names the source.",
        "The presets `small` and `standard` have the same model and differ in their inputs, unless the title in",
        "`statsnet list` says otherwise. `tiny` is for tests. A workload may stand for tasks of several suites.",
    ]
    for suite, tasks in TASKS.items():
        parts += ["", f"## {suite}", "", "| task | workload | file |", "|---|---|---|"]
        parts += [f"| {task} | {name} | `{_file(get(name))}` |" for task, name in tasks]
    covered = {name for tasks in TASKS.values() for _, name in tasks}
    rest = [entry for entry in all_workloads() if entry.builtin and entry.full_name not in covered]
    parts += ["", "## In no suite", "", "| workload | what | file |", "|---|---|---|"]
    parts += [f"| {entry.full_name} | {entry.title} | `{_file(entry)}` |" for entry in rest]
    return "\n".join(parts) + "\n"


def _file(entry: Workload) -> str:
    return entry.address.partition(":")[0].replace(".", "/") + ".py"


if __name__ == "__main__":
    print(document(), end="")
