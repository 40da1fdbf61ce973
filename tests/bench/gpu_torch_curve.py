"""gpu_torch_curve.py DUMP OUT [cuda|cpu] [bf16|fp32]: the loss curve of the PyTorch baseline from what gpu_dump wrote.

FP32 master weights, gradients summed in FP32 over micro-batches of 4 samples, clipping at 1, AdamW (0.9, 0.95, 1e-8,
decay 0.1 on every tensor), the dump's learning rates: the recipe of `gpu.sh curve`.  OUT: "STEP LOSS" lines.
"""
import contextlib, sys
import torch
from torch.nn.attention import sdpa_kernel, SDPBackend
import gpu_torch_model as model

dump, out = sys.argv[1:3]
device = sys.argv[3] if len(sys.argv) > 3 else 'cuda'
dtype = torch.float32 if sys.argv[4:] == ['fp32'] else torch.bfloat16
t, meta = model.read(dump)
S, G, MICRO = int(meta['seq']), int(meta['batch']), 4
m = model.build(meta, dtype, device)
model.load(m, t)
master = [p.detach().clone().float() for p in m.parameters()]
m = m.to(dtype)
opt = torch.optim.AdamW(master, lr=1, betas=(.9, .95), eps=1e-8, weight_decay=0.1)
cos, sin = model.angles(S, dtype, device)
tokens = t['tokens'].reshape(-1, G, S + 1).to(device)
with open(out, 'w') as f:
    for step, lr in enumerate(t['lr'].tolist()):
        total = 0.
        for x in master:
            x.grad = torch.zeros_like(x)
        for rows in tokens[step].split(MICRO):
            m.zero_grad()
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION) if device == 'cuda' else contextlib.nullcontext():
                loss = model.loss_of(m, rows[:, :-1], rows[:, 1:], cos, sin) * rows.shape[0] / G
                loss.backward()
            total += loss.item()
            for x, p in zip(master, m.parameters()):
                x.grad += p.grad.float()
        print('%d %.5f' % (step + 1, total), file=f)
        torch.nn.utils.clip_grad_norm_(master, 1.0)
        opt.param_groups[0]['lr'] = lr
        opt.step()
        with torch.no_grad():
            for x, p in zip(master, m.parameters()):
                p.copy_(x)
