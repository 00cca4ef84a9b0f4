# devfix repair -- python train.py
import torch
from masks import causal, padding
from torch import nn


class Decoder(nn.Module):
    def __init__(self, words=20, width=16):
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.out = nn.Linear(width, words)

    def forward(self, ids):
        x = self.embed(ids)
        mixed, _ = self.attention(x, x, x, attn_mask=causal(ids.shape[1]), need_weights=False)
        return self.out(x + mixed)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Decoder().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    ids = torch.randint(1, 20, (6, 9)).to(device)
    for step in range(4):
        scores = model(ids[:, :-1])
        losses = nn.functional.cross_entropy(scores.transpose(1, 2), ids[:, 1:], reduction="none")
        loss = losses.masked_fill(padding(ids[:, 1:]), 0.0).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
