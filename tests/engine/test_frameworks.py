"""Frameworks that place models or batches: what they own is left alone, and nothing more.

Each framework has a program that is right as it stands, under every codemod, and one in which
something that the framework was not given is forgotten. The programs are analysed, never run.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from applying import findings
from devfix.codemod import registry

# `assert-device` reports what is right: where a check could be written.
CODEMODS = tuple(kind() for id, kind in registry().items() if id != "assert-device")
HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
train_set = TensorDataset(torch.randn(8, 4), torch.randn(8, 2))
"""


@dataclass(frozen=True)
class Entry:
    right: str
    wrong: str  # with one thing that nobody places
    codemod: str  # which codemod finds it
    text: str  # the code it points at


FRAMEWORKS = {
    "accelerate": Entry(
        """\
from accelerate import Accelerator
accelerator = Accelerator()
model = nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(train_set, batch_size=4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    loss = F.mse_loss(model(x), y)
    accelerator.backward(loss)
    optimizer.step()
""",
        """\
from accelerate import Accelerator
accelerator = Accelerator()
model = nn.Linear(4, 2)
model = accelerator.prepare(model)
loader = DataLoader(train_set, batch_size=4)
for x, y in loader:
    print(model(x))
""",
        "move-inputs",
        "x",
    ),
    "accelerate, out of sight": Entry(
        """\
def train(accelerator, teacher, model, raw, device):
    teacher = teacher.to(device)
    model, loader = accelerator.prepare(model, raw)
    for x, y in loader:
        print(model(x), teacher(x))
""",
        """\
def train(accelerator, teacher, model, raw, device):
    teacher = teacher.to(device)
    model, loader = accelerator.prepare(model, raw)
    for x, y in DataLoader(train_set, batch_size=4):
        print(teacher(x))
""",
        "move-inputs",
        "x",
    ),
    "accelerate, loaders of another file": Entry(
        """\
from accelerate import Accelerator
from utilities import get_parts
model, loader = get_parts()
model.to(Accelerator().device)
for batch in loader:
    print(model(**batch))
def evaluate(model, dataloader, device):
    model.to(device)
    model.eval()
    for batch in dataloader:
        print(model(**batch))
""",
        """\
from utilities import get_parts
model, loader = get_parts()
model.to(device)
model.eval()
for batch in loader:
    print(model(batch))
""",
        "move-inputs",
        "batch",
    ),
    "accelerate for DistributedDataParallel": Entry(
        """\
from accelerate import Accelerator, DistributedDataParallelKwargs
handler = DistributedDataParallelKwargs(find_unused_parameters=True)
accelerator = Accelerator(kwargs_handlers=[handler])
model = accelerator.prepare(nn.Linear(4, 2))
print(model(torch.randn(3, 4)))
""",
        """\
from accelerate import Accelerator, DistributedDataParallelKwargs
handler = DistributedDataParallelKwargs(find_unused_parameters=True)
accelerator = Accelerator(kwargs_handlers=[handler])
teacher = nn.Linear(4, 2).to(accelerator.device)
model = accelerator.prepare(nn.Linear(4, 2))
x = torch.randn(3, 4)
print(model(x) - teacher(x))
""",
        "move-inputs",
        "x",
    ),
    "accelerate without placement": Entry(
        """\
from accelerate import Accelerator
accelerator = Accelerator(device_placement=False)
model = accelerator.prepare(nn.Linear(4, 2))
for x, y in DataLoader(train_set, batch_size=4):
    print(model(x))
""",
        """\
from accelerate import Accelerator
accelerator = Accelerator(device_placement=False)
model, loader = accelerator.prepare(nn.Linear(4, 2).to(device), DataLoader(train_set, batch_size=4))
teacher = nn.Linear(4, 2).to(device)
for x, y in DataLoader(train_set, batch_size=4):
    print(teacher(x))
""",
        "move-inputs",
        "x",
    ),
    "accelerate, a list of all, kept in self": Entry(
        """\
import accelerate
class Trainer2:
    def __init__(self, model, optimizer):
        self.accelerator = accelerate.Accelerator(mixed_precision="fp16")
        self.loader = DataLoader(train_set, batch_size=4)
        self.device = self.accelerator.device
        parts = self.accelerator.prepare(model, optimizer, self.loader)
        self.model, self.optimizer, self.loader = parts
        self.ema = nn.Linear(4, 2).to(self.device)
    def train(self):
        for x, y in self.loader:
            loss = F.mse_loss(self.model(x), self.ema(x))
            self.accelerator.backward(loss)
""",
        """\
import accelerate
class Trainer2:
    def __init__(self, model, optimizer):
        self.accelerator = accelerate.Accelerator(mixed_precision="fp16")
        self.loader = DataLoader(train_set, batch_size=4)
        self.device = self.accelerator.device
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.ema = nn.Linear(4, 2).to(self.device)
    def train(self):
        for x, y in self.loader:
            print(self.ema(x))
""",
        "move-inputs",
        "x",
    ),
    "transformers Trainer, called": Entry(
        """\
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
trainer = Trainer(model=model, args=TrainingArguments("out"), train_dataset=train_set)
trainer.train()
late = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").to(device)
for batch in trainer.get_eval_dataloader():
    print(late(**batch))
batch = tokenizer(["a"], return_tensors="pt").to(model.device)
print(trainer.model(**batch))
print(model(**batch))
""",
        """\
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
trainer = Trainer(model=model, args=TrainingArguments("out"), train_dataset=train_set)
trainer.train()
other = AutoModelForSequenceClassification.from_pretrained("bert-base-cased").to(device)
batch = tokenizer(["a"], return_tensors="pt")
print(other(**batch))
""",
        "move-inputs",
        "batch",
    ),
    "transformers Trainer, a subclass": Entry(
        """\
from transformers import Trainer
class Distiller(Trainer):
    def __init__(self, teacher, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.teacher = teacher.to(self.args.device)
    def compute_loss(self, model, inputs, return_outputs=False):
        loss = F.mse_loss(model(**inputs).logits, self.teacher(**inputs).logits)
        return (loss, loss) if return_outputs else loss
    def evaluation_loop(self, dataloader, description):
        head = nn.Linear(4, 2).to(self.args.device)
        for inputs in dataloader:
            print(head(inputs))
""",
        """\
from transformers import Trainer
class Distiller(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        return model(**inputs).loss
def check(model, loader, device):
    model.to(device)
    for x, y in loader:
        print(model(x))
""",
        "move-inputs",
        "x",
    ),
    "device_map": Entry(
        """\
from transformers import AutoModelForCausalLM, AutoTokenizer
model = AutoModelForCausalLM.from_pretrained("gpt2", device_map="auto")
tokenizer = AutoTokenizer.from_pretrained("gpt2")
batch = tokenizer(["a"], return_tensors="pt")
print(model.generate(**batch))
""",
        """\
from transformers import AutoModelForCausalLM, AutoTokenizer
model = AutoModelForCausalLM.from_pretrained("gpt2", device_map="auto")
draft = AutoModelForCausalLM.from_pretrained("gpt2").to(device)
tokenizer = AutoTokenizer.from_pretrained("gpt2")
batch = tokenizer(["a"], return_tensors="pt")
print(draft(**batch))
""",
        "move-inputs",
        "batch",
    ),
    "bitsandbytes": Entry(
        """\
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
config = BitsAndBytesConfig(load_in_4bit=True)
model = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
small = AutoModelForCausalLM.from_pretrained("gpt2", load_in_8bit=True)
batch = AutoTokenizer.from_pretrained("gpt2")(["a"], return_tensors="pt")
print(model.generate(**batch), small(**batch))
""",
        """\
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
small = AutoModelForCausalLM.from_pretrained("gpt2", load_in_8bit=True)
plain = AutoModelForCausalLM.from_pretrained("gpt2").to(device)
tokenizer = AutoTokenizer.from_pretrained("gpt2")
batch = tokenizer(["a"], return_tensors="pt")
print(plain(**batch))
""",
        "move-inputs",
        "batch",
    ),
    "Lightning": Entry(
        """\
import lightning as L
class Data(L.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(train_set, batch_size=4)
class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.metric = nn.Linear(2, 2).to(device)
    def training_step(self, batch, index):
        x, y = batch
        return F.mse_loss(self.metric(self.layer(x)), y)
    def on_train_epoch_end(self):
        for x, y in self.train_dataloader():
            print(self(x.to(self.device)))
    def train_dataloader(self):
        return DataLoader(train_set, batch_size=4)
trainer = L.Trainer(max_epochs=1)
net = Net().to(device)
trainer.fit(net, Data())
print(net(torch.randn(3, 4)))
""",
        """\
import pytorch_lightning as pl
class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
    def forward(self, x):
        return self.layer(x)
net = Net().to(device)
for x, y in DataLoader(train_set, batch_size=4):
    print(net(x))
""",
        "move-inputs",
        "x",
    ),
    "Fabric": Entry(
        """\
from lightning.fabric import Fabric
fabric = Fabric(accelerator="auto")
fabric.launch()
model = nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters())
model, optimizer = fabric.setup(model, optimizer)
loader = fabric.setup_dataloaders(DataLoader(train_set, batch_size=4))
for x, y in loader:
    fabric.backward(F.mse_loss(model(x), y))
    optimizer.step()
""",
        """\
from lightning.fabric import Fabric
fabric = Fabric(accelerator="auto")
model = fabric.setup(nn.Linear(4, 2))
loader = DataLoader(train_set, batch_size=4)
for x, y in loader:
    print(model(x))
""",
        "move-inputs",
        "x",
    ),
    "DeepSpeed": Entry(
        """\
import deepspeed
model = nn.Linear(4, 2)
engine, optimizer, loader, _ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(), training_data=train_set, config="ds.json"
)
for x, y in loader:
    x, y = x.to(engine.device), y.to(engine.device)
    loss = F.mse_loss(engine(x), y)
    engine.backward(loss)
    engine.step()
print(model(x))
""",
        """\
import deepspeed
model = nn.Linear(4, 2)
engine, optimizer, loader, _ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(), training_data=train_set, config="ds.json"
)
own = DataLoader(train_set, batch_size=4)
for x, y in own:
    print(engine(x))
""",
        "move-inputs",
        "x",
    ),
    "FSDP": Entry(
        """\
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
model = FSDP(nn.Linear(4, 2), device_id=torch.cuda.current_device())
optimizer = torch.optim.Adam(model.parameters())
for x, y in DataLoader(train_set, batch_size=4):
    loss = F.mse_loss(model(x.to(device)), y.to(device))
""",
        """\
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
model = FSDP(nn.Linear(4, 2), device_id=torch.cuda.current_device())
teacher = nn.Linear(4, 2).to(device)
for x, y in DataLoader(train_set, batch_size=4):
    print(teacher(x))
""",
        "move-inputs",
        "x",
    ),
    "FSDP2": Entry(
        """\
from torch.distributed.fsdp import fully_shard
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
for layer in model:
    fully_shard(layer)
model.to(device)
fully_shard(model)
optimizer = torch.optim.Adam(model.parameters())
for x, y in DataLoader(train_set, batch_size=4):
    loss = F.mse_loss(model(x), y.to(device))
""",
        """\
from torch.distributed.fsdp import fully_shard
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
fully_shard(model)
teacher = nn.Linear(4, 2).to(device)
for x, y in DataLoader(train_set, batch_size=4):
    print(teacher(x))
""",
        "move-inputs",
        "x",
    ),
    "Ignite": Entry(
        """\
from ignite.engine import create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Loss
model = nn.Linear(4, 2).to(device)
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(train_set, batch_size=4)
trainer = create_supervised_trainer(model, optimizer, criterion, device=device)
evaluator = create_supervised_evaluator(model, metrics={"loss": Loss(criterion)}, device=device)
trainer.run(loader, max_epochs=2)
evaluator.run(loader)
""",
        """\
from ignite.engine import Engine
model = nn.Linear(4, 2).to(device)
def step(engine, batch):
    return model(batch[0].to(device))
trainer = Engine(step)
loader = DataLoader(train_set, batch_size=4)
trainer.run(loader)
for x, y in loader:
    print(model(x))
""",
        "move-inputs",
        "x",
    ),
    "Ignite, auto_model": Entry(
        """\
import ignite.distributed as idist
model = idist.auto_model(nn.Linear(4, 2))
optimizer = idist.auto_optim(torch.optim.Adam(model.parameters()))
loader = idist.auto_dataloader(train_set, batch_size=4)
for x, y in loader:
    x, y = x.to(idist.device()), y.to(idist.device())
    print(F.mse_loss(model(x), y))
""",
        """\
import ignite.distributed as idist
model = idist.auto_model(nn.Linear(4, 2))
teacher = nn.Linear(4, 2).to(idist.device())
loader = idist.auto_dataloader(train_set, batch_size=4)
for x, y in loader:
    print(teacher(x))
""",
        "move-inputs",
        "x",
    ),
    "fastai": Entry(
        """\
from fastai.vision.all import DataLoaders, Learner
dls = DataLoaders(DataLoader(train_set, batch_size=4), DataLoader(train_set, batch_size=4), device=device)
learn = Learner(dls, nn.Linear(4, 2).to(device), loss_func=nn.MSELoss())
learn.fit(1)
for x, y in learn.dls.train:
    print(learn.model(x))
x, y = dls.one_batch()
print(learn.model(x))
for x, y in dls.train:
    print(learn.model(x))
""",
        """\
from fastai.vision.all import DataLoaders, Learner
dls = DataLoaders.from_dsets(train_set, train_set)
model = nn.Linear(4, 2).to(device)
learn = Learner(dls, model, loss_func=nn.MSELoss())
for x, y in DataLoader(train_set, batch_size=4):
    print(model(x))
""",
        "move-inputs",
        "x",
    ),
    "SpeechBrain": Entry(
        """\
import speechbrain as sb
class ASR(sb.core.Brain):
    def compute_forward(self, batch, stage):
        batch = batch.to(self.device)
        wavs, lengths = batch.sig
        return self.modules.encoder(wavs), lengths
    def compute_objectives(self, predictions, batch, stage):
        out, lengths = predictions
        return F.mse_loss(out, batch.target)
    def check(self):
        for batch in self.make_dataloader(train_set, None):
            print(self.modules.encoder(batch.sig))
brain = ASR({"encoder": nn.Linear(4, 2)}, hparams={}, run_opts={"device": "cpu"})
brain.fit(range(2), DataLoader(train_set, batch_size=4))
""",
        """\
import speechbrain as sb
class ASR(sb.Brain):
    def compute_forward(self, batch, stage):
        batch = batch.to(self.device)
        return self.modules.encoder(batch.sig)
    def probe(self):
        head = nn.Linear(4, 2).to(self.device)
        for x, y in DataLoader(train_set, batch_size=4):
            print(head(x))
""",
        "move-inputs",
        "x",
    ),
    "diffusers offload": Entry(
        """\
from diffusers import StableDiffusionPipeline, UNet2DConditionModel
unet = UNet2DConditionModel.from_pretrained("x", subfolder="unet")
model = StableDiffusionPipeline.from_pretrained("x", unet=unet)
model.enable_model_cpu_offload()
latents = torch.randn(1, 4, 64, 64)
print(model(latents=latents))
other = UNet2DConditionModel.from_pretrained("x").to(device)
other.enable_group_offload(onload_device=device)
print(other(torch.randn(1, 4, 64, 64)))
""",
        """\
from diffusers import StableDiffusionPipeline, UNet2DConditionModel
pipe = StableDiffusionPipeline.from_pretrained("x")
pipe.enable_model_cpu_offload()
unet = UNet2DConditionModel.from_pretrained("x", subfolder="unet").to(device)
latents = torch.randn(1, 4, 64, 64)
print(unet(latents))
""",
        "move-inputs",
        "latents",
    ),
    "accelerate hooks": Entry(
        """\
from accelerate import cpu_offload, dispatch_model, load_checkpoint_and_dispatch
model = dispatch_model(nn.Linear(4, 2), device_map={"": 0})
print(model(torch.randn(3, 4)))
big = load_checkpoint_and_dispatch(nn.Linear(4, 2), "weights.pt", device_map="auto")
print(big(torch.randn(3, 4)))
small = nn.Linear(4, 2).to(device)
cpu_offload(small, device)
print(small(torch.randn(3, 4)))
""",
        """\
from accelerate import dispatch_model
model = dispatch_model(nn.Linear(4, 2), device_map={"": 0})
plain = nn.Linear(4, 2).to(device)
x = torch.randn(3, 4)
print(plain(x))
""",
        "move-inputs",
        "x",
    ),
    "DataParallel": Entry(
        """\
model = nn.DataParallel(nn.Linear(4, 2)).to(device)
for x, y in DataLoader(train_set, batch_size=4):
    print(F.mse_loss(model(x), y.to(device)))
""",
        """\
model = nn.DataParallel(nn.Linear(4, 2)).to(device)
for x, y in DataLoader(train_set, batch_size=4):
    print(F.mse_loss(model(x), y))
""",
        "move-inputs",
        "y",
    ),
    "torch.compile": Entry(
        """\
model = torch.compile(nn.Linear(4, 2).to(device))
late = torch.compile(nn.Linear(4, 2))
late.to(device)
optimizer = torch.optim.Adam(late.parameters())
for x, y in DataLoader(train_set, batch_size=4):
    x, y = x.to(device), y.to(device)
    print(F.mse_loss(model(x), late(x)) + y.sum())
""",
        """\
model = torch.compile(nn.Linear(4, 2).to(device))
for x, y in DataLoader(train_set, batch_size=4):
    print(model(x))
""",
        "move-inputs",
        "x",
    ),
    "timm's loaders": Entry(
        """\
from loaders import create_loader
model = nn.Linear(4, 2).to(device)
loader = create_loader(train_set, batch_size=4)
for x, y in loader:
    print(F.mse_loss(model(x), y))
""",
        """\
from loaders import make_loader
model = nn.Linear(4, 2).to(device)
loader = make_loader(train_set, batch_size=4)
for x, y in loader:
    print(model(x))
""",
        "move-inputs",
        "x",
    ),
    "XLA": Entry(
        """\
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
place = xm.xla_device()
model = nn.Linear(4, 2).to(place)
loader = pl.MpDeviceLoader(DataLoader(train_set, batch_size=4), place)
for x, y in loader:
    print(F.mse_loss(model(x), y))
parallel = pl.ParallelLoader(DataLoader(train_set, batch_size=4), [place])
for x, y in parallel.per_device_loader(place):
    print(F.mse_loss(model(x), y))
""",
        """\
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
place = xm.xla_device()
model = nn.Linear(4, 2).to(place)
for x, y in DataLoader(train_set, batch_size=4):
    print(model(x))
""",
        "move-inputs",
        "x",
    ),
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_a_framework_owns_is_left_alone(name: str) -> None:
    text = HEAD + FRAMEWORKS[name].right
    assert [finding.message for codemod in CODEMODS for finding in findings(codemod, text)] == []


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_it_does_not_own_is_found(name: str) -> None:
    entry = FRAMEWORKS[name]
    text = HEAD + entry.wrong
    said = [f.message for codemod in CODEMODS if codemod.id == entry.codemod for f in findings(codemod, text)]
    assert len(said) == 1, said
    assert f"`{entry.text}`" in said[0]
