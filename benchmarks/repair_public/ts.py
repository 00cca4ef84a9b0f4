# each of: Crossformer ETSformer FiLM iTransformer Nonstationary_Transformer PatchTST SegRNN TimeMixer TimesNet Transformer
# from thuml/Time-Series-Library: models/EACH.py models/PatchTST.py layers utils
# devfix repair -- python main.py
from types import SimpleNamespace

import torch
from models.EACH import Model
from torch import nn

config = SimpleNamespace(
    task_name="long_term_forecast", seq_len=24, label_len=12, pred_len=12, enc_in=3, dec_in=3, c_out=3, d_model=16,
    n_heads=2, e_layers=2, d_layers=2, d_ff=16, factor=1, dropout=0.0, embed="fixed", freq="h", activation="gelu",
    moving_avg=5, top_k=2, num_kernels=2, output_attention=False, distil=True, num_class=2, p_hidden_dims=[8, 8],
    p_hidden_layers=2, patch_len=8, seg_len=6, channel_independence=1, decomp_method="moving_avg", use_norm=1,
    down_sampling_layers=1, down_sampling_window=2, down_sampling_method="avg", individual=False, expand=2, d_conv=4,
    features="M",
)  # fmt: skip


def windows(count):
    series = torch.sin(torch.arange(200.0)[:, None] / torch.tensor([3.0, 5.0, 9.0]))
    marks = torch.stack(
        [torch.arange(200) % 12, torch.arange(200) % 28, torch.arange(200) % 7, torch.arange(200) % 24], 1
    )
    for start in range(0, 30 * count, 30):
        middle, end = start + config.seq_len, start + config.seq_len + config.pred_len
        past = middle - config.label_len
        yield series[start:middle], marks[start:middle], series[past:end], marks[past:end]


torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
model = Model(config).float().to(device)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch_x, batch_x_mark, batch_y, batch_y_mark in windows(4):
    batch_x = batch_x[None].float().to(device)
    batch_y = batch_y[None].float().to(device)
    batch_x_mark = batch_x_mark[None].float().to(device)
    batch_y_mark = batch_y_mark[None].float().to(device)
    zeros = torch.zeros_like(batch_y[:, -config.pred_len :, :]).float()
    decoder = torch.cat([batch_y[:, : config.label_len, :], zeros], dim=1).float().to(device)
    outputs = model(batch_x, batch_x_mark, decoder, batch_y_mark)[:, -config.pred_len :, :]
    loss = criterion(outputs, batch_y[:, -config.pred_len :, :].to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f} {(outputs.detach().cpu().numpy() ** 2).mean():.4f}")
