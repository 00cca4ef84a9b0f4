"""Fine-tuning: a new head, then the move; batches as dicts; mixed precision by the device's type."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Texts(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        tokens = (torch.arange(6) * (index + 1)) % 11
        return {"tokens": tokens, "lengths": 3 + index % 3, "label": index % 2}


class Encoder(nn.Module):
    def __init__(self, words=11, width=8, classes=11):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.body = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens, lengths):
        out, _ = self.body(self.embed(tokens))
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        mask = steps[None, :] < lengths[:, None]
        return self.head((out * mask.unsqueeze(-1)).sum(dim=1))


def accuracy(model, loader, device):
    model.eval()
    right = torch.zeros(1, device=device)
    with torch.no_grad():
        for batch in loader:
            tokens, lengths = batch["tokens"].to(device), batch["lengths"].to(device)
            labels = batch["label"].to(device)
            right += (model(tokens, lengths).argmax(dim=1) == labels).sum()
    model.train()
    return right.item()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Texts(), batch_size=4)
    model = Encoder()
    for parameter in model.parameters():
        parameter.requires_grad = False
    model.head = nn.Linear(8, 2)
    model.to(device)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0], device=device))
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
    for _ in range(2):
        for batch in loader:
            tokens = batch["tokens"].to(device)
            lengths = batch["lengths"].to(device)
            labels = batch["label"].to(device)
            with torch.autocast(device_type=device.type, enabled=False):
                loss = criterion(model(tokens, lengths), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(round(loss.item(), 3), accuracy(model, loader, device))


if __name__ == "__main__":
    main()
