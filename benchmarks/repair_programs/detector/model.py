import torch
import torch.nn.functional as F
from torch import nn


class AnchorGrid:
    def __init__(self, sizes=(2.0, 4.0), stride=2):
        self.sizes = sizes
        self.stride = stride
        self._cache = {}

    def __call__(self, height, width):
        key = (height, width)
        if key not in self._cache:
            self._cache[key] = self._make(height, width)
        return self._cache[key]

    def _make(self, height, width):
        ys = torch.arange(height) * self.stride  # planted: cache of tensors
        xs = torch.arange(width) * self.stride
        cy, cx = torch.meshgrid(ys, xs, indexing="ij")
        centres = torch.stack([cx, cy], -1).view(-1, 1, 2).float()
        half = torch.tensor(self.sizes).view(1, -1, 1) / 2
        return torch.cat([centres - half, centres + half], -1).view(-1, 4)


def iou(a, b):
    top = torch.max(a[:, None, :2], b[None, :, :2])
    bottom = torch.min(a[:, None, 2:], b[None, :, 2:])
    inter = (bottom - top).clamp(min=0).prod(-1)
    area = lambda box: (box[:, 2:] - box[:, :2]).prod(-1)
    return inter / (area(a)[:, None] + area(b)[None, :] - inter)


class Detector(nn.Module):
    def __init__(self, classes=3, anchors=2):
        super().__init__()
        self.classes = classes
        self.backbone = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU())
        self.score = nn.Conv2d(8, anchors * (classes + 1), 1)
        self.box = nn.Conv2d(8, anchors * 4, 1)
        self.anchors = AnchorGrid()
        self.box_std = torch.tensor([0.1, 0.1, 0.2, 0.2])  # planted: buffer

    def forward(self, images, targets):
        x = self.backbone(images)
        anchors = self.anchors(*x.shape[-2:])
        scores = self.score(x).permute(0, 2, 3, 1).reshape(len(images), -1, self.classes + 1)
        deltas = self.box(x).permute(0, 2, 3, 1).reshape(len(images), -1, 4) * self.box_std
        losses = {"class": 0.0, "box": 0.0}
        for score, delta, target in zip(scores, deltas, targets):
            best, index = iou(anchors, target["boxes"]).max(1)
            wanted = torch.where(best > 0.2, target["labels"][index] + 1, 0)
            losses["class"] = losses["class"] + F.cross_entropy(score, wanted)
            hit = wanted > 0
            losses["box"] = losses["box"] + F.l1_loss(
                anchors[hit] + delta[hit], target["boxes"][index[hit]], reduction="sum"
            )
        return losses
