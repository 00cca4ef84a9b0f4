# from dragen1860/MAML-Pytorch: meta.py learner.py
# devfix repair -- python main.py
from types import SimpleNamespace

import torch
from meta import Meta

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
settings = SimpleNamespace(
    update_lr=0.1,
    meta_lr=1e-3,
    n_way=3,
    k_spt=1,
    k_qry=2,
    task_num=2,
    update_step=2,
    update_step_test=2,
    imgc=1,
    imgsz=8,
)
config = [("flatten", []), ("linear", [16, 8]), ("relu", [True]), ("bn", [16]), ("linear", [3, 16])]
maml = Meta(settings, config).to(device)
rng = torch.Generator().manual_seed(0)
tasks = [
    (torch.randn(2, 3, 1, 2, 4, generator=rng), torch.arange(3).repeat(2, 1),
     torch.randn(2, 6, 1, 2, 4, generator=rng), torch.arange(6).repeat(2, 1) % 3)
    for _ in range(3)
]  # fmt: skip
total = torch.zeros(3, device=device)
for x_spt, y_spt, x_qry, y_qry in tasks:
    x_spt, y_spt = x_spt.to(device), y_spt.to(device)
    x_qry, y_qry = x_qry.to(device), y_qry.to(device)
    accs = maml(x_spt, y_spt, x_qry, y_qry)
    total += torch.tensor(accs, dtype=torch.float, device=device)
    print([round(float(a), 3) for a in accs])
print(f"{total.mean().item():.3f} {sum(p.abs().sum() for p in maml.parameters()).item():.3f}")
