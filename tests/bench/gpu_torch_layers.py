"""The 30B-A3B layer stack in PyTorch (FSDP2, grouped_mm, torch.compile): the baseline muster is measured against.

torchrun --nproc_per_node N gpu_torch_layers.py LAYERS,BATCH,none|sel|full,0|1 ...   (ROUTING: gpu_torch_routing.py)
Given routing is worked out before a step is timed.  Prints one RES line of JSON per configuration; peak memory is the allocator's reserved maximum.
"""
import os, sys, time, math, json, torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.attention import sdpa_kernel, SDPBackend
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts, CheckpointPolicy
import functools
from gpu_torch_routing import Routing
D,H,KV,DH,E,K,FF,V,S=2048,32,4,128,128,8,768,151936,4096
class Attn(nn.Module):
    def __init__(s):
        super().__init__()
        s.wqkv=nn.Linear(D,(H+2*KV)*DH,bias=False); s.wo=nn.Linear(H*DH,D,bias=False)
        s.qn=nn.RMSNorm(DH,eps=1e-6); s.kn=nn.RMSNorm(DH,eps=1e-6)
    def forward(s,x,cos,sin):
        B,T,_=x.shape
        q,k,v=s.wqkv(x).view(B,T,H+2*KV,DH).split([H,KV,KV],2)
        q=s.qn(q);k=s.kn(k)
        def rope(t):
            a,b=t.chunk(2,-1); return (t*cos+torch.cat((-b,a),-1)*sin).to(t.dtype)
        q=rope(q);k=rope(k)
        o=F.scaled_dot_product_attention(q.transpose(1,2),k.transpose(1,2),v.transpose(1,2),is_causal=True,enable_gqa=True)
        return s.wo(o.transpose(1,2).reshape(B,T,H*DH))
def grouped(x,w,offs): return torch._grouped_mm(x,w.bfloat16().transpose(-2,-1),offs=offs)
class MoE(nn.Module):
    def __init__(s):
        super().__init__()
        s.gate=nn.Linear(D,E,bias=False)
        s.w1=nn.Parameter(torch.empty(E,FF,D)); s.w3=nn.Parameter(torch.empty(E,FF,D)); s.w2=nn.Parameter(torch.empty(E,D,FF))
    def forward(s,x,idx=None):
        B,T,_=x.shape; x=x.view(-1,D)
        sc=F.softmax(s.gate(x).float(),-1)
        if idx is not None:
            w=sc.gather(1,idx)
        else:
            w,idx=sc.topk(K,-1)
        w=w/w.sum(-1,keepdim=True)
        flat=idx.view(-1); order=torch.argsort(flat,stable=True)
        cnt=torch.histc(flat.float(),bins=E,min=0,max=E-1)
        offs=torch.cumsum(cnt,0).to(torch.int32)
        tok=order//K
        xr=x[tok]
        h=F.silu(grouped(xr,s.w1,offs))*grouped(xr,s.w3,offs)
        y=grouped(h,s.w2,offs)
        y=(y.float()*w.view(-1)[order].unsqueeze(-1)).to(x.dtype)
        out=torch.zeros_like(x).index_add_(0,tok,y)
        return out.view(B,T,D)
class Block(nn.Module):
    def __init__(s):
        super().__init__()
        s.n1=nn.RMSNorm(D,eps=1e-6);s.n2=nn.RMSNorm(D,eps=1e-6);s.attn=Attn();s.moe=MoE()
    def forward(s,x,cos,sin,idx=None):
        x=x+s.attn(s.n1(x),cos,sin)
        return x+s.moe(s.n2(x),idx)
