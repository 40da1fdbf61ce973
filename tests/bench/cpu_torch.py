#!/usr/bin/env python3
"""The model of preset small-50m in PyTorch on the CPU: what cpu_step is compared with.

    cpu_torch.py [--mode eager|compile] [--experts loop|grouped|bmm] [--steps N] ...

Same shapes, FP32, forward + backward + AdamW (fused), no clipping.  Experts:
  loop     per-expert slices of the sorted rows, one product each
  grouped  torch._grouped_mm over the sorted rows, where this build has it in FP32
  bmm      rows padded to the fullest expert, batched products
Prints a line a step, then the least and the median.
"""
import argparse
import statistics
import time

import torch
import torch.nn.functional as F

SHAPE = dict(layers=8, hidden=512, heads=8, kv_heads=4, head_dim=64, experts=16, top_k=4, ffn=256, vocab=8192)


def grouped(x, w, offs):
    """x[R, A] by expert, w[E, B, A] -> [R, B]"""
    return torch._grouped_mm(x, w.transpose(-2, -1), offs=offs)


class Layer(torch.nn.Module):
    def __init__(self, m, how):
        super().__init__()
        self.m, self.how = m, how
        D, H, KV, hd, E, Fw = (m[k] for k in ("hidden", "heads", "kv_heads", "head_dim", "experts", "ffn"))
        p = lambda *s: torch.nn.Parameter(0.02 * torch.randn(*s))
        one = lambda n: torch.nn.Parameter(torch.ones(n))
        self.norm1, self.norm2, self.qn, self.kn = one(D), one(D), one(hd), one(hd)
        self.qkv, self.o = p((H + 2 * KV) * hd, D), p(D, H * hd)
        self.gate, self.w13, self.w2 = p(E, D), p(E, 2 * Fw, D), p(E, D, Fw)

    def experts(self, x):
        m, T, K = self.m, x.shape[0], self.m["top_k"]
        prob = F.softmax(F.linear(x, self.gate), -1)
        weight, expert = prob.topk(K, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        order = expert.flatten().argsort(stable=True)
        token = order // K
        rows = x[token]
        count = torch.bincount(expert.flatten(), minlength=m["experts"])
        if self.how == "grouped":
            offs = count.cumsum(0).int()
            gate, up = grouped(rows, self.w13, offs).chunk(2, -1)
            out = grouped(F.silu(gate) * up, self.w2, offs)
        elif self.how == "loop":
            parts = []
            for e, r in enumerate(rows.split(count.tolist())):
                gate, up = F.linear(r, self.w13[e]).chunk(2, -1)
                parts.append(F.linear(F.silu(gate) * up, self.w2[e]))
            out = torch.cat(parts)
        else:
            room = int(count.max())
            first = count.cumsum(0) - count
            e = expert.flatten()[order]
            slot = e * room + torch.arange(T * K) - first[e]
            padded = rows.new_zeros(m["experts"] * room, rows.shape[1]).index_copy(0, slot, rows)
            gate, up = torch.bmm(padded.view(m["experts"], room, -1), self.w13.transpose(1, 2)).chunk(2, -1)
            out = torch.bmm(F.silu(gate) * up, self.w2.transpose(1, 2)).flatten(0, 1)[slot]
        out = out * weight.flatten()[order][:, None]
        return torch.zeros_like(x).index_add(0, token, out)

    def forward(self, x, cos, sin):
        m, (B, S, D) = self.m, x.shape
        H, KV, hd = m["heads"], m["kv_heads"], m["head_dim"]
        n = F.rms_norm(x, (D,), self.norm1, 1e-6)
        qkv = F.linear(n, self.qkv).view(B, S, H + 2 * KV, hd).transpose(1, 2)
        q, k, v = qkv.split([H, KV, KV], 1)
        q, k = (self.rope(F.rms_norm(t, (hd,), w, 1e-6), cos, sin) for t, w in ((q, self.qn), (k, self.kn)))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + F.linear(a.transpose(1, 2).reshape(B, S, H * hd), self.o)
        n = F.rms_norm(x, (D,), self.norm2, 1e-6)
        return x + self.experts(n.view(B * S, D)).view(B, S, D)

    @staticmethod
    def rope(x, cos, sin):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Model(torch.nn.Module):
    def __init__(self, m, how):
        super().__init__()
        self.m = m
        self.embed = torch.nn.Parameter(0.02 * torch.randn(m["vocab"], m["hidden"]))
        self.head = torch.nn.Parameter(0.02 * torch.randn(m["vocab"], m["hidden"]))
        self.norm = torch.nn.Parameter(torch.ones(m["hidden"]))
        self.layers = torch.nn.ModuleList(Layer(m, how) for _ in range(m["layers"]))

    def forward(self, tokens, targets):
        m, S = self.m, tokens.shape[1]
        angle = torch.arange(S)[:, None] * 1e6 ** (-torch.arange(0, m["head_dim"], 2) / m["head_dim"])
        cos, sin = angle.cos(), angle.sin()
        x = F.embedding(tokens, self.embed)
        for layer in self.layers:
            x = layer(x, cos, sin)
        x = F.rms_norm(x, (m["hidden"],), self.norm, 1e-6)
        return F.cross_entropy(F.linear(x, self.head).flatten(0, 1), targets.flatten())


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--mode", choices=("eager", "compile"), default="eager")
    args.add_argument("--experts", choices=("loop", "grouped", "bmm"), default="loop")
    args.add_argument("--batch", type=int, default=4)
    args.add_argument("--seq", type=int, default=512)
    args.add_argument("--threads", type=int, default=2)
    args.add_argument("--steps", type=int, default=5)
    args.add_argument("--warmup", type=int, default=1)
    o = args.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(o.threads)
    model = Model(SHAPE, o.experts)
    count = sum(p.numel() for p in model.parameters())
    step = torch.compile(model) if o.mode == "compile" else model
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
    ids = torch.randint(0, SHAPE["vocab"], (2, o.batch, o.seq))
    print(f"torch {torch.__version__} {o.mode}, experts {o.experts}, {count} parameters, "
          f"{o.threads} threads, batch {o.batch} x {o.seq}")
    times = []
    for i in range(o.warmup + o.steps):
        start, cpu = time.perf_counter(), time.process_time()
        loss = step(ids[0], ids[1])
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        ms, cpu = 1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - cpu)
        print(f"step {i + 1}  {ms:.1f} ms  cpu {cpu:.1f} ms  loss {loss.item():.5f}" + ("  (warm-up)" if i < o.warmup else ""))
        if i >= o.warmup:
            times.append(ms)
    tokens = o.batch * o.seq
    print(f"min {min(times):.1f} ms  median {statistics.median(times):.1f} ms  {tokens / min(times) * 1e3:.0f} tokens/s")


if __name__ == "__main__":
    main()
