import numpy as np
import torch


class Confusion:
    def __init__(self, classes):
        self.classes = classes
        self.counts = torch.zeros(classes, classes, dtype=torch.long)

    def update(self, predicted, wanted):
        index = wanted * self.classes + predicted  # wanted comes from the loader
        self.counts += torch.bincount(index, minlength=self.classes**2).view_as(
            self.counts
        )  # planted: accumulator

    def iou(self):
        hits = self.counts.diagonal()
        return hits / (self.counts.sum(0) + self.counts.sum(1) - hits).clamp(min=1)


def mean_ap(scores, wanted):
    order = np.argsort(-np.asarray(scores.max(1).values))  # planted: numpy
    hits = (scores.argmax(1) == wanted)[torch.from_numpy(order)]
    precision = hits.cumsum(0) / torch.arange(1, len(hits) + 1)  # planted: factory
    return precision[hits].mean() if hits.any() else torch.tensor(0.0)
