"""Given rows of each expert for the PyTorch baseline: the choice that muster's debug.moe_routing makes (trainer/routing.h), step by step.

ROUTING=natural|balanced|skewed|FILE      FILE: a recording that debug.moe_record wrote
`gpu_torch_routing.py FILE` describes a recording.
"""
import json, math, struct, sys


def load(path):
    """(rows[steps][layers][experts], top_k)"""
    with open(path, 'rb') as f:
        n, = struct.unpack('<Q', f.read(8))
        head = json.loads(f.read(n))
        t = head['counts']
        steps, layers, experts = t['shape']
        count = steps * layers * experts
        flat = struct.unpack('<%d%s' % (count, {'U16': 'H', 'I32': 'i'}[t['dtype']]), f.read(t['data_offsets'][1]))
    at = lambda s, l: list(flat[(s * layers + l) * experts:(s * layers + l + 1) * experts])
    return [[at(s, l) for l in range(layers)] for s in range(steps)], head['__metadata__']


def scale(rows, total, most):
    """rows scaled to the sum `total`, none above `most`: largest remainders up, the first among equals"""
    s = sum(rows)
    out = [min(c * total // s, most) for c in rows]
    rest = [c * total - c * total // s * s for c in rows]
    left = total - sum(out)
    while left:
        open_ = [e for e in range(len(rows)) if out[e] < most]
        best = max(open_, key=lambda e: (rest[e], -e))
        out[best] += 1
        rest[best] = -1
        left -= 1
    return out


def made_up(kind, layers, E, K):
    most = min(E / K, 10)
    row = lambda l: [1000000 if kind == 'balanced' else int(1e6 * (most if e == (l * 37 + 5) % E else (E - most) / (E - 1)) + .5)
                     for e in range(E)]
    return [[row(l) for l in range(layers)]]


class Routing:
    def __init__(self, kind, layers, E, K, T):
        self.kind, self.E, self.K, self.T = kind, E, K, T
        self.name = kind if kind in ('natural', 'balanced', 'skewed') else 'replay'
        if self.name == 'natural':
            return
        if self.name == 'replay':
            rows, meta = load(kind)
            assert len(rows[0][0]) == E and int(meta['top_k']) == K, 'recorded with another model'
        else:
            rows = made_up(kind, layers, E, K)
        self.steps, self.layers = len(rows), min(len(rows[0]), layers)
        self.rows = rows
        self.mul = max(1, int(T * 0.6180339887498949))
        while math.gcd(self.mul, T) != 1:
            self.mul += 1

    def offsets(self, step, steps, layer):
        at = min(step * self.steps // steps, self.steps - 1)
        out = [0]
        for c in scale(self.rows[at][layer % self.layers], self.T * self.K, self.T):
            out.append(out[-1] + c)
        return out

    def choice(self, step, steps, layer, device):
        """[T, K] experts, or None: the router chooses"""
        import torch
        if self.name == 'natural':
            return None
        t = torch.arange(self.T, device=device)
        at = (self.mul * t + (layer * 40503 + step * 9973) % self.T) % self.T
        place = at[:, None] + self.T * torch.arange(self.K, device=device)[None]
        offset = torch.tensor(self.offsets(step, steps, layer)[1:], device=device)
        return torch.searchsorted(offset, place, right=True)


if __name__ == '__main__':
    rows, meta = load(sys.argv[1])
    load_of = lambda r: max(r) * len(r) / sum(r)
    print(meta)
    for s in range(0, len(rows), max(1, len(rows) // 10)):
        print('step %d: max:mean of the layers %s' % (s, ' '.join('%.2f' % load_of(r) for r in rows[s])))
    flat = sorted(load_of(r) for s in rows for r in s)
    print('%d steps of %d layers; max:mean median %.2f, most %.2f' % (len(rows), len(rows[0]), flat[len(flat) // 2], flat[-1]))
