"""Semantic search: a text encoder finds candidates on one GPU, a reranker on another orders them."""

import argparse
import zlib

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY = 512
DOCUMENTS = [
    "how to reset a forgotten password",
    "change the password of your account",
    "delete an account for good",
    "invoices and payment by credit card",
    "a payment was refused by the bank",
    "ship an order to another country",
    "track where an order is",
    "return an order and get the money back",
]
QUERIES = {
    "I have forgotten my password": 0,
    "the bank refused my payment": 4,
    "where is my order": 6,
    "money back for a return": 7,
}


def words_of(text):
    return text.lower().split()


def tokenize(text, length):
    """Hashing tokenizer: no vocabulary to download; 0 is padding."""
    ids = [1 + zlib.crc32(word.encode()) % (VOCABULARY - 1) for word in words_of(text)][:length]
    return ids + [0] * (length - len(ids))


class TextEncoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width, padding_idx=0)
        self.projection = nn.Linear(width, width)

    def forward(self, ids):
        mask = (ids != 0).unsqueeze(-1)
        pooled = (self.embedding(ids) * mask).sum(dim=1) / mask.sum(dim=1)
        return F.normalize(self.projection(pooled), dim=-1)


class Scorer(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2 * width + 1, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, query, documents, overlap):
        pairs = torch.cat([query * documents, (query - documents).abs(), overlap.unsqueeze(-1)], dim=-1)
        return self.layers(pairs).squeeze(-1)


class Embedder:
    def __init__(self, device):
        self.encoder = TextEncoder().to(device)

    @torch.no_grad()
    def embed(self, texts, length=12):
        ids = torch.tensor([tokenize(text, length) for text in texts])
        return self.encoder(ids)


class Reranker:
    def __init__(self, device):
        if device.type == "cuda":
            torch.cuda.set_device(device)  # as several libraries do; it stays the current GPU afterwards
        self.device = device
        self.scorer = Scorer().to(device)

    def score(self, query, query_vector, texts, vectors):
        query_vector = query_vector.to(self.device)
        vectors = vectors.to(self.device)
        wanted = set(words_of(query))
        overlap = torch.tensor([len(wanted & set(words_of(text))) / len(wanted) for text in texts])
        return self.scorer(query_vector, vectors, overlap)

    def fit(self, examples, texts, vectors, steps):
        optimizer = torch.optim.Adam(self.scorer.parameters(), lr=0.01)
        for step in range(1, steps + 1):
            total = 0.0
            for query, query_vector, answer in examples:
                scores = self.score(query, query_vector, texts, vectors)
                target = torch.tensor(answer, device=self.device)
                loss = F.cross_entropy(scores, target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            if step % 5 == 0:
                print(f"reranker step {step}: loss {total / len(examples):.5f}")


def search(query, embedder, reranker, vectors, top=4):
    query_vector = embedder.embed([query])
    similarity = (vectors @ query_vector.T).squeeze(-1)
    candidates = similarity.topk(top).indices
    texts = [DOCUMENTS[i] for i in candidates.tolist()]
    with torch.no_grad():
        scores = reranker.score(query, query_vector, texts, vectors[candidates])
    best = scores.argmax().item()
    return texts[best], scores[best].item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    torch.manual_seed(7)
    gpus = torch.cuda.device_count()
    embedder = Embedder(torch.device("cuda" if gpus else "cpu"))
    reranker = Reranker(torch.device("cuda", gpus - 1) if gpus else torch.device("cpu"))

    vectors = embedder.embed(DOCUMENTS)
    examples = [(query, embedder.embed([query]), answer) for query, answer in QUERIES.items()]
    reranker.fit(examples, DOCUMENTS, vectors, args.steps)

    for query in QUERIES:
        text, score = search(query, embedder, reranker, vectors)
        print(f"{query!r} -> {text!r} ({score:.4f})")


if __name__ == "__main__":
    main()
