"""Frameworks that own the training loop or the placement, and libraries beside it."""

import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import DEVICE, randint, randn, report, train
from torch.utils.data import DataLoader, TensorDataset


def net():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def data():
    return TensorDataset(torch.randn(24, 8), torch.randint(0, 3, (24,)))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=99, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
        )
    )


def hf_trainer():
    from transformers import Trainer, TrainingArguments

    rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 99, (16, 8))]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=2,
            per_device_train_batch_size=4,
            report_to=[],
            disable_tqdm=True,
            logging_steps=1,
            dataloader_num_workers=2,
        )
        trainer = Trainer(gpt2(), arguments, train_dataset=rows)
        value = trainer.train().training_loss
        assert trainer.model.device.type == DEVICE.type
        return value


def accelerate():
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data(), batch_size=8))
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    assert accelerator.device.type == DEVICE.type
    return accelerator.gather(loss.detach()).mean().item()


def lightning():
    import lightning as L

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def training_step(self, batch, index):
            x, y = batch
            return F.cross_entropy(self.net(x), y)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    module, loader = Module(), DataLoader(data(), batch_size=8, num_workers=2)
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            max_epochs=2,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            default_root_dir=folder,
            enable_model_summary=False,
        )
        trainer.fit(module, loader)
    assert trainer.strategy.root_device.type == DEVICE.type
    return sum(p.abs().sum().item() for p in module.parameters())


def speechbrain():
    import speechbrain as sb

    class Brain(sb.Brain):
        def compute_forward(self, batch, stage):
            return self.modules.model(batch[0].to(self.device))

        def compute_objectives(self, predictions, batch, stage):
            self.last = F.cross_entropy(predictions, batch[1].to(self.device))
            return self.last

    brain = Brain(
        {"model": net()},
        lambda p: torch.optim.SGD(p, 0.1),
        run_opts={"device": str(DEVICE), "noprogressbar": True},
    )
    brain.fit(range(2), DataLoader(data(), batch_size=8))
    return brain.last.item()


def speechbrain_features():
    from speechbrain.lobes.features import Fbank

    features = Fbank(n_mels=8).to(DEVICE)
    x = randn(2, 3200).requires_grad_()
    features(x).square().mean().backward()
    return x.grad.abs().sum().item()


def sentence_transformers():
    from sentence_transformers import InputExample, SentenceTransformer, losses
    from sentence_transformers import models as parts
    from transformers import BertConfig, BertModel, BertTokenizerFast

    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "vocab.txt"), "w") as file:
            file.write(
                "\n".join(
                    [
                        "[PAD]",
                        "[UNK]",
                        "[CLS]",
                        "[SEP]",
                        "[MASK]",
                        *"abcdefghij",
                        *(f"##{c}" for c in "abcdefghij"),
                    ]
                )
            )
        BertTokenizerFast(os.path.join(folder, "vocab.txt")).save_pretrained(folder)
        config = BertConfig(
            vocab_size=25,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        BertModel(config).save_pretrained(folder)
        words = parts.Transformer(folder)
        model = SentenceTransformer(modules=[words, parts.Pooling(16)])
    assert model.device.type == DEVICE.type
    examples = [InputExample(texts=["abc", "abd"], label=0.9), InputExample(texts=["fgh", "aij"], label=0.1)]
    loss = losses.CosineSimilarityLoss(model)
    (features, labels) = model.smart_batching_collate(examples)
    features = [{k: v.to(DEVICE) for k, v in f.items() if hasattr(v, "to")} for f in features]
    loss(features, labels.to(DEVICE)).backward()
    return float(model.encode(["abc def", "j"]).sum())


def peft(kind):
    def program():
        import peft as library

        model = library.get_peft_model(gpt2(), kind(library))
        x = randint(99, 2, 9)
        return train(model, lambda m: m(input_ids=x, labels=x).loss, lr=1e-2)

    return program


def torchmetrics():
    import torchmetrics as library

    metrics = library.MetricCollection(
        [
            library.Accuracy("multiclass", num_classes=3),
            library.F1Score("multiclass", num_classes=3, average="macro"),
            library.AUROC("multiclass", num_classes=3),
            library.ConfusionMatrix("multiclass", num_classes=3),
        ]
    ).to(DEVICE)
    for _ in range(2):
        metrics.update(randn(16, 3).softmax(-1), randint(3, 16))
    return sum(value.float().mean().item() for value in metrics.compute().values())


def skorch():
    from skorch import NeuralNetClassifier

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net()

        def forward(self, x):
            return self.net(x).softmax(-1)

    x, y = torch.randn(24, 8).numpy(), torch.randint(0, 3, (24,)).numpy()
    model = NeuralNetClassifier(Net, max_epochs=2, device=DEVICE.type, train_split=None, verbose=0)
    return model.fit(x, y).predict_proba(x)[:, 0].sum()


def graph(layer):
    def program():
        import torch_geometric.nn as pyg

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = getattr(pyg, layer)(8, 16), getattr(pyg, layer)(16, 3)

            def forward(self, x, edges):
                return self.second(self.first(x, edges).relu(), edges)

        x, edges, y = randn(10, 8), randint(10, 2, 30), randint(3, 10)
        return train(Net(), lambda m: F.cross_entropy(m(x, edges), y))

    return program


def graph_loader():
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader as GraphLoader
    from torch_geometric.nn import GINConv, global_mean_pool

    graphs = [
        Data(x=torch.randn(5, 8), edge_index=torch.randint(0, 5, (2, 12)), y=torch.tensor([i % 3]))
        for i in range(6)
    ]
    layer = GINConv(net()).to(DEVICE)
    total = 0.0
    for batch in GraphLoader(graphs, batch_size=3):
        batch = batch.to(DEVICE)
        loss = F.cross_entropy(global_mean_pool(layer(batch.x, batch.edge_index), batch.batch), batch.y)
        loss.backward()
        total += loss.item()
    return total


def stable_baselines():
    from stable_baselines3 import DQN

    model = DQN("MlpPolicy", "CartPole-v1", seed=0, device=DEVICE, learning_starts=20, verbose=0)
    model.learn(60)
    return sum(p.abs().sum().item() for p in model.policy.parameters())


def x_transformers():
    from x_transformers import Decoder, TransformerWrapper
    from x_transformers.autoregressive_wrapper import AutoregressiveWrapper

    model = TransformerWrapper(
        num_tokens=99, max_seq_len=32, attn_layers=Decoder(dim=32, depth=2, heads=2, rotary_pos_emb=True)
    )
    x = randint(99, 2, 17)
    return train(AutoregressiveWrapper(model), lambda m: m(x))


def differential(module):
    def program():
        import torchdiffeq

        class Flow(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))

            def forward(self, time, x):
                return self.net(x)

        x, times = randn(3, 4), torch.linspace(0, 1, 4).to(DEVICE)
        return train(
            Flow(), lambda m: getattr(torchdiffeq, module)(m, x, times, method="dopri5")[-1].square().mean()
        )

    return program


