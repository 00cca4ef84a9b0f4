"""Fine-tuning with TRL, detection, interatomic potentials, and loops of one's own."""

import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import DEVICE, randint, randn, report, train


def words(folder):
    """A tokenizer of a few words, made here."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["<pad>", "<eos>", "<unk>", *"abcdefgh"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(
        LlamaConfig(vocab_size=16, pad_token_id=0, eos_token_id=1, bos_token_id=1, **sizes)
    )


def tuned(kind, rows, **settings):
    def program():
        import trl
        from datasets import Dataset

        with tempfile.TemporaryDirectory() as folder:
            config = getattr(trl, f"{kind}Config")(
                output_dir=folder,
                max_steps=2,
                per_device_train_batch_size=2,
                report_to=[],
                disable_tqdm=True,
                bf16=False,
                save_strategy="no",
                **settings,
            )
            more = {"ref_model": llama()} if kind == "DPO" else {}
            data, tokenizer = Dataset.from_list(rows), words(folder)
            trainer = getattr(trl, f"{kind}Trainer")(
                model=llama(), args=config, train_dataset=data, processing_class=tokenizer, **more
            )
            loss = trainer.train().training_loss
            assert trainer.model.device.type == DEVICE.type
            return loss

    return program


def detection():
    from transformers import YolosConfig, YolosForObjectDetection

    config = YolosConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        image_size=[32, 48],
        patch_size=16,
        num_detection_tokens=6,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=3,
    )
    images = randn(2, 3, 32, 48)
    labels = [
        {"class_labels": randint(3, 2), "boxes": torch.rand(2, 4).mul(0.4).add(0.1).to(DEVICE)}
        for _ in range(2)
    ]
    return train(YolosForObjectDetection(config), lambda model: model(images, labels=labels).loss)


def anchors():
    """A detector by hand: boxes of a grid, matched by overlap, and suppressed afterwards."""
    grid = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij"), -1).reshape(-1, 2)
    boxes = torch.cat([grid, grid + 2], 1).float().to(DEVICE)
    truth = torch.tensor([[0.5, 0.5, 2.5, 2.5], [2.0, 1.0, 4.0, 3.0]]).to(DEVICE)

    def overlap(a, b):
        low, high = torch.max(a[:, None, :2], b[:, :2]), torch.min(a[:, None, 2:], b[:, 2:])
        inner = (high - low).clamp(min=0).prod(2)
        area = lambda one: (one[:, 2:] - one[:, :2]).prod(1)  # noqa: E731
        return inner / (area(a)[:, None] + area(b) - inner)

    features = randn(16, 8)
    best, which = overlap(boxes, truth).max(1)
    positive = best > 0.3

    def step(model):
        scores, offsets = model(features).split([1, 4], 1)
        loss = F.binary_cross_entropy_with_logits(scores[:, 0], positive.float())
        return loss + F.smooth_l1_loss((boxes + offsets)[positive], truth[which[positive]])

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))
    loss = train(model, step, lr=1e-2)
    scores = model(features)[:, 0]
    left, kept = scores.argsort(descending=True), []
    while left.numel():
        kept.append(left[0].item())
        left = left[1:][overlap(boxes[left[:1]], boxes[left[1:]])[0] < 0.4]
    return loss + len(kept)


def potential():
    from nequip.data import AtomicDataDict
    from nequip.data.transforms import ChemicalSpeciesToAtomTypeMapper, NeighborListTransform
    from nequip.model import NequIPGNNModel
    from nequip.utils.global_state import set_global_state

    set_global_state()
    model = NequIPGNNModel(
        seed=1,
        model_dtype="float32",
        r_max=3.0,
        type_names=["H", "O"],
        num_layers=2,
        l_max=1,
        parity=False,
        num_features=4,
        radial_mlp_depth=1,
        radial_mlp_width=8,
        avg_num_neighbors=2.0,
    )
    atoms = {
        "pos": torch.tensor([[0.0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]]),
        "atomic_numbers": torch.tensor([8, 1, 1]),
        "cell": torch.eye(3) * 10,
        "pbc": torch.tensor([False, False, False]),
    }
    from nequip.data import from_dict

    for change in (ChemicalSpeciesToAtomTypeMapper(["H", "O"]), NeighborListTransform(r_max=3.0)):
        atoms = change(from_dict(atoms) if "batch" not in atoms else atoms)
    atoms = AtomicDataDict.to_(atoms, DEVICE)

    def step(module):
        made = module(dict(atoms))
        return made["total_energy"].square().mean() + made["forces"].square().mean()

    return train(model, step)


def adversarial():
    """Two networks with an optimizer each, spectral norm, and a penalty on gradients of gradients."""
    made = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)).to(DEVICE)
    judge = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(2, 16)), nn.Tanh(), nn.Linear(16, 1)
    )
    judge.to(DEVICE)
    one, other = (torch.optim.RMSprop(part.parameters(), 1e-3) for part in (made, judge))
    for _ in range(3):
        real, fake = randn(8, 2), made(randn(8, 4))
        between = (real + fake.detach()).div(2).requires_grad_()
        (slope,) = torch.autograd.grad(judge(between).sum(), between, create_graph=True)
        loss = judge(fake.detach()).mean() - judge(real).mean() + (slope.norm(dim=1) - 1).square().mean()
        other.zero_grad()
        loss.backward()
        other.step()
        one.zero_grad()
        (-judge(made(randn(8, 4))).mean()).backward()
        one.step()
    return loss.item()


def compiled():
    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
    backend = "inductor" if DEVICE.type == "cuda" else "aot_eager"
    x = randn(2, 5, 16)
    run = torch.compile(layer, backend=backend, fullgraph=True)
    return train(layer, lambda model: run(x).square().mean())


def resumed():
    """Training that is saved, loaded elsewhere, and goes on: optimizer, schedule, average and random numbers."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.0), nn.Linear(8, 1)).to(DEVICE)
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    x = randn(6, 4)

    def steps():
        for _ in range(2):
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            average.update_parameters(model)
        return loss.item()

    steps()
    with tempfile.NamedTemporaryFile() as file:
        parts = {"model": model, "average": average, "optimizer": optimizer, "schedule": schedule}
        torch.save({name: part.state_dict() for name, part in parts.items()}, file.name)
        steps()
        states = torch.load(file.name, map_location="cpu")
        for name, part in parts.items():
            part.load_state_dict(states[name])
    return steps() + average(x).mean().item()


