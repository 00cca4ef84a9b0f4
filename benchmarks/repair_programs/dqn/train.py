# devfix repair -- python train.py
import random

import numpy as np
import torch
from agent import Agent


class Walk:
    """A corridor: reach its end."""

    def __init__(self, length=6):
        self.length = length

    def reset(self):
        self.at = 0
        return self._seen()

    def step(self, action):
        self.at = max(0, self.at + (1 if action else -1))
        done = self.at == self.length
        return self._seen(), 1.0 if done else -0.1, done

    def _seen(self):
        state = np.zeros(self.length + 1, dtype=np.float32)
        state[self.at] = 1
        return state


def main():
    random.seed(0)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    walk = Walk()
    agent = Agent(walk.length + 1, 2, device)
    losses = []
    for episode in range(4):
        state = walk.reset()
        for _ in range(12):
            action = random.randrange(2) if random.random() < 0.5 else agent.act(state)
            following, reward, done = walk.step(action)
            agent.memory.push(torch.from_numpy(state), action, reward, torch.from_numpy(following), done)
            state = following
            if len(agent.memory.memory) >= 16:
                losses.append(agent.learn().detach())
            if done:
                break
        agent.sync()
    print(len(losses), round(float(np.mean(losses)), 4))  # planted: numpy over a list


if __name__ == "__main__":
    main()
