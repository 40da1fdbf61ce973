"""A PyTorch program that knows nothing of muster: torch.distributed over env://.

TORCH_BACKEND: gloo (as it is), or nccl: a GPU a rank, the one of LOCAL_RANK."""
import os
import socket

import torch
import torch.distributed as dist

backend = os.environ.get("TORCH_BACKEND", "gloo")
device = "cpu"
if backend == "nccl":
    device = f"cuda:{int(os.environ['LOCAL_RANK']) % torch.cuda.device_count()}"
    torch.cuda.set_device(device)
dist.init_process_group(backend, init_method="env://")
rank, world = dist.get_rank(), dist.get_world_size()
t = torch.tensor([float(rank + 1)], device=device)
dist.all_reduce(t)
hosts = [None] * world
dist.all_gather_object(hosts, socket.gethostname())
assert t.item() == world * (world + 1) / 2, t.item()
print(f"rank {rank} local {os.environ['LOCAL_RANK']} of {world} sum {t.item():.0f} hosts {len(set(hosts))}", flush=True)
if backend == "nccl":
    print(f"rank {rank} on {torch.cuda.get_device_properties(device).uuid}", flush=True)
dist.barrier()
dist.destroy_process_group()
