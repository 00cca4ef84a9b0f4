# from yenchenlin/nerf-pytorch: run_nerf_helpers.py
# devfix repair -- python main.py
import torch
from run_nerf_helpers import NeRF, get_embedder, get_rays, img2mse, mse2psnr

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
embed, width = get_embedder(4, 0)
model = NeRF(D=3, W=32, input_ch=width, input_ch_views=3, skips=[1], output_ch=4).to(device)
optimizer = torch.optim.Adam(params=list(model.parameters()), lr=5e-3)
depths = torch.linspace(2.0, 6.0, 8, device=device)
images = [(torch.eye(4)[:3], torch.rand(6, 6, 3)) for _ in range(3)]
for pose, target in images:
    target = target.to(device)
    rays_o, rays_d = get_rays(6, 6, torch.tensor([[5.0, 0, 3], [0, 5.0, 3], [0, 0, 1]]), pose)
    rays_o, rays_d = rays_o.to(device).reshape(-1, 3), rays_d.to(device).reshape(-1, 3)
    points = rays_o[:, None] + rays_d[:, None] * depths[None, :, None]
    raw = model(torch.cat([embed(points), torch.ones(*points.shape, device=device)], -1))
    alpha = 1 - torch.exp(-torch.relu(raw[..., 3]) * 0.5)
    past = torch.cumprod(torch.cat([torch.ones(len(alpha), 1, device=device), 1 - alpha], 1), 1)[:, :-1]
    rgb = ((alpha * past)[..., None] * torch.sigmoid(raw[..., :3])).sum(1)
    loss = img2mse(rgb, target.reshape(-1, 3))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f} {mse2psnr(loss.detach().cpu()).item():.3f}")
