# from openai/guided-diffusion: guided_diffusion
# devfix repair -- python main.py
import torch
from guided_diffusion import gaussian_diffusion as gd
from guided_diffusion.respace import SpacedDiffusion, space_timesteps
from guided_diffusion.unet import UNetModel

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = UNetModel(
    image_size=8, in_channels=1, model_channels=32, out_channels=1, num_res_blocks=1, attention_resolutions=(2,),
    channel_mult=(1, 2), num_heads=2, num_classes=3,
).to(device)  # fmt: skip
diffusion = SpacedDiffusion(
    use_timesteps=space_timesteps(40, "ddim5"),
    betas=gd.get_named_beta_schedule("linear", 40),
    model_mean_type=gd.ModelMeanType.EPSILON,
    model_var_type=gd.ModelVarType.FIXED_SMALL,
    loss_type=gd.LossType.MSE,
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
rng = torch.Generator().manual_seed(0)
for batch, cond in [(torch.randn(2, 1, 8, 8, generator=rng), torch.tensor([i, 2])) for i in range(2)]:
    batch = batch.to(device)
    cond = cond.to(device)
    t = torch.tensor([1, 4], device=device)
    noise = torch.linspace(-1, 1, 128, device=device).view(2, 1, 8, 8)
    losses = diffusion.training_losses(model, batch, t, {"y": cond}, noise=noise)
    loss = losses["loss"].mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.3f}")
start = torch.ones(1, 1, 8, 8, device=device)
sample = diffusion.ddim_sample_loop(
    model, (1, 1, 8, 8), noise=start, model_kwargs={"y": torch.tensor([1], device=device)}, device=device
)
print(f"{sample.abs().mean().item():.3f}")
