# from locuslab/TCN: TCN/tcn.py TCN/adding_problem/model.py TCN/adding_problem/utils.py
# devfix repair -- python main.py
import numpy as np
import torch
import torch.nn.functional as F
from TCN.adding_problem.model import TCN
from TCN.adding_problem.utils import data_generator

torch.manual_seed(1111)
np.random.seed(1111)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
X_train, Y_train = data_generator(24, 20)
model = TCN(2, 1, [8] * 3, kernel_size=3, dropout=0.0)
model = model.to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
scale = torch.ones(8, 1, device=device) * 2
for x, y in zip(X_train.split(8), Y_train.split(8)):
    x = x.to(device)
    y = y.to(device)
    optimizer.zero_grad()
    loss = F.mse_loss(model(x) * scale, y * scale)
    loss.backward()
    optimizer.step()
    print(f"Loss: {loss.item():.6f}")
