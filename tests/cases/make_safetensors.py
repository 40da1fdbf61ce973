"""Writes safetensors_ref.safetensors with the reference library (torch 2.15,
safetensors 0.8): the file that tests/unit/trainer/test_safetensors.c reads."""
import pathlib

import torch
from safetensors.torch import save_file

n = torch.arange(6)
tensors = {
    "f32": (n.float() / 4).reshape(2, 3),
    "f64": n.double() - 1,
    "bf16": (n.float() * 0.5).bfloat16(),
    "f16": (n.float() * 0.25).half(),
    "i64": n - 3,
    "i32": n.int(),
    "i16": n.short(),
    "u16": n.to(torch.uint16),
    "i8": n.char(),
    "u8": n.byte(),
    "bool": n > 2,
    "empty": torch.zeros(0, 4),
    "scalar": torch.tensor(2.5),
    "model.layers.0.ü": torch.ones(1),
}
here = pathlib.Path(__file__).parent
save_file(tensors, here / "safetensors_ref.safetensors", metadata={"format": "pt"})
