import torch
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __init__(self, device, count=24):
        self.device = device
        self.time = torch.arange(count * 5.0).view(count, 5) / 10

    def __len__(self):
        return len(self.time)

    def __getitem__(self, index):
        x = torch.sin(self.time[index]).to(self.device)  # planted: moved in a worker
        return x, x.sum()


def batches(device):
    def collate(items):
        x, y = (torch.stack(parts) for parts in zip(*items))
        return x, y, torch.ones(len(x), device=device)  # planted: made in a worker

    return DataLoader(Waves(device), batch_size=6, num_workers=2, collate_fn=collate)
