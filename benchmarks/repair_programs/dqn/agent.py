import copy
import random
from collections import deque, namedtuple

import torch
import torch.nn.functional as F
from torch import nn

Transition = namedtuple("Transition", "state action reward following done")


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *values):
        self.memory.append(Transition(*values))

    def sample(self, count):
        return Transition(*zip(*random.sample(self.memory, count)))


class Agent:
    def __init__(self, states, actions, device):
        self.device = device
        self.online = nn.Sequential(nn.Linear(states, 24), nn.ReLU(), nn.Linear(24, actions))
        self.target = copy.deepcopy(self.online)  # planted: module never moved
        self.online.to(device)
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=1e-2)
        self.memory = ReplayMemory(200)

    def act(self, state):
        with torch.no_grad():
            values = self.online(torch.as_tensor(state, dtype=torch.float32, device=self.device))
        return int(values.numpy().argmax())  # planted: numpy

    def learn(self, count=16, gamma=0.9):
        batch = self.memory.sample(count)
        state = torch.stack(batch.state).to(self.device)
        action = torch.tensor(batch.action, device=self.device)
        reward = torch.tensor(batch.reward)  # planted: factory
        following = torch.stack(batch.following).to(self.device)
        done = torch.tensor(batch.done, device=self.device)
        chosen = self.online(state).gather(1, action[:, None]).squeeze(1)
        with torch.no_grad():
            best = self.target(following).max(1).values
        loss = F.smooth_l1_loss(chosen, reward + gamma * best * ~done)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def sync(self):
        self.target.load_state_dict(self.online.state_dict())
