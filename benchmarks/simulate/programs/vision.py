"""Models for images: timm, diffusers, segmentation-models-pytorch, vit-pytorch, kornia, monai and others."""

import torch
import torch.nn.functional as F
from common import DEVICE, randint, randn, report, train


def timm(name, **options):
    def program():
        import timm as library

        model = library.create_model(name, num_classes=5, **options)
        x, y = randn(4, 3, 64, 64), randint(5, 4)
        return train(model, lambda m: F.cross_entropy(m(x), y))

    return program


def timm_ema():
    import numpy
    import timm as library
    from timm.data import Mixup
    from timm.loss import SoftTargetCrossEntropy
    from timm.utils import ModelEmaV2

    numpy.random.seed(0)
    model = library.create_model("vit_tiny_patch16_224", img_size=32, num_classes=5).to(DEVICE)
    ema, mix, lossf = (
        ModelEmaV2(model, 0.9),
        Mixup(num_classes=5),
        SoftTargetCrossEntropy(),
    )
    x, y = mix(randn(4, 3, 32, 32), randint(5, 4))
    value = train(model, lambda m: lossf(m(x), y))
    ema.update(model)
    return value + ema.module.head.weight.sum().item()


def unet():
    from diffusers import DDPMScheduler, UNet2DModel

    model = UNet2DModel(
        sample_size=16,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    x, noise, steps = randn(2, 1, 16, 16), randn(2, 1, 16, 16), randint(100, 2)
    noisy = DDPMScheduler(num_train_timesteps=100).add_noise(x, noise, steps)
    return train(model, lambda m: F.mse_loss(m(noisy, steps).sample, noise))


def unet_condition():
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        cross_attention_dim=16,
        norm_num_groups=4,
        attention_head_dim=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )
    x, text, steps = randn(2, 4, 8, 8), randn(2, 5, 16), randint(100, 2)
    return train(model, lambda m: m(x, steps, text).sample.square().mean())


def autoencoder():
    from diffusers import AutoencoderKL

    x = randn(2, 3, 16, 16)
    model = AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, layers_per_block=1)
    return train(model, lambda m: F.mse_loss(m(x).sample, x))


def pipeline():
    from diffusers import DDIMPipeline, DDIMScheduler, UNet2DModel

    model = UNet2DModel(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(8, 8),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
    )
    pipe = DDIMPipeline(model, DDIMScheduler(num_train_timesteps=20)).to(DEVICE)
    pipe.set_progress_bar_config(disable=True)
    images = pipe(
        1, num_inference_steps=3, output_type="np", generator=torch.Generator("cpu").manual_seed(0)
    ).images
    return images.mean()


def segmentation():
    import segmentation_models_pytorch as smp

    model = smp.Unet("resnet18", encoder_weights=None, classes=1)
    x, y = randn(2, 3, 32, 32), randint(2, 2, 1, 32, 32).float()
    return train(model, lambda m: smp.losses.DiceLoss("binary")(m(x), y))


def vit_pytorch():
    from vit_pytorch import ViT

    x, y = randn(2, 3, 32, 32), randint(5, 2)
    model = ViT(image_size=32, patch_size=8, num_classes=5, dim=32, depth=2, heads=2, mlp_dim=32)
    return train(model, lambda m: F.cross_entropy(m(x), y))


def kornia():
    import kornia.augmentation as augment
    import kornia.filters as filters

    x = randn(2, 3, 16, 16).requires_grad_()
    blurred = filters.gaussian_blur2d(x, (3, 3), (1.5, 1.5))
    flipped = augment.AugmentationSequential(
        augment.RandomHorizontalFlip(p=1.0), augment.Normalize(0.5, 0.5)
    )(blurred)
    flipped.square().mean().backward()
    return x.grad.abs().sum().item()


def monai():
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet

    model = UNet(spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,))
    x, y = randn(1, 1, 8, 8, 8), randint(2, 1, 1, 8, 8, 8)
    return train(model, lambda m: DiceCELoss(to_onehot_y=True, softmax=True)(m(x), y))


def open_clip():
    from open_clip.loss import ClipLoss
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    model = CLIP(
        16,
        CLIPVisionCfg(layers=2, width=32, head_width=16, patch_size=8, image_size=32),
        CLIPTextCfg(context_length=8, vocab_size=99, width=32, heads=2, layers=2),
    )
    x, tokens = randn(2, 3, 32, 32), randint(99, 2, 8)
    return train(model, lambda m: ClipLoss()(*m(x, tokens)[:3]))


def efficientnet():
    from efficientnet_pytorch import EfficientNet

    model = EfficientNet.from_name("efficientnet-b0", num_classes=5, dropout_rate=0.0, drop_connect_rate=0.0)
    x, y = randn(2, 3, 32, 32), randint(5, 2)
    return train(model, lambda m: F.cross_entropy(m(x), y))


def metric_learning():
    from pytorch_metric_learning import losses, miners

    loss, miner = losses.TripletMarginLoss(), miners.BatchHardMiner()
    x, y = randn(12, 8), torch.arange(12).to(DEVICE) // 4

    def step(model):
        out = model(x)
        return loss(out, y, miner(out, y))

    return train(torch.nn.Linear(8, 4), step)


PROGRAMS = {
    "timm resnet18": timm("resnet18"),
    "timm convnext_atto": timm("convnext_atto"),
    "timm efficientnet_b0": timm("efficientnet_b0"),
    "timm mobilenetv3_small_050": timm("mobilenetv3_small_050"),
    "timm mixer_s32_224": timm("mixer_s32_224", img_size=64),
    "timm swin_tiny": timm("swin_tiny_patch4_window7_224", img_size=64, drop_path_rate=0.0),
    "timm vit, mixup, EMA": timm_ema,
    "diffusers UNet2DModel": unet,
    "diffusers UNet2DConditionModel": unet_condition,
    "diffusers AutoencoderKL": autoencoder,
    "diffusers DDIMPipeline": pipeline,
    "segmentation-models-pytorch Unet": segmentation,
    "vit-pytorch ViT": vit_pytorch,
    "kornia": kornia,
    "monai UNet": monai,
    "open_clip": open_clip,
    "efficientnet-pytorch": efficientnet,
    "pytorch-metric-learning": metric_learning,
}

if __name__ == "__main__":
    for name, program in PROGRAMS.items():
        report(name, program)
