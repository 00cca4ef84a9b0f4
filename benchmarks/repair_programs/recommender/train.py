# devfix repair -- python train.py
import numpy as np
import torch
from data import Ratings
from torch import nn


class Factors(nn.Module):
    def __init__(self, users, items, size=6):
        super().__init__()
        self.user = nn.Embedding(users, size)
        self.item = nn.Embedding(items, size)
        self.bias = nn.Parameter(torch.zeros(items))
        self.mean = torch.tensor(3.0).repeat(items)  # planted: buffer

    def forward(self, user, item):
        return (self.user(user) * self.item(item)).sum(1) + self.bias[item] + self.mean[item]

    def recommend(self, user, popularity, k=3):
        scores = self.item.weight @ self.user.weight[user] + self.bias
        scores = scores - 0.01 * popularity
        return scores.topk(k).indices


def train(model, ratings, device, epochs=3):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(epochs):
        errors = []
        for user, item, rating in ratings.batches(40):
            user, item = user.to(device), item.to(device)
            error = (model(user, item) - rating) ** 2  # planted: targets
            optimizer.zero_grad()
            error.mean().backward()
            optimizer.step()
            errors.append(error.detach())
        rmse = np.sqrt(np.mean(torch.cat(errors).numpy()))  # planted: numpy
        print(f"epoch {epoch}: rmse {rmse:.4f}")


def main():
    torch.manual_seed(0)
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    ratings = Ratings()
    model = Factors(ratings.users, ratings.items).to(device)
    train(model, ratings, device)
    popularity = ratings.popularity
    with torch.no_grad():
        for user in range(3):
            best = model.recommend(user, popularity)
            print(user, np.array(best).tolist())  # planted: numpy


if __name__ == "__main__":
    main()
