import torch
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY = 60


def loaders(batch_size=16):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, VOCABULARY, (64, 12), generator=generator)
    labels = (ids.sum(1) % 3).long()
    train = TensorDataset(ids[:48], labels[:48])
    test = TensorDataset(ids[48:], labels[48:])
    return DataLoader(train, batch_size=batch_size), DataLoader(test, batch_size=batch_size)
