# devfix repair -- python train.py
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal


class ActorCritic(nn.Module):
    def __init__(self, observations=4, actions=2):
        super().__init__()
        self.actor = nn.Linear(observations, actions)
        self.critic = nn.Linear(observations, 1)
        self.log_std = torch.full((actions,), -0.5)  # planted: buffer

    def forward(self, obs):
        return Normal(self.actor(obs), self.log_std.exp()), self.critic(obs).squeeze(-1)


class Rollout:
    def __init__(self):
        self.obs, self.actions, self.rewards, self.values = [], [], [], []

    def add(self, obs, action, reward, value):
        self.obs.append(obs)
        self.actions.append(action)
        self.rewards.append(reward)
        self.values.append(value)

    def returns(self, gamma=0.95):
        out, running = [], 0.0
        for reward in reversed(self.rewards):
            running = reward + gamma * running
            out.append(running)
        return torch.tensor(out[::-1], dtype=torch.float32)  # planted: factory


class RunningMeanStd:
    def __init__(self, shape):
        self.mean = torch.zeros(shape)  # planted: attribute of a plain class
        self.var = torch.ones(shape)
        self.count = 1e-4

    def __call__(self, x):
        delta = x - self.mean
        self.count += 1
        self.mean = self.mean + delta / self.count
        self.var = self.var + delta * (x - self.mean)
        return (x - self.mean) / (self.var / self.count + 1e-8).sqrt()


def environment(rng, action):
    return rng.normal(size=4).astype(np.float32), float(-np.square(action).sum())


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    policy = ActorCritic().to(device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
    normalize = RunningMeanStd(4)
    for update in range(3):
        rollout = Rollout()
        obs = rng.normal(size=4).astype(np.float32)
        for _ in range(8):
            seen = normalize(torch.from_numpy(obs).to(device))
            with torch.no_grad():
                distribution, value = policy(seen)
            action = distribution.mean
            obs, reward = environment(rng, action.numpy())  # planted: numpy
            rollout.add(seen.cpu(), action.cpu(), reward, value)
        returns = rollout.returns()
        advantage = returns - torch.stack(rollout.values)
        distribution, value = policy(torch.stack(rollout.obs))  # planted: inputs
        log_prob = distribution.log_prob(torch.stack(rollout.actions)).sum(-1)  # planted: inputs
        loss = -(log_prob * advantage).mean() + 0.5 * (returns - value).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"update {update} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
