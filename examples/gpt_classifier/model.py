"""A small GPT, in the style of a textbook's earlier chapters."""

import torch
import torch.nn as nn


class CausalAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.num_heads = cfg["n_heads"]
        self.head_dim = cfg["emb_dim"] // cfg["n_heads"]
        self.qkv = nn.Linear(cfg["emb_dim"], 3 * cfg["emb_dim"], bias=cfg["qkv_bias"])
        self.out_proj = nn.Linear(cfg["emb_dim"], cfg["emb_dim"])
        mask = torch.triu(torch.ones(cfg["context_length"], cfg["context_length"]), diagonal=1)
        self.register_buffer("mask", mask.bool())

    def forward(self, x):
        batch, num_tokens, width = x.shape
        qkv = self.qkv(x).view(batch, num_tokens, 3, self.num_heads, self.head_dim)
        queries, keys, values = qkv.permute(2, 0, 3, 1, 4)
        scores = queries @ keys.transpose(-2, -1) / self.head_dim**0.5
        scores = scores.masked_fill(self.mask[:num_tokens, :num_tokens], float("-inf"))
        context = torch.softmax(scores, dim=-1) @ values
        return self.out_proj(context.transpose(1, 2).reshape(batch, num_tokens, width))


class TransformerBlock(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.norm1 = nn.LayerNorm(cfg["emb_dim"])
        self.att = CausalAttention(cfg)
        self.norm2 = nn.LayerNorm(cfg["emb_dim"])
        self.ff = nn.Sequential(
            nn.Linear(cfg["emb_dim"], 4 * cfg["emb_dim"]),
            nn.GELU(),
            nn.Linear(4 * cfg["emb_dim"], cfg["emb_dim"]),
        )

    def forward(self, x):
        x = x + self.att(self.norm1(x))
        return x + self.ff(self.norm2(x))


class GPTModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok_emb = nn.Embedding(cfg["vocab_size"], cfg["emb_dim"])
        self.pos_emb = nn.Embedding(cfg["context_length"], cfg["emb_dim"])
        self.trf_blocks = nn.Sequential(*[TransformerBlock(cfg) for _ in range(cfg["n_layers"])])
        self.final_norm = nn.LayerNorm(cfg["emb_dim"])
        self.out_head = nn.Linear(cfg["emb_dim"], cfg["vocab_size"], bias=False)

    def forward(self, in_idx):
        num_tokens = in_idx.shape[1]
        positions = torch.arange(num_tokens, device=in_idx.device)
        x = self.tok_emb(in_idx) + self.pos_emb(positions)
        return self.out_head(self.final_norm(self.trf_blocks(x)))
