#!/usr/bin/env python3
"""Golden values for the trainer: Hugging Face transformers' Qwen3-MoE, FP32, on the CPU.

    make_golden.py [NAME]...  write qwen3_moe_{untied,tied,masked,gpu}.safetensors here
    make_golden.py --check    compute them again and compare with the files

Each file holds the weights, tokens, targets, logits, loss (mean over the counted tokens)
and the gradient of every parameter, all under Hugging Face's names.  Needs torch,
transformers and safetensors; the tests need none of them.
"""
import argparse
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

HERE = pathlib.Path(__file__).resolve().parent
SHAPE = dict(
    vocab_size=72,
    hidden_size=40,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=12,
    num_experts=6,
    num_experts_per_tok=2,
    moe_intermediate_size=20,
    rms_norm_eps=1e-6,
    max_position_embeddings=64,
    norm_topk_prob=True,
    router_aux_loss_coef=0.0,
)
BATCH, SEQ = 2, 24
# gpu: widths that BF16 kernels take
WIDE = dict(SHAPE, vocab_size=96, hidden_size=48, num_attention_heads=4, head_dim=32, moe_intermediate_size=24)
WIDE_SEQ = 64
BOUNDARY = 9  # masked: the second document starts here


def build(tied, shape):
    config = Qwen3MoeConfig(**shape, tie_word_embeddings=tied, attn_implementation="eager")
    config.rope_parameters = {"rope_type": "default", "rope_theta": 1e6}
    model = Qwen3MoeForCausalLM(config).float().train()
    gen = torch.Generator().manual_seed(1234)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=gen)
            # norms away from 1, router and head wide enough that experts differ
            p.copy_(1 + 0.2 * noise if name.endswith("norm.weight") else 0.15 * noise)
    return model


def document_mask():
    """[1, 1, SEQ, SEQ] additive: causal, and nothing crosses the boundary."""
    i, j = torch.arange(SEQ)[:, None], torch.arange(SEQ)[None, :]
    seen = (j <= i) & ((j >= BOUNDARY) == (i >= BOUNDARY))
    return torch.where(seen, 0.0, torch.finfo(torch.float32).min)[None, None]


def make(tied, masked, shape=SHAPE, seq=SEQ):
    torch.manual_seed(0)
    model = build(tied, shape)
    gen = torch.Generator().manual_seed(99)
    ids = torch.randint(0, shape["vocab_size"], (BATCH, seq + 1), generator=gen)
    tokens, targets = ids[:, :-1].contiguous(), ids[:, 1:].clone()
    targets[0, 3] = -1  # a token that does not count
    args = {"input_ids": tokens, "use_cache": False}
    if masked:
        pos = torch.arange(SEQ)
        args["attention_mask"] = document_mask().expand(BATCH, 1, SEQ, SEQ)
        args["position_ids"] = torch.where(pos >= BOUNDARY, pos - BOUNDARY, pos)[None].expand(BATCH, SEQ)
    logits = model(**args).logits
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=-1
    )
    loss.backward()
    out = {"tokens": tokens.int(), "targets": targets.int(), "logits": logits.detach(), "loss": loss.detach().reshape(1)}
    for name, p in model.named_parameters():
        out["weight." + name] = p.detach().clone()
        out["grad." + name] = p.grad.clone()
    return {k: v.contiguous() for k, v in out.items()}


VARIANTS = {"untied": (False, False), "tied": (True, False), "masked": (False, True), "gpu": (False, False, WIDE, WIDE_SEQ)}


def check(path, want):
    have, bad = load_file(path), 0
    if set(have) != set(want):
        print(f"{path.name}: other tensors: {sorted(set(have) ^ set(want))}")
        return 1
    for name, w in want.items():
        h = have[name]
        scale = max(w.double().abs().max().item(), 1e-12)
        worst = (h.double() - w.double()).abs().max().item() / scale
        if h.shape != w.shape or worst > 1e-5:
            print(f"{path.name}: {name} differs by {worst:.2e} of its largest value")
            bad = 1
    print(f"{path.name}: {'DIFFERS' if bad else 'as committed'} ({len(want)} tensors)")
    return bad


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--check", action="store_true")
    args.add_argument("names", nargs="*", metavar="NAME")
    opt = args.parse_args()
    torch.set_num_threads(1)
    bad = 0
    for name, how in VARIANTS.items():
        if opt.names and name not in opt.names:
            continue
        path = HERE / f"qwen3_moe_{name}.safetensors"
        values = make(*how)
        if opt.check:
            bad |= check(path, values)
            continue
        meta = {k: str(v) for k, v in (how[2] if len(how) > 2 else SHAPE).items()}
        meta.update(batch=str(BATCH), seq=str(how[3] if len(how) > 2 else SEQ), boundary=str(BOUNDARY if how[1] else 0),
                    tied=str(int(how[0])), rope_theta="1000000",
                    made_with=f"torch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}")
        save_file(values, path, metadata=meta)
        print(f"{path.name}: {path.stat().st_size} bytes, loss {values['loss'].item():.6f}")
    return bad


if __name__ == "__main__":
    sys.exit(main())
