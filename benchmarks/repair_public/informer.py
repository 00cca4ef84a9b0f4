# from zhouhaoyi/Informer2020: models utils
# devfix repair -- python main.py
import torch
from models.model import Informer

torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
model = Informer(3, 3, 3, 24, 12, 12, factor=5, d_model=16, n_heads=2, e_layers=2, d_layers=1, d_ff=16, dropout=0.0,
                 attn="full", embed="timeF", freq="h", device=device).to(device)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
criterion = torch.nn.MSELoss()
rng = torch.Generator().manual_seed(0)
batches = [tuple(torch.randn(2, 24, width, generator=rng) for width in (3, 3, 4, 4)) for _ in range(3)]
for batch_x, batch_y, batch_x_mark, batch_y_mark in batches:
    batch_x = batch_x.float().to(device)
    batch_y = batch_y.float()
    batch_x_mark = batch_x_mark.float().to(device)
    batch_y_mark = batch_y_mark.float().to(device)
    dec_inp = torch.zeros([2, 12, 3]).float()
    dec_inp = torch.cat([batch_y[:, :12, :], dec_inp], dim=1).float().to(device)
    outputs = model(batch_x, batch_x_mark, dec_inp, batch_y_mark)
    batch_y = batch_y[:, -12:, :].to(device)
    loss = criterion(outputs, batch_y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")