def policy():
    """REINFORCE with a baseline, on a toy world in numpy."""
    import numpy

    random = numpy.random.default_rng(0)
    net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3)).to(DEVICE)
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(3):
        states = torch.as_tensor(random.normal(size=(8, 3)), dtype=torch.float32, device=DEVICE)
        out = net(states)
        actions = torch.distributions.Categorical(logits=out[:, :2])
        taken = torch.as_tensor(random.integers(0, 2, 8)).to(DEVICE)
        rewards = torch.from_numpy((taken.cpu().numpy() == 1).astype("float32")).to(DEVICE)
        advantage = rewards - out[:, 2]
        loss = -(actions.log_prob(taken) * advantage.detach()).mean() + advantage.square().mean()
        loss = loss - 0.01 * actions.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


TEXTS = [{"text": "a b c d e"}, {"text": "b c d"}, {"text": "e f g h"}, {"text": "h g f"}]
PAIRS = [
    {"prompt": "a b", "chosen": "c d", "rejected": "h g"},
    {"prompt": "b", "chosen": "c", "rejected": "f"},
] * 2

PROGRAMS = {
    "TRL SFT": tuned("SFT", TEXTS, max_length=8),
    "TRL DPO": tuned("DPO", PAIRS),
    "transformers yolos": detection,
    "anchors by hand": anchors,
    "gradient penalty": adversarial,
    "torch.compile": compiled,
    "saved and resumed": resumed,
    "policy gradient": policy,
    "nequip": potential,  # the last one: it changes torch's default data type
}

if __name__ == "__main__":
    for name, program in PROGRAMS.items():
        report(name, program)
