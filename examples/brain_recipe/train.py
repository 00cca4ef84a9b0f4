"""Speaker identification with a Brain class and automatic mixed precision."""

import argparse
from contextlib import nullcontext

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class TorchAutocast:
    """Forwards to `torch.autocast`, and does nothing where the dtype is float32 anyway."""

    def __init__(self, *args, **kwargs):
        enabled = kwargs.get("dtype", torch.float32) != torch.float32
        self.context = torch.autocast(*args, **kwargs) if enabled else nullcontext()

    def __enter__(self):
        return self.context.__enter__()

    def __exit__(self, exc_type, exc_value, traceback):
        return self.context.__exit__(exc_type, exc_value, traceback)


class Brain:
    """Runs the loops; a recipe says what to compute."""

    def __init__(self, modules, opt_class, run_opts):
        self.device = run_opts["device"]  # a string: "cpu", "cuda:0", ...
        self.modules = nn.ModuleDict(modules).to(self.device)
        self.optimizer = opt_class(self.modules.parameters())
        self.eval_dtype = DTYPES[run_opts["eval_precision"]]
        train_dtype = DTYPES[run_opts["precision"]]
        self.training_ctx = TorchAutocast(device_type=self.device, dtype=train_dtype)
        self.evaluation_ctx = TorchAutocast(device_type=self.device, dtype=self.eval_dtype)

    def compute_forward(self, batch):
        raise NotImplementedError

    def compute_objectives(self, predictions, batch):
        raise NotImplementedError

    def fit_batch(self, batch):
        with self.training_ctx:
            predictions = self.compute_forward(batch)
            loss = self.compute_objectives(predictions, batch)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    @torch.no_grad()
    def evaluate_batch(self, batch):
        with self.evaluation_ctx:
            predictions = self.compute_forward(batch)
        return self.count_errors(predictions, batch)

    def fit(self, epochs, train_set, valid_set):
        for epoch in range(1, epochs + 1):
            self.modules.train()
            losses = [self.fit_batch(batch).item() for batch in train_set]
            self.modules.eval()
            errors = sum(self.evaluate_batch(batch) for batch in valid_set)
            print(f"epoch {epoch}: train loss {sum(losses) / len(losses):.5f}, valid errors {errors}")


class SpeakerBrain(Brain):
    def compute_forward(self, batch):
        feats = batch[0].to(self.device)
        embeddings = self.modules.embedding_model(feats).mean(dim=1)
        return self.modules.classifier(embeddings)

    def compute_objectives(self, predictions, batch):
        speakers = batch[1].to(self.device)
        return F.cross_entropy(predictions.float(), speakers)

    def count_errors(self, predictions, batch):
        speakers = batch[1].to(self.device)
        return (predictions.argmax(dim=-1) != speakers).sum().item()

    @torch.no_grad()
    def identify(self, feats):
        """The speaker of each utterance, from the average of its two halves."""
        device = next(self.modules.parameters()).device
        halves = torch.cat(feats.to(device).chunk(2, dim=1))
        if self.eval_dtype == torch.float32:
            scores = self.compute_forward((halves,))
        else:
            with torch.autocast(device_type=device, dtype=self.eval_dtype):
                scores = self.compute_forward((halves,))
        return torch.stack(scores.chunk(2)).float().mean(dim=0).argmax(dim=-1)


def prepare_data(n_utterances, n_speakers=4, n_frames=20, n_mels=16):
    """Synthetic filterbanks: every speaker has a spectrum, every utterance its noise."""
    spectra = torch.randn(n_speakers, 1, n_mels)
    speakers = torch.arange(n_utterances) % n_speakers
    feats = spectra[speakers] + 0.5 * torch.randn(n_utterances, n_frames, n_mels)
    return feats, speakers


def parse_run_opts():
    parser = argparse.ArgumentParser(description=__doc__)
    on_gpu = torch.cuda.is_available()
    parser.add_argument("--device", default="cuda:0" if on_gpu else "cpu")
    parser.add_argument("--precision", choices=DTYPES, default="bf16")
    # Half precision pays off in evaluation on a GPU only.
    parser.add_argument("--eval_precision", choices=DTYPES, default="bf16" if on_gpu else "fp32")
    parser.add_argument("--epochs", type=int, default=5)
    return vars(parser.parse_args())


def main():
    torch.manual_seed(1986)
    run_opts = parse_run_opts()

    feats, speakers = prepare_data(320)
    train_set = DataLoader(TensorDataset(feats[:192], speakers[:192]), batch_size=16, shuffle=True)
    valid_set = DataLoader(TensorDataset(feats[192:256], speakers[192:256]), batch_size=16)

    modules = {
        "embedding_model": nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 24)),
        "classifier": nn.Linear(24, 4),
    }
    brain = SpeakerBrain(modules, lambda params: torch.optim.SGD(params, lr=0.1), run_opts)
    if run_opts["precision"] != "fp32":
        print("autocast runs for device type:", brain.training_ctx.context.device)
    brain.fit(run_opts["epochs"], train_set, valid_set)

    identified = brain.identify(feats[256:]).cpu()
    print(f"test accuracy {(identified == speakers[256:]).float().mean().item():.4f}")


if __name__ == "__main__":
    main()
