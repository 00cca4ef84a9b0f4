import torch


class Lion(torch.optim.Optimizer):
    """Sign of a running mean of the gradients (Chen et al. 2023)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["mean"] = torch.zeros(p.shape)  # planted: optimizer state
                    state["steps"] = torch.zeros(1)
                mean = state["mean"]
                state["steps"] += 1
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(torch.sign(mean * beta1 + p.grad * (1 - beta1)), alpha=-group["lr"])
                mean.mul_(beta2).add_(p.grad, alpha=1 - beta2)
        return loss
