"""The baseline's model (gpu_torch_layers.py) with the weights and shape of a golden file: for gradients and loss curves."""
import json, struct
import torch
import torch.nn.functional as F
import gpu_torch_layers as base


def read(path):
    """({name: tensor}, metadata) of a safetensors file of 4-byte elements"""
    with open(path, 'rb') as f:
        n, = struct.unpack('<Q', f.read(8))
        head = json.loads(f.read(n))
        data = bytearray(f.read())
    meta = head.pop('__metadata__', {})
    kind = {'F32': torch.float32, 'I32': torch.int32}
    return {k: torch.frombuffer(data, dtype=kind[t['dtype']], count=(t['data_offsets'][1] - t['data_offsets'][0]) // 4,
                                offset=t['data_offsets'][0]).reshape(t['shape']).clone() for k, t in head.items()}, meta


def loop(x, w, offs):
    """grouped product expert by expert, in x's type"""
    ends = [0] + offs.tolist()
    return torch.cat([x[a:b] @ w[e].t() for e, (a, b) in enumerate(zip(ends, ends[1:]))])


def build(meta, dtype, device):
    m = {k: int(v) for k, v in meta.items() if v.isdigit()}
    base.D, base.H, base.KV, base.DH = m['hidden_size'], m['num_attention_heads'], m['num_key_value_heads'], m['head_dim']
    base.E, base.K, base.FF, base.V = m['num_experts'], m['num_experts_per_tok'], m['moe_intermediate_size'], m['vocab_size']
    base.cechunk = base._ce
    if dtype == torch.float32:
        base.grouped = loop
    return base.Model(m['num_hidden_layers'], 'none').to(device)


def angles(S, dtype, device):
    inv = 1 / (1e6 ** (torch.arange(0, base.DH, 2, device=device).float() / base.DH))
    f = torch.outer(torch.arange(S, device=device).float(), inv)
    f = torch.cat((f, f), -1)
    return f.cos().to(dtype)[None, :, None], f.sin().to(dtype)[None, :, None]


def parts(model, t, kind):
    """[(parameter, [(name in the file, rows of it)])]: where a file's tensors go"""
    have = lambda n: kind + '.' + n in t
    out = [(model.emb.weight, ['model.embed_tokens.weight']), (model.hd.norm.weight, ['model.norm.weight']), (model.hd.head.weight, ['lm_head.weight'])]
    for i, l in enumerate(model.layers):
        p = 'model.layers.%d.' % i
        qkv = [p + 'self_attn.qkv_proj.weight']
        if not have(qkv[0]):
            qkv = [p + 'self_attn.%s_proj.weight' % x for x in 'qkv']
        up = p + ('mlp.experts.w13' if have(p + 'mlp.experts.w13') else 'mlp.experts.gate_up_proj')
        down = p + ('mlp.experts.w2' if have(p + 'mlp.experts.w2') else 'mlp.experts.down_proj')
        out += [(l.n1.weight, [p + 'input_layernorm.weight']), (l.n2.weight, [p + 'post_attention_layernorm.weight']), (l.attn.wqkv.weight, qkv),
                (l.attn.qn.weight, [p + 'self_attn.q_norm.weight']), (l.attn.kn.weight, [p + 'self_attn.k_norm.weight']),
                (l.attn.wo.weight, [p + 'self_attn.o_proj.weight']), (l.moe.gate.weight, [p + 'mlp.gate.weight']),
                ((l.moe.w1, l.moe.w3), [up]), (l.moe.w2, [down])]
    return out


def load(model, t):
    with torch.no_grad():
        for p, names in parts(model, t, 'weight'):
            w = torch.cat([t['weight.' + n].reshape(-1, *t['weight.' + n].shape[-1:]) if len(names) > 1 else t['weight.' + n] for n in names])
            if isinstance(p, tuple):
                a, b = w.chunk(2, 1)
                p[0].copy_(a)
                p[1].copy_(b)
            else:
                p.copy_(w.reshape(p.shape))


def loss_of(model, tokens, targets, cos, sin, idx=None):
    """mean over the targets that count"""
    target = targets.long().masked_fill(targets < 0, -100)
    return model(tokens.long(), target, cos, sin, idx) * target.numel() / (target >= 0).sum()
