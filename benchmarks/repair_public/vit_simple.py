# from lucidrains/vit-pytorch: vit_pytorch/simple_vit.py
# devfix repair -- python main.py
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from vit_pytorch.simple_vit import SimpleViT

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
images, labels = torch.rand(12, 3, 32, 32), torch.arange(12) % 4
loader = DataLoader(TensorDataset(images, labels), batch_size=4)
model = SimpleViT(image_size=32, patch_size=8, num_classes=4, dim=24, depth=2, heads=2, mlp_dim=32).to(device)
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
