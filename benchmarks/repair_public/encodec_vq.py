# from facebookresearch/encodec: encodec/quantization/core_vq.py encodec/distrib.py
# devfix repair -- python main.py
import sys
import types

import torch
from torch import nn

package = types.ModuleType("encodec")
package.__path__ = ["encodec"]
sys.modules["encodec"] = package
quantization = types.ModuleType("encodec.quantization")
quantization.__path__ = ["encodec/quantization"]
sys.modules["encodec.quantization"] = quantization
from encodec.quantization.core_vq import ResidualVectorQuantization

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
encoder = nn.Conv1d(1, 8, 4, stride=4).to(device)
decoder = nn.ConvTranspose1d(8, 1, 4, stride=4).to(device)
quantizer = ResidualVectorQuantization(
    num_quantizers=2, dim=8, codebook_size=16, kmeans_init=False, threshold_ema_dead_code=0
)
quantizer.to(device)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.05)
weight = torch.linspace(1, 2, 64, device=device)
rng = torch.Generator().manual_seed(0)
for audio in torch.randn(3, 4, 1, 64, generator=rng):
    audio = audio.to(device)
    quantized, codes, commitment = quantizer(encoder(audio))
    loss = (weight * (decoder(quantized) - audio) ** 2).mean() + commitment.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f} {codes.float().mean().item():.2f}")
