import numpy as np
import torch


class Ratings:
    def __init__(self, users=15, items=12, count=120):
        rng = np.random.default_rng(0)
        self.users, self.items = users, items
        self.table = np.stack(
            [rng.integers(0, users, count), rng.integers(0, items, count), rng.integers(1, 6, count)], 1
        )

    def batches(self, size):
        for start in range(0, len(self.table), size):
            rows = torch.from_numpy(self.table[start : start + size])
            yield rows[:, 0], rows[:, 1], rows[:, 2].float()

    @property
    def popularity(self):
        return torch.from_numpy(
            np.bincount(self.table[:, 1], minlength=self.items)
        ).float()  # planted: property
