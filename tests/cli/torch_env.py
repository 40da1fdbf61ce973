"""A PyTorch program that knows nothing of muster: torch.distributed over env://."""
import os
import socket

import torch
import torch.distributed as dist

dist.init_process_group("gloo", init_method="env://")
rank, world = dist.get_rank(), dist.get_world_size()
t = torch.tensor([float(rank + 1)])
dist.all_reduce(t)
hosts = [None] * world
dist.all_gather_object(hosts, socket.gethostname())
assert t.item() == world * (world + 1) / 2, t.item()
print(f"rank {rank} local {os.environ['LOCAL_RANK']} of {world} sum {t.item():.0f} hosts {len(set(hosts))}", flush=True)
dist.barrier()
dist.destroy_process_group()
