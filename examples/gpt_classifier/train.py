"""Fine-tunes a GPT model as a spam classifier: the language head makes way for two classes."""

import argparse
import random

import torch
from torch.utils.data import DataLoader, Dataset

from model import GPTModel

SMALL_CONFIG = {
    "vocab_size": 128,  # one token per ASCII character
    "context_length": 48,
    "emb_dim": 32,
    "n_heads": 4,
    "n_layers": 2,
    "qkv_bias": True,
}
PRETRAINED_CONFIG = {**SMALL_CONFIG, "emb_dim": 128, "n_layers": 4}

SPAM = ["win a free prize now", "claim your cash reward", "urgent: call to collect", "free entry, text WIN"]
HAM = ["see you at lunch", "are you home yet", "thanks, talk later", "running late, sorry"]
NAMES = ["anna", "ben", "carla", "dev", "ella", "finn"]


class SpamDataset(Dataset):
    def __init__(self, size, max_length, seed, pad_token_id=0):
        rng = random.Random(seed)
        self.encoded_texts, self.labels = [], []
        for i in range(size):
            label = i % 2
            text = f"{rng.choice(NAMES)} {rng.choice(SPAM if label else HAM)} {rng.randint(1, 99)}"
            tokens = [ord(c) for c in text][:max_length]
            self.encoded_texts.append(tokens + [pad_token_id] * (max_length - len(tokens)))
            self.labels.append(label)

    def __getitem__(self, index):
        encoded = torch.tensor(self.encoded_texts[index], dtype=torch.long)
        return encoded, torch.tensor(self.labels[index], dtype=torch.long)

    def __len__(self):
        return len(self.labels)


def calc_loss_batch(input_batch, target_batch, model, device):
    input_batch, target_batch = input_batch.to(device), target_batch.to(device)
    logits = model(input_batch)[:, -1, :]  # the last token has seen the whole text
    return torch.nn.functional.cross_entropy(logits, target_batch)


def calc_accuracy_loader(data_loader, model, device):
    model.eval()
    correct, seen = 0, 0
    for input_batch, target_batch in data_loader:
        input_batch, target_batch = input_batch.to(device), target_batch.to(device)
        with torch.no_grad():
            logits = model(input_batch)[:, -1, :]
        correct += (logits.argmax(dim=-1) == target_batch).sum().item()
        seen += target_batch.shape[0]
    return correct / seen


def train_classifier(model, train_loader, val_loader, optimizer, device, num_epochs):
    for epoch in range(num_epochs):
        model.train()
        total = 0.0
        for input_batch, target_batch in train_loader:
            optimizer.zero_grad()
            loss = calc_loss_batch(input_batch, target_batch, model, device)
            loss.backward()
            optimizer.step()
            total += loss.item()
        accuracy = calc_accuracy_loader(val_loader, model, device)
        print(f"epoch {epoch + 1}: train loss {total / len(train_loader):.5f}, val accuracy {accuracy:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", default=None, help="pretrained weights; default: random ones")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()

    torch.manual_seed(123)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    # ----- data -----
    max_length = SMALL_CONFIG["context_length"]
    train_set = SpamDataset(192, max_length, seed=1)
    val_set = SpamDataset(64, max_length, seed=2)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, batch_size=args.batch_size)

    # ----- model -----
    if args.weights is None:
        config = SMALL_CONFIG
        model = GPTModel(config)
        model.to(device)
    else:
        config = PRETRAINED_CONFIG
        model = GPTModel(config)
        model.load_state_dict(torch.load(args.weights, map_location="cpu", weights_only=True))
        model.to(device)

    # Freeze everything, then replace the language head by a classifier.
    for param in model.parameters():
        param.requires_grad = False

    torch.manual_seed(123)
    num_classes = 2
    model.out_head = torch.nn.Linear(in_features=config["emb_dim"], out_features=num_classes)

    # Besides the new head, the last block and the final norm are trained as well.
    for param in model.trf_blocks[-1].parameters():
        param.requires_grad = True
    for param in model.final_norm.parameters():
        param.requires_grad = True

    # ----- training -----
    trainable = [param for param in model.parameters() if param.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=args.lr, weight_decay=0.1)
    train_classifier(model, train_loader, val_loader, optimizer, device, args.epochs)
    print(f"train accuracy {calc_accuracy_loader(train_loader, model, device):.4f}")


if __name__ == "__main__":
    main()
