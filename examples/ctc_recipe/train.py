"""Recipe: recognise characters in synthetic "speech" with CTC.

To run this recipe: python train.py hyperparams.yaml
"""

import argparse
import pathlib
from types import SimpleNamespace

import torch
from torch.utils.data import DataLoader, Dataset

from loading import load_hyperpyyaml


class Brain:
    """Moves what stands under `modules:` and runs the training loop."""

    def __init__(self, modules, opt_class, hparams, run_opts):
        self.opt_class = opt_class
        self.hparams = SimpleNamespace(**hparams)
        self.device = run_opts["device"]
        self.modules = torch.nn.ModuleDict(modules).to(self.device)
        self.init_optimizers()

    def init_optimizers(self):
        self.optimizer = self.opt_class(self.modules.parameters())

    def fit(self, epochs, train_set, valid_set):
        for epoch in range(1, epochs + 1):
            self.modules.train()
            losses = []
            for batch in train_set:
                loss = self.compute_objectives(self.compute_forward(batch), batch)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                losses.append(loss.item())
            print(f"epoch {epoch}: train loss {sum(losses) / len(losses):.5f}")
            self.evaluate(valid_set)

    @torch.no_grad()
    def evaluate(self, test_set):
        self.modules.eval()
        right = sum(self.count_correct(self.compute_forward(batch), batch) for batch in test_set)
        print(f"    valid utterances without an error: {right} of {len(test_set.dataset)}")


class ASR(Brain):
    def init_optimizers(self):
        self.optimizer = self.opt_class(self.hparams.asr_model.parameters())

    def compute_forward(self, batch):
        feats = batch[0].to(self.device)
        x = self.modules.enc(feats)
        logits = self.hparams.ctc_lin(x)
        return self.hparams.log_softmax(logits)

    def compute_objectives(self, predictions, batch):
        feats, tokens = batch
        tokens = tokens.to(self.device)
        frames = torch.full((feats.shape[0],), feats.shape[1], dtype=torch.long)
        lengths = torch.full((tokens.shape[0],), tokens.shape[1], dtype=torch.long)
        return self.hparams.ctc_cost(predictions.transpose(0, 1), tokens, frames, lengths)

    def count_correct(self, predictions, batch):
        right = 0
        for path, tokens in zip(predictions.argmax(dim=-1).tolist(), batch[1].tolist()):
            merged = [token for i, token in enumerate(path) if i == 0 or token != path[i - 1]]
            right += [token for token in merged if token != self.hparams.blank_index] == tokens
        return right


class SyntheticSpeech(Dataset):
    """Four characters per utterance, four frames per character, each character with its own spectrum."""

    def __init__(self, size, spectra, noise=0.5):
        self.tokens = torch.randint(1, len(spectra), (size, 4))
        clean = spectra[self.tokens].repeat_interleave(4, dim=1)
        self.feats = clean + noise * torch.randn_like(clean)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return self.feats[index], self.tokens[index]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument("hparams_file", nargs="?", default=here / "hyperparams.yaml")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    torch.manual_seed(1986)
    hparams = load_hyperpyyaml(args.hparams_file)

    spectra = torch.randn(hparams["output_neurons"], hparams["n_mels"])
    train_set = DataLoader(SyntheticSpeech(320, spectra), batch_size=hparams["batch_size"], shuffle=True)
    valid_set = DataLoader(SyntheticSpeech(64, spectra), batch_size=hparams["batch_size"])

    asr_brain = ASR(
        modules=hparams["modules"],
        opt_class=hparams["opt_class"],
        hparams=hparams,
        run_opts={"device": args.device},
    )
    asr_brain.fit(hparams["number_of_epochs"], train_set, valid_set)


if __name__ == "__main__":
    main()
