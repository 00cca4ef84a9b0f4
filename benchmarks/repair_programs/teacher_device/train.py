# devfix repair --devices 2 -- python train.py
import torch
import torch.nn.functional as F
from torch import nn


def mlp(width):
    return nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, 5))


class Distiller:
    def __init__(self, teacher, student, student_device, teacher_device, temperature=2.0):
        self.teacher = teacher.to(teacher_device).eval()
        self.student = student.to(student_device)
        self.student_device = student_device
        self.teacher_device = teacher_device
        self.temperature = temperature
        self.optimizer = torch.optim.Adam(self.student.parameters(), lr=0.01)

    def loss(self, x, y):
        with torch.no_grad():
            soft = self.teacher(x)  # planted: between devices
        out = self.student(x)
        kl = F.kl_div(
            F.log_softmax(out / self.temperature, dim=1),
            F.softmax(soft / self.temperature, dim=1),  # planted: between devices
            reduction="batchmean",
        )
        return kl * self.temperature**2 + F.cross_entropy(out, y)

    def fit(self, batches):
        history = []
        for x, y in batches:
            loss = self.loss(x.to(self.student_device), y.to(self.student_device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            history.append(loss.detach())
        return history


def main():
    torch.manual_seed(0)
    count = torch.cuda.device_count()
    student_device = "cuda:0" if count else "cpu"
    teacher_device = "cuda:1" if count > 1 else student_device
    distiller = Distiller(mlp(64), mlp(8), student_device, teacher_device)
    batches = [(torch.randn(16, 10), torch.randint(0, 5, (16,))) for _ in range(4)]
    for loss in distiller.fit(batches):
        print(f"{loss.numpy():.4f}")  # planted: numpy


if __name__ == "__main__":
    main()
