# from ermongroup/ddim: models/diffusion.py models/ema.py functions/losses.py
# devfix repair -- python main.py
from types import SimpleNamespace

import torch
from functions.losses import loss_registry
from models.diffusion import Model
from models.ema import EMAHelper

config = SimpleNamespace(
    model=SimpleNamespace(
        ch=32, out_ch=1, ch_mult=(1, 2), num_res_blocks=1, attn_resolutions=(4,), dropout=0.0, in_channels=1,
        resamp_with_conv=True, type="simple",
    ),
    data=SimpleNamespace(image_size=8),
    diffusion=SimpleNamespace(num_diffusion_timesteps=20),
)  # fmt: skip

torch.manual_seed(0)
device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
betas = torch.linspace(1e-4, 0.02, 20).to(device)
model = Model(config)
model = model.to(device)
ema = EMAHelper(mu=0.9)
ema.register(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
rng = torch.Generator().manual_seed(0)
for x, noise in [torch.randn(2, 2, 1, 8, 8, generator=rng) for _ in range(2)]:
    x = x.to(device)
    e = noise.to(device)
    t = torch.tensor([3, 16], device=device)
    loss = loss_registry["simple"](model, x, t, e, betas)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema.update(model)
    print(f"{loss.item():.3f}")
