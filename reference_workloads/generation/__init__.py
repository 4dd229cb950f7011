"""Images, video and volumes that are made: adversarial networks, autoencoders, diffusion."""

from reference_workloads.shipped import shipped

add = shipped("generation")

add(
    "wgan",
    title="Wasserstein GAN, two networks of 4 linear layers of 512",
    source="Arjovsky et al., Wasserstein GAN, arXiv 1701.07875; layers as in martinarjovsky/WassersteinGAN "
    "with --mlp_G --mlp_D and widths of 512, data shaped as LSUN",
    parameters=13_698_561,  # nobody published one
    sample={"batch": 1},
    presets={
        "standard": {"batch": 64},  # the paper's, on a CPU a matter of milliseconds: hence the larger small
        "small": {"batch": 256},
        "tiny": {"batch": 4, "image": 16, "width": 32},
    },
    optimizer="rmsprop",
    tags=("AIBench", "TBD", "adversarial", "linear", "2017"),
)

add(
    "cyclegan",
    title="CycleGAN, two generators of 9 residual blocks and two 70x70 PatchGANs",
    source="Zhu et al., Unpaired image-to-image translation using cycle-consistent adversarial networks, "
    "arXiv 1703.10593; layers as in junyanz/pytorch-CycleGAN-and-pix2pix",
    parameters=28_285_832,  # published: 11.378 M a generator and 2.765 M a critic, twice (printed by the code)
    # GAN Compression, arXiv 2003.08936, gives a generator 56.8 G multiply-adds at 256x256, which counts the
    # transposed convolutions at their outputs, 4 times too often; without that it is 49.6 G.
    sample={"batch": 1, "image": 256},
    presets={
        "standard": {"batch": 1, "image": 256},
        "small": {"batch": 1, "image": 128},
        "tiny": {"batch": 1, "image": 32, "blocks": 2, "shrink": 16},
    },
    optimizer="adam",
    tags=("AIBench", "adversarial", "convolution", "transposed convolution", "instance norm", "2017"),
)

add(
    "image_captioning",
    title="Neural image caption, GoogLeNet and an LSTM of 512",
    source="Vinyals et al., Show and tell, arXiv 1411.4555; sizes as in im2txt of tensorflow/models",
    parameters=20_899_600,  # nobody published one
    sample={"batch": 1, "words": 20},
    presets={
        "standard": {"batch": 128, "words": 20},
        "small": {"batch": 8, "words": 20},
        "tiny": {"batch": 2, "words": 5, "image": 64, "vocabulary": 1000, "width": 32, "shrink": 8},
    },
    optimizer="adam",
    tags=("AIBench", "convolution", "recurrent", "embedding", "2014"),
)

add(
    "image_compression",
    title="Recurrent image compression, 16 iterations, with its entropy coder",
    source="Toderici et al., Full resolution image compression with recurrent neural networks, arXiv "
    "1608.05148; layers as in 1zb/pytorch-image-comp-rnn, the entropy coder's as in tensorflow/models",
    parameters=40_408_096,  # nobody published one
    sample={"batch": 1},
    presets={"standard": {"batch": 32}, "small": {"batch": 2}, "tiny": {"batch": 2, "iterations": 2, "shrink": 16}},
    optimizer="adam",
    tags=("AIBench", "convolution", "recurrent", "2016"),
)

add(
    "video_prediction",
    title="CDNA video prediction, 7 convolutional LSTMs and 10 kernels, robot pushing",
    source="Finn et al., Unsupervised learning for physical interaction through video prediction, arXiv "
    "1605.07157; layers as in video_prediction of tensorflow/models",
    parameters=8_311_967,  # nobody published one
    sample={"batch": 1, "frames": 10},
    presets={
        "standard": {"batch": 32, "frames": 10},
        "small": {"batch": 2, "frames": 10},
        "tiny": {"batch": 2, "frames": 4, "image": 32, "shrink": 8},
    },
    optimizer="adam",
    tags=("AIBench", "convolution", "recurrent", "transposed convolution", "2016"),
)

add(
    "object_reconstruction",
    title="Perspective transformer net, volumes of 32x32x32 and their silhouettes from 24 sides",
    source="Yan et al., Perspective transformer nets, arXiv 1612.00814; layers as in xcyan/nips16_PTN",
    parameters=37_955_297,  # nobody published one
    sample={"batch": 1, "views": 24},
    presets={
        "standard": {"batch": 6, "views": 24},
        "small": {"batch": 2, "views": 24},
        "tiny": {"batch": 2, "views": 3, "shrink": 8},
    },
    optimizer="adam",
    tags=("AIBench", "convolution", "transposed 3D convolution", "grid sampling", "2016"),
)

add(
    "vae",
    title="Variational autoencoder, 784 pixels and 200 latent numbers",
    source="Kingma and Welling, Auto-encoding variational Bayes, arXiv 1312.6114; as in rdadolf/fathom",
    parameters=471_584,  # nobody published one
    sample={"batch": 1},
    presets={
        "standard": {"batch": 128},  # Fathom's, on a CPU a matter of a millisecond: hence the larger small
        "small": {"batch": 4096},
        "tiny": {"batch": 8, "latent": 16},
    },
    optimizer="adam",
    tags=("Fathom", "linear", "2013"),
)

add(
    "sdxl_unet",
    title="Stable Diffusion XL's UNet, one step of denoising (small: 2 of 10 transformer layers)",
    source="Podell et al., SDXL, arXiv 2307.01952; configuration of stabilityai/stable-diffusion-xl-base-1.0",
    parameters=2_567_463_684,  # published: 2567.46 M (diffusers' benchmarks), 2.6 B (the paper's table 1)
    flops=5979.1e9,  # diffusers' benchmarks; without the products inside attention
    sample={"batch": 1, "image": 1024},
    presets={
        "standard": {"batch": 2, "image": 1024, "layers": 10},  # with and without the text: guidance
        "small": {"batch": 1, "image": 128, "layers": 2},
        "tiny": {"batch": 1, "image": 64, "layers": 2, "shrink": 8},
    },
    optimizer="adamw",
    tags=("MLPerf", "diffusion", "convolution", "attention", "group norm", "diffusers", "2023"),
)

add(
    "flux",
    title="FLUX.1 diffusion transformer, one step of denoising (small: 1 + 2 of its 19 + 38 blocks)",
    source="black-forest-labs/flux, schnell's configuration, as in MLPerf training v5.1; after Esser et al., "
    "Scaling rectified flow transformers, arXiv 2403.03206",
    parameters=11_891_178_560,  # published: 11.9 B (MLPerf training's list of layers)
    flops=59523.04e9,  # diffusers' benchmarks, of dev; without the products inside attention
    sample={"batch": 1, "image": 1024, "text": 512, "layers": 19, "single_layers": 38},
    presets={
        "standard": {"batch": 16, "image": 256, "text": 256, "layers": 19, "single_layers": 38},
        "small": {"batch": 1, "image": 128, "text": 64, "layers": 1, "single_layers": 2},
        "tiny": {"batch": 2, "image": 64, "text": 8, "layers": 1, "single_layers": 2, "heads": 2},
    },
    optimizer="adamw",
    tags=("MLPerf", "diffusion", "transformer", "attention", "diffusers", "2024"),
)
