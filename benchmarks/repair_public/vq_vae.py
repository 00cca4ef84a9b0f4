# from AntixK/PyTorch-VAE: models/vq_vae.py models/base.py models/types_.py
# devfix repair -- python main.py
import sys
import types

import torch

package = types.ModuleType("models")
package.__path__ = ["models"]
sys.modules["models"] = package
from models.base import BaseVAE

package.BaseVAE = BaseVAE
from models.vq_vae import VQVAE

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = VQVAE(in_channels=3, embedding_dim=8, num_embeddings=16, hidden_dims=[8, 16], img_size=16).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
mean = torch.tensor([0.5, 0.4, 0.3], device=device).view(-1, 1, 1)
for images in torch.rand(3, 4, 3, 16, 16):
    images = images.to(device)
    losses = model.loss_function(*model(images - mean))
    optimizer.zero_grad()
    losses["loss"].backward()
    optimizer.step()
    print(f"{losses['loss'].item():.4f}")
