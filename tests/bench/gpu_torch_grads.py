"""gpu_torch_grads.py GOLDEN CHOICES OUT [cuda|cpu] [bf16|fp32]: gradients of the PyTorch baseline against golden ones.

The experts are those of CHOICES (gpu_grads wrote them).  OUT has gpu_grads' lines: "loss ...", "NAME |a-b|/|b|".
"""
import contextlib, sys
import torch
from torch.nn.attention import sdpa_kernel, SDPBackend
import gpu_torch_model as model

golden, choices, out = sys.argv[1:4]
device = sys.argv[4] if len(sys.argv) > 4 else 'cuda'
dtype = torch.float32 if sys.argv[5:] == ['fp32'] else torch.bfloat16
t, meta = model.read(golden)
idx = [c.long().to(device) for _, c in sorted(model.read(choices)[0].items(), key=lambda x: int(x[0].split('.')[1]))]
m = model.build(meta, dtype, device)
model.load(m, t)
m = m.to(dtype)
cos, sin = model.angles(int(meta['seq']), dtype, device)
with sdpa_kernel(SDPBackend.CUDNN_ATTENTION) if device == 'cuda' else contextlib.nullcontext():
    loss = model.loss_of(m, t['tokens'].to(device), t['targets'].to(device), cos, sin, idx)
    loss.backward()


def error(got, want):
    return ((got.cpu().double() - want.double()).norm() / want.double().norm()).item()


with open(out, 'w') as f:
    print('loss %.7f %.7f' % (loss.item(), t['loss'].item()), file=f)
    for p, names in model.parts(m, t, 'grad'):
        g = torch.cat([p[0].grad, p[1].grad], 1) if isinstance(p, tuple) else p.grad
        at = 0
        for n in names:
            want = t['grad.' + n]
            part = g if len(names) == 1 else g[at:at + want.shape[0]]
            at += want.shape[0]
            print('%s %.6e' % (n, error(part.reshape(want.shape), want)), file=f)