def gaussian_process():
    import gpytorch

    class Model(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    x = torch.linspace(0, 1, 12).to(DEVICE)
    y = torch.sin(6 * x)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(DEVICE)
    model = Model(x, y, likelihood)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    return train(model, lambda m: -objective(m(x), y), lr=0.1)


def pyro():
    import pyro as library
    import pyro.distributions as dist
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoDelta, init_to_mean

    x = randn(20)

    def model(x):
        mean = library.sample("mean", dist.Normal(torch.zeros((), device=DEVICE), 1.0))
        with library.plate("data", len(x)):
            library.sample("x", dist.Normal(mean, 1.0), obs=x)

    library.clear_param_store()
    svi = SVI(
        model, AutoDelta(model, init_loc_fn=init_to_mean), library.optim.Adam({"lr": 0.1}), Trace_ELBO()
    )
    return [svi.step(x) for _ in range(3)][-1]


def equivariant():
    from e3nn import o3

    layer = o3.FullyConnectedTensorProduct("4x0e+2x1o", "1x0e+1x1o", "3x0e+2x1o")
    x, y = randn(5, 10), randn(5, 4)
    return train(layer, lambda m: m(x, y).square().mean())


def plain_loop():
    """A plain loop as people write it: workers, pinned memory, AMP and GradScaler in full precision."""
    model = net().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler(DEVICE.type, enabled=False)
    loader = DataLoader(
        data(), batch_size=8, num_workers=2, pin_memory=DEVICE.type == "cuda", persistent_workers=True
    )
    for _ in range(2):
        for x, y in loader:
            with torch.autocast(DEVICE.type, enabled=False):
                loss = F.cross_entropy(
                    model(x.to(DEVICE, non_blocking=True)), y.to(DEVICE, non_blocking=True)
                )
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return loss.item()


def torch_parts(make, shape):
    def program():
        x = randn(*shape)

        def step(model):
            out = model(x)
            return (out[0] if isinstance(out, tuple) else out).square().mean()

        return train(make(), step)

    return program


PROGRAMS = {
    "transformers Trainer": hf_trainer,
    "accelerate": accelerate,
    "lightning": lightning,
    "speechbrain Brain": speechbrain,
    "speechbrain Fbank": speechbrain_features,
    "sentence-transformers": sentence_transformers,
    "peft LoRA": peft(
        lambda library: library.LoraConfig(
            r=2, lora_dropout=0.0, target_modules=["c_attn"], fan_in_fan_out=True
        )
    ),
    "peft prefix tuning": peft(
        lambda library: library.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    ),
    "torchmetrics": torchmetrics,
    "skorch": skorch,
    "torch_geometric GCN": graph("GCNConv"),
    "torch_geometric GAT": graph("GATConv"),
    "torch_geometric GIN, loader": graph_loader,
    "stable-baselines3 DQN": stable_baselines,
    "x-transformers": x_transformers,
    "torchdiffeq": differential("odeint"),
    "torchdiffeq adjoint": differential("odeint_adjoint"),
    "gpytorch": gaussian_process,
    "pyro": pyro,
    "e3nn": equivariant,
    "plain loop, workers": plain_loop,
    "torch LSTM": torch_parts(lambda: nn.LSTM(8, 16, 2, batch_first=True), (3, 7, 8)),
    "torch GRU": torch_parts(lambda: nn.GRU(8, 16, bidirectional=True), (7, 3, 8)),
    "torch TransformerEncoder": torch_parts(
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), 2),
        (3, 7, 16),
    ),
}

if __name__ == "__main__":
    for name, program in PROGRAMS.items():
        report(name, program)