class Head(nn.Module):
    def __init__(s):
        super().__init__(); s.norm=nn.RMSNorm(D,eps=1e-6); s.head=nn.Linear(D,V,bias=False)
    def forward(s,x,t):
        x=s.norm(x).view(-1,D); t=t.view(-1); tot=0; n=max(1,x.shape[0]//4096)
        for a,b in zip(x.chunk(n),t.chunk(n)):
            tot=tot+checkpoint(cechunk,a,s.head.weight,b,use_reentrant=False)
        return tot/t.numel()
def _ce(a,w,b): return F.cross_entropy(F.linear(a,w).float(),b,reduction='sum')
cechunk=torch.compile(_ce)
class Model(nn.Module):
    def __init__(s,L,ac):
        super().__init__()
        s.emb=nn.Embedding(V,D); s.layers=nn.ModuleList([Block() for _ in range(L)]); s.hd=Head(); s.ac=ac
    def forward(s,t,tg,cos,sin,idx=None):
        x=s.emb(t)
        for n,l in enumerate(s.layers):
            i=idx[n] if idx else None
            if s.ac=='none': x=l(x,cos,sin,i)
            elif s.ac=='full': x=checkpoint(l,x,cos,sin,i,use_reentrant=False)
            else: x=checkpoint(l,x,cos,sin,i,use_reentrant=False,context_fn=functools.partial(create_selective_checkpoint_contexts,policy))
        return s.hd(x,tg)
SAVE={torch.ops.aten.mm.default,torch.ops.aten._scaled_dot_product_flash_attention.default,torch.ops.aten._scaled_dot_product_cudnn_attention.default,torch.ops.aten._grouped_mm.default}
def policy(ctx,op,*a,**k): return CheckpointPolicy.MUST_SAVE if op in SAVE else CheckpointPolicy.PREFER_RECOMPUTE
def run(L,B,ac,comp,steps=13):
    dev=torch.device('cuda',int(os.environ.get('LOCAL_RANK',0)))
    torch.manual_seed(0)
    with torch.device('meta'): m=Model(L,ac)
    ws=dist.get_world_size()
    mesh=init_device_mesh('cuda',(ws,))
    if comp:
        for i in range(L): m.layers[i].compile(fullgraph=(ac=='none'))
    mp=MixedPrecisionPolicy(param_dtype=torch.bfloat16,reduce_dtype=torch.float32)
    fully_shard(m.emb,mesh=mesh,mp_policy=mp)
    for l in m.layers: fully_shard(l,mesh=mesh,mp_policy=mp,reshard_after_forward=True)
    fully_shard(m.hd,mesh=mesh,mp_policy=mp,reshard_after_forward=False)
    fully_shard(m,mesh=mesh,mp_policy=mp)
    m.to_empty(device=dev)
    for p in m.parameters():
        with torch.no_grad():
            pl=p.to_local()
            if p.ndim==1: pl.fill_(1.)
            else: pl.normal_(0,0.02)
    opt=torch.optim.AdamW(m.parameters(),lr=1e-5,betas=(.9,.95),fused=True,weight_decay=0.1)
    inv=1/(1e6**(torch.arange(0,DH,2,device=dev).float()/DH)); f=torch.outer(torch.arange(S,device=dev).float(),inv); f=torch.cat((f,f),-1)
    cos=f.cos().bfloat16()[None,:,None];sin=f.sin().bfloat16()[None,:,None]
    routing=Routing(os.environ.get('ROUTING','natural'),L,E,K,B*S)
    times=[];opts=[];loss=None
    torch.cuda.reset_peak_memory_stats()
    for st in range(steps):
        tk=torch.randint(0,V,(B,S),device=dev);tg=torch.randint(0,V,(B,S),device=dev)
        idx=None if routing.name=='natural' else [routing.choice(st,steps,l,dev) for l in range(L)]
        torch.cuda.synchronize();dist.barrier();t0=time.time()
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            loss=m(tk,tg,cos,sin,idx)
            loss.backward()
        gn=torch.nn.utils.clip_grad_norm_(m.parameters(),1.0)
        torch.cuda.synchronize();t1=time.time()
        opt.step();opt.zero_grad()
        torch.cuda.synchronize();times.append(time.time()-t0);opts.append(time.time()-t1)
    t=sorted(times[3:])[len(times[3:])//2]
    act=L*(D*(H+2*KV)*DH+H*DH*D+D*E+K*3*D*FF)+V*D
    fl=6*(act+V*D)+12*L*H*DH*S   # `reference`: both embeddings, full attention
    tps=B*S/t
    r=dict(L=L,B=B,ac=ac,routing=routing.name,comp=comp,ws=ws,t=round(t,4),tps=round(tps),mfu_reference=round(tps*fl/989e12*100,2),opt_ms=round(1e3*sorted(opts[3:])[len(opts[3:])//2],1),reserved=round(torch.cuda.max_memory_reserved()/2**30,1),allocated=round(torch.cuda.max_memory_allocated()/2**30,1),loss=round(loss.item(),3))
    if dist.get_rank()==0: print('RES',json.dumps(r),flush=True)
    del m,opt; torch.cuda.empty_cache()
    return r
if __name__=='__main__':
    dist.init_process_group('nccl'); torch.cuda.set_device(int(os.environ['LOCAL_RANK']))
    for spec in sys.argv[1:]:
        L,B,ac,c=spec.split(',')
        try: run(int(L),int(B),ac,c=='1')
        except Exception as e:
            if dist.get_rank()==0: print('ERR',spec,repr(e)[:400],flush=True)
            torch.cuda.empty_cache()
    dist.destroy_process_group()
