# from lucidrains/vit-pytorch: vit_pytorch/max_vit.py
# devfix repair -- python main.py
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from vit_pytorch.max_vit import MaxViT

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
images, labels = torch.rand(12, 3, 32, 32), torch.arange(12) % 4
loader = DataLoader(TensorDataset(images, labels), batch_size=4)
model = MaxViT(
    num_classes=4,
    dim=8,
    dim_conv_stem=8,
    dim_head=8,
    depth=(1, 1),
    window_size=4,
    mbconv_expansion_rate=2,
    mbconv_shrinkage_rate=0.25,
).to(device)
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 1.0, 0.5], device=device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
confusion = torch.zeros(4, 4, device=device)
for image, label in loader:
    image = image.to(device)
    label = label.to(device)
    out = model(image)
    loss = criterion(out, label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    confusion += torch.eye(4, device=device)[label].T @ torch.eye(4, device=device)[label]
    print(f"{loss.item():.4f}")
print(confusion.diagonal().tolist())
