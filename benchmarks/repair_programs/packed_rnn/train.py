# devfix repair -- python train.py
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class Tagger(nn.Module):
    def __init__(self, words=40, tags=5, size=12):
        super().__init__()
        self.size = size
        self.embedding = nn.Embedding(words, size, padding_idx=0)
        self.rnn = nn.GRU(size, size, batch_first=True)
        self.tag = nn.Linear(size, tags)

    def init_hidden(self, batch_size):
        return torch.zeros(1, batch_size, self.size)  # planted: factory in a helper

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(
            self.embedding(ids),
            lengths,
            batch_first=True,
            enforce_sorted=False,  # planted: lengths
        )
        out, _ = self.rnn(packed, self.init_hidden(len(ids)))
        out, _ = pad_packed_sequence(out, batch_first=True)
        return self.tag(out)


def sentences(seed):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 9, (6,), generator=generator).tolist()
    return [torch.randint(1, 40, (n,), generator=generator) for n in lengths]


def accuracy(scores, tags, mask):
    return ((scores.argmax(-1) == tags) & mask).sum() / mask.sum()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = Tagger().to(device)
    criterion = nn.CrossEntropyLoss(ignore_index=-1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(3):
        words = sentences(epoch)
        ids = pad_sequence(words, batch_first=True).to(device)
        tags = pad_sequence([w % 5 for w in words], batch_first=True, padding_value=-1)  # planted: targets
        lengths = (ids != 0).sum(1)
        scores = model(ids, lengths)
        loss = criterion(scores.flatten(0, 1), tags.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mask = torch.arange(ids.shape[1])[None] < lengths[:, None]  # planted: factory
        print(f"{epoch} {loss.item():.4f} {accuracy(scores, tags, mask).item():.3f}")


if __name__ == "__main__":
    main()
