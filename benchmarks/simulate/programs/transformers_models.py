"""Architectures of transformers with tiny random configurations: two train steps each."""

import torch
import transformers as t
from common import randint, randn, report, train

SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
DECODER = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
    "attention_dropout": 0.0,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SPEECH = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
}


def classify(config, kind):
    def program():
        model, x, y = kind(config), randint(99, 2, 9), randint(2, 2)
        return train(model, lambda m: m(input_ids=x, attention_mask=torch.ones_like(x), labels=y).loss)

    return program


def language(config, kind=t.AutoModelForCausalLM):
    def program():
        model = kind.from_config(config) if kind is t.AutoModelForCausalLM else kind(config)
        x = randint(90, 2, 9) + 3
        return train(model, lambda m: m(input_ids=x, labels=x).loss)

    return program


def image(config, kind, size=32):
    def program():
        model, x, y = kind(config), randn(2, 3, size, size), randint(2, 2)
        return train(model, lambda m: m(pixel_values=x, labels=y).loss)

    return program


def generate():
    model = t.LlamaForCausalLM(t.LlamaConfig(**DECODER)).to(randn(1).device).eval()
    out = model.generate(randint(90, 1, 4) + 3, max_new_tokens=6, do_sample=False)
    return out.float().sum().item()


def whisper():
    config = t.WhisperConfig(
        vocab_size=99,
        num_mel_bins=8,
        max_source_positions=10,
        max_target_positions=20,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        **SPEECH,
    )
    x, y = randn(2, 8, 20), randint(99, 2, 6)
    return train(t.WhisperForConditionalGeneration(config), lambda m: m(input_features=x, labels=y).loss)


def wav2vec2():
    config = t.Wav2Vec2Config(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        conv_dim=(16, 16),
        conv_stride=(4, 4),
        conv_kernel=(8, 8),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        layerdrop=0.0,
        mask_time_prob=0.0,
        activation_dropout=0.0,
        num_feat_extract_layers=2,
    )
    x, y = randn(2, 800), randint(19, 2, 4) + 1
    return train(t.Wav2Vec2ForCTC(config), lambda m: m(input_values=x, labels=y).loss)


def clip():
    text = dict(SMALL, attention_dropout=0.0)
    vision = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 37,
        "image_size": 30,
        "patch_size": 6,
    }
    model = t.CLIPModel(t.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
    x, p = randint(99, 2, 7), randn(2, 3, 30, 30)
    return train(model, lambda m: m(input_ids=x, pixel_values=p, return_loss=True).loss)


def t5():
    config = t.T5Config(
        vocab_size=99,
        d_model=32,
        d_kv=8,
        d_ff=37,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        decoder_start_token_id=0,
        pad_token_id=0,
    )
    x, y = randint(99, 2, 9), randint(99, 2, 5)
    return train(t.T5ForConditionalGeneration(config), lambda m: m(input_ids=x, labels=y).loss)


def bart():
    config = t.BartConfig(vocab_size=99, max_position_embeddings=64, pad_token_id=1, **SPEECH)
    x, y = randint(90, 2, 9) + 3, randint(90, 2, 5) + 3
    return train(t.BartForConditionalGeneration(config), lambda m: m(input_ids=x, labels=y).loss)


PROGRAMS = {
    "bert": lambda: classify(t.BertConfig(**SMALL), t.BertForSequenceClassification)(),
    "roberta": lambda: classify(t.RobertaConfig(**SMALL), t.RobertaForSequenceClassification)(),
    "electra": lambda: classify(
        t.ElectraConfig(embedding_size=16, **SMALL), t.ElectraForSequenceClassification
    )(),
    "albert": lambda: classify(
        t.AlbertConfig(embedding_size=16, **SMALL), t.AlbertForSequenceClassification
    )(),
    "deberta-v2": lambda: classify(t.DebertaV2Config(**SMALL), t.DebertaV2ForSequenceClassification)(),
    "distilbert": lambda: classify(
        t.DistilBertConfig(
            vocab_size=99,
            dim=32,
            n_layers=2,
            n_heads=4,
            hidden_dim=37,
            dropout=0.0,
            attention_dropout=0.0,
            seq_classif_dropout=0.0,
        ),
        t.DistilBertForSequenceClassification,
    )(),
    "gpt2": lambda: language(
        t.GPT2Config(
            vocab_size=99, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
        )
    )(),
    "gpt-neox": lambda: language(t.GPTNeoXConfig(**DECODER))(),
    "opt": lambda: language(
        t.OPTConfig(
            vocab_size=99,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            ffn_dim=37,
            max_position_embeddings=64,
            dropout=0.0,
            word_embed_proj_dim=32,
        )
    )(),
    "bloom": lambda: language(t.BloomConfig(vocab_size=99, hidden_size=32, n_layer=2, n_head=4))(),
    "llama": lambda: language(t.LlamaConfig(**DECODER))(),
    "mistral": lambda: language(t.MistralConfig(**DECODER))(),
    "qwen2": lambda: language(t.Qwen2Config(**DECODER))(),
    "phi": lambda: language(t.PhiConfig(resid_pdrop=0.0, embd_pdrop=0.0, **DECODER))(),
    "gemma": lambda: language(t.GemmaConfig(head_dim=8, **DECODER))(),
    "mixtral": lambda: language(
        t.MixtralConfig(
            **{**DECODER, "intermediate_size": 64, "num_local_experts": 4, "num_experts_per_tok": 2}
        )
    )(),
    "mamba": lambda: language(
        t.MambaConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=4)
    )(),
    "t5": t5,
    "bart": bart,
    "whisper": whisper,
    "wav2vec2": wav2vec2,
    "clip": clip,
    "vit": lambda: image(
        t.ViTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=37,
            image_size=32,
            patch_size=8,
            num_labels=2,
        ),
        t.ViTForImageClassification,
    )(),
    "convnext": lambda: image(
        t.ConvNextConfig(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], num_labels=2),
        t.ConvNextForImageClassification,
    )(),
    "swin": lambda: image(
        t.SwinConfig(
            image_size=32,
            patch_size=2,
            embed_dim=8,
            depths=[1, 1],
            num_heads=[2, 2],
            window_size=2,
            drop_path_rate=0.0,
            num_labels=2,
        ),
        t.SwinForImageClassification,
    )(),
    "generate": generate,
}

if __name__ == "__main__":
    for name, program in PROGRAMS.items():
        report(f"transformers {name}", program)
