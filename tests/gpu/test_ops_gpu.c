/* Every operation of the CUDA table against the CPU's, on random numbers: sizes 0 and
 * 1, odd sizes, experts without rows, one expert with all of them.
 *
 *   test_ops_gpu [GPU [GROUP]]    needs a GPU, so it is no part of `make test` */
#include "gpu_pair.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct dims {
    int T, D, H, KV, hd, E, K, F, V;
};

/* BF16 results; sums of them; FP32 results of BF16 inputs. */
#define BF  4e-3
#define BF2 1.2e-2
#define FP  2e-5

static const struct dims all[] = {
    { 0, 64, 4, 2, 16, 8, 2, 32, 264 },
    { 1, 64, 4, 2, 16, 8, 2, 32, 264 },
    { 7, 72, 4, 2, 8, 5, 2, 40, 257 },
    { 130, 256, 8, 2, 64, 16, 4, 192, 1000 },
    { 301, 512, 8, 1, 128, 128, 8, 256, 3001 },
    { 257, 2048, 32, 4, 128, 128, 8, 768, 4096 },
};

static char label[96];

static const char *dims_text(const struct dims *z)
{
    snprintf(label, sizeof(label), "T=%d D=%d E=%d F=%d", z->T, z->D, z->E, z->F);
    return label;
}

static void reset(struct pair *p, struct buf *list, int n)
{
    for (int i = 0; i < n; i++)
        buf_free(&list[i]);
    p->used = 0;
}

/* --- elementwise, sums, loss, optimizer ------------------------------------------- */

static void test_elementwise(struct pair *p, const struct dims *z)
{
    int64_t n = (int64_t)z->T * z->D + (z->T ? 3 : 0);
    struct buf b[] = { buf_random(p, BUF_ELEM, n, 1), buf_random(p, BUF_ELEM, n, 1),
                       buf_new(p, BUF_ELEM, n),       buf_random(p, BUF_F32, n, 1),
                       buf_random(p, BUF_F32, n, 1),  buf_new(p, BUF_ELEM, n),
                       buf_ints(p, n, 1000),          buf_ints(p, n, 1000),
                       buf_new(p, BUF_F32, 1),        buf_new(p, BUF_F64, 1) };

    p->c->add(p->cd, b[2].cpu, b[0].cpu, b[1].cpu, n);
    p->g->add(p->gd, b[2].gpu, b[0].gpu, b[1].gpu, n);
    p->c->add_f32(p->cd, b[3].cpu, b[4].cpu, n);
    p->g->add_f32(p->gd, b[3].gpu, b[4].gpu, n);
    p->c->scale_f32(p->cd, b[3].cpu, 0.7f, n);
    p->g->scale_f32(p->gd, b[3].gpu, 0.7f, n);
    p->c->from_f32(p->cd, b[5].cpu, b[3].cpu, n);
    p->g->from_f32(p->gd, b[5].gpu, b[3].gpu, n);
    p->c->add_i32(p->cd, b[6].cpu, b[7].cpu, n);
    p->g->add_i32(p->gd, b[6].gpu, b[7].gpu, n);
    p->c->sum_f32(p->cd, b[8].cpu, b[3].cpu, n);
    p->g->sum_f32(p->gd, b[8].gpu, b[3].gpu, n);
    p->c->sumsq_f32(p->cd, b[9].cpu, b[3].cpu, n);
    p->g->sumsq_f32(p->gd, b[9].gpu, b[3].gpu, n);
    pair_status(p, "elementwise");
    pair_check(p, "add", dims_text(z), &b[2], BF);
    pair_check(p, "add_f32 scale_f32", dims_text(z), &b[3], FP);
    pair_check(p, "from_f32", dims_text(z), &b[5], BF);
    pair_check(p, "add_i32", dims_text(z), &b[6], 0);
    pair_check(p, "sum_f32", dims_text(z), &b[8], 1e-3);
    pair_check(p, "sumsq_f32", dims_text(z), &b[9], 1e-9);
    reset(p, b, ARRAY_LEN(b));
}

static void test_swiglu(struct pair *p, const struct dims *z)
{
    int64_t n = (int64_t)z->T * z->F;
    struct buf b[] = { buf_random(p, BUF_ELEM, 2 * n, 2), buf_random(p, BUF_ELEM, n, 1),
                       buf_new(p, BUF_ELEM, n), buf_new(p, BUF_ELEM, 2 * n) };

    p->c->swiglu_fwd(p->cd, b[2].cpu, b[0].cpu, z->T, z->F);
    p->g->swiglu_fwd(p->gd, b[2].gpu, b[0].gpu, z->T, z->F);
    p->c->swiglu_bwd(p->cd, b[3].cpu, b[1].cpu, b[0].cpu, z->T, z->F);
    p->g->swiglu_bwd(p->gd, b[3].gpu, b[1].gpu, b[0].gpu, z->T, z->F);
    pair_status(p, "swiglu");
    pair_check(p, "swiglu_fwd", dims_text(z), &b[2], BF);
    pair_check(p, "swiglu_bwd", dims_text(z), &b[3], BF);
    reset(p, b, ARRAY_LEN(b));
}

static void test_embed(struct pair *p, const struct dims *z)
{
    int64_t n = (int64_t)z->T * z->D, table = (int64_t)z->V * z->D;
    struct buf b[] = { buf_random(p, BUF_ELEM, table, 1), buf_ints(p, z->T, z->V / 8),
                       buf_new(p, BUF_ELEM, n), buf_random(p, BUF_ELEM, n, 1),
                       buf_random(p, BUF_F32, table, 1) };

    p->c->embed_fwd(p->cd, b[2].cpu, b[1].cpu, b[0].cpu, z->T, z->D, z->V);
    p->g->embed_fwd(p->gd, b[2].gpu, b[1].gpu, b[0].gpu, z->T, z->D, z->V);
    p->c->embed_bwd(p->cd, b[4].cpu, b[1].cpu, b[3].cpu, z->T, z->D, z->V);
    p->g->embed_bwd(p->gd, b[4].gpu, b[1].gpu, b[3].gpu, z->T, z->D, z->V);
    pair_status(p, "embed");
    pair_check(p, "embed_fwd", dims_text(z), &b[2], 0);
    pair_check(p, "embed_bwd", dims_text(z), &b[4], 1e-6);
    reset(p, b, ARRAY_LEN(b));
}

static void test_loss(struct pair *p, const struct dims *z)
{
    int64_t n = (int64_t)z->T * z->V;
    struct buf b[] = { buf_random(p, BUF_ELEM, n, 4), buf_ints(p, z->T, z->V),
                       buf_new(p, BUF_F32, z->T) };

    if (z->T > 3) { /* one token that does not count */
        ((int32_t *)b[1].cpu)[3] = -1;
        buf_send(p, &b[1]);
    }
    p->c->cross_entropy(p->cd, b[2].cpu, b[0].cpu, b[1].cpu, 0.125f, z->T, z->V);
    p->g->cross_entropy(p->gd, b[2].gpu, b[0].gpu, b[1].gpu, 0.125f, z->T, z->V);
    pair_status(p, "cross_entropy");
    pair_check(p, "cross_entropy", "loss", &b[2], FP);
    pair_check(p, "cross_entropy", dims_text(z), &b[0], BF);
    reset(p, b, ARRAY_LEN(b));
}

static void test_adamw(struct pair *p, const struct dims *z)
{
    int64_t n = (int64_t)z->T * z->D + (z->T ? 1 : 0);
    struct adamw a = { 1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 0 };
    struct buf b[] = { buf_random(p, BUF_F32, n, 1), buf_random(p, BUF_F32, n, 0.125f),
                       buf_random(p, BUF_F32, n, 0.125f), buf_new(p, BUF_ELEM, n),
                       buf_random(p, BUF_F32, n, 1) };

    for (int64_t i = 0; i < n; i++) /* a second moment is positive */
        ((float *)b[2].cpu)[i] = fabsf(((float *)b[2].cpu)[i]);
    buf_send(p, &b[2]);
    for (a.step = 1; a.step <= 3; a.step++) {
        p->c->adamw(p->cd, b[0].cpu, b[1].cpu, b[2].cpu, b[3].cpu, b[4].cpu, 0.5f, &a,
                    n);
        p->g->adamw(p->gd, b[0].gpu, b[1].gpu, b[2].gpu, b[3].gpu, b[4].gpu, 0.5f, &a,
                    n);
    }
    pair_status(p, "adamw");
    pair_check(p, "adamw", "weights", &b[0], 1e-6);
    pair_check(p, "adamw", "first moment", &b[1], 1e-6);
    pair_check(p, "adamw", "second moment", &b[2], 1e-6);
    pair_check(p, "adamw", "BF16 weights", &b[3], BF);
    reset(p, b, ARRAY_LEN(b));
}

/* --- norms, dense products -------------------------------------------------------- */

static void test_rmsnorm(struct pair *p, const struct dims *z)
{
    int64_t n = (int64_t)z->T * z->D;
    struct buf b[] = { buf_random(p, BUF_ELEM, n, 2), buf_random(p, BUF_ELEM, z->D, 1),
                       buf_new(p, BUF_ELEM, n),       buf_new(p, BUF_F32, z->T),
                       buf_random(p, BUF_ELEM, n, 1), buf_random(p, BUF_ELEM, n, 1),
                       buf_new(p, BUF_F32, z->D) };

    p->c->rmsnorm_fwd(p->cd, b[2].cpu, b[3].cpu, b[0].cpu, b[1].cpu, 1e-6f, z->T, z->D);
    p->g->rmsnorm_fwd(p->gd, b[2].gpu, b[3].gpu, b[0].gpu, b[1].gpu, 1e-6f, z->T, z->D);
    p->c->rmsnorm_bwd(p->cd, b[5].cpu, b[6].cpu, b[4].cpu, b[0].cpu, b[3].cpu, b[1].cpu,
                      z->T, z->D);
    p->g->rmsnorm_bwd(p->gd, b[5].gpu, b[6].gpu, b[4].gpu, b[0].gpu, b[3].gpu, b[1].gpu,
                      z->T, z->D);
    pair_status(p, "rmsnorm");
    pair_check(p, "rmsnorm_fwd", dims_text(z), &b[2], BF);
    pair_check(p, "rmsnorm_fwd", "rstd", &b[3], FP);
    pair_check(p, "rmsnorm_bwd", "dx", &b[5], BF);
    pair_check(p, "rmsnorm_bwd", "dw", &b[6], FP);
    reset(p, b, ARRAY_LEN(b));
}

static void test_linear(struct pair *p, const struct dims *z)
{
    int T = z->T, N = z->V, K = z->D;
    int64_t x = (int64_t)T * K, y = (int64_t)T * N, w = (int64_t)N * K;
    struct buf b[] = {
        buf_random(p, BUF_ELEM, x, 1), buf_random(p, BUF_ELEM, w, 0.125f),
        buf_new(p, BUF_ELEM, y),       buf_random(p, BUF_ELEM, y, 1),
        buf_random(p, BUF_ELEM, x, 1), buf_random(p, BUF_F32, w, 1),
        buf_new(p, BUF_ELEM, x),       buf_new(p, BUF_F32, w),
        buf_new(p, BUF_ELEM, y)
    };

    p->c->linear_fwd(p->cd, b[2].cpu, b[0].cpu, b[1].cpu, NULL, T, N, K);
    p->g->linear_fwd(p->gd, b[2].gpu, b[0].gpu, b[1].gpu, NULL, T, N, K);
    p->c->linear_fwd(p->cd, b[8].cpu, b[0].cpu, b[1].cpu, b[3].cpu, T, N, K);
    p->g->linear_fwd(p->gd, b[8].gpu, b[0].gpu, b[1].gpu, b[3].gpu, T, N, K);
    p->c->linear_dgrad(p->cd, b[6].cpu, b[3].cpu, b[1].cpu, 0, T, N, K);
    p->g->linear_dgrad(p->gd, b[6].gpu, b[3].gpu, b[1].gpu, 0, T, N, K);
    p->c->linear_dgrad(p->cd, b[4].cpu, b[3].cpu, b[1].cpu, 1, T, N, K);
    p->g->linear_dgrad(p->gd, b[4].gpu, b[3].gpu, b[1].gpu, 1, T, N, K);
    p->c->linear_wgrad(p->cd, b[7].cpu, b[3].cpu, b[0].cpu, 0, T, N, K);
    p->g->linear_wgrad(p->gd, b[7].gpu, b[3].gpu, b[0].gpu, 0, T, N, K);
    p->c->linear_wgrad(p->cd, b[5].cpu, b[3].cpu, b[0].cpu, 1, T, N, K);
    p->g->linear_wgrad(p->gd, b[5].gpu, b[3].gpu, b[0].gpu, 1, T, N, K);
    pair_status(p, "linear");
    pair_check(p, "linear_fwd", dims_text(z), &b[2], BF);
    pair_check(p, "linear_fwd", "with add", &b[8], BF);
    pair_check(p, "linear_dgrad", "overwriting", &b[6], BF);
    pair_check(p, "linear_dgrad", "adding", &b[4], BF);
    pair_check(p, "linear_wgrad", "overwriting", &b[7], FP);
    pair_check(p, "linear_wgrad", "adding", &b[5], FP);
    reset(p, b, ARRAY_LEN(b));
}

/* --- attention -------------------------------------------------------------------- */

static void test_qkrope(struct pair *p, const struct dims *z)
{
    int T = z->T, H = z->H, KV = z->KV, hd = z->hd, heads = H + 2 * KV;
    int64_t q = (int64_t)T * H * hd, k = (int64_t)T * KV * hd;
    struct buf b[] = { buf_random(p, BUF_ELEM, (int64_t)T * heads * hd, 2),
                       buf_ints(p, T, 4096),
                       buf_random(p, BUF_ELEM, hd, 1),
                       buf_random(p, BUF_ELEM, hd, 1),
                       buf_new(p, BUF_ELEM, q),
                       buf_new(p, BUF_ELEM, k),
                       buf_random(p, BUF_ELEM, q, 1),
                       buf_random(p, BUF_ELEM, k, 1),
                       buf_new(p, BUF_ELEM, (int64_t)T * heads * hd),
                       buf_new(p, BUF_F32, hd),
                       buf_new(p, BUF_F32, hd) };

    p->c->qkrope_fwd(p->cd, b[4].cpu, b[5].cpu, b[0].cpu, b[1].cpu, b[2].cpu, b[3].cpu,
                     1e-6f, 1e6f, T, H, KV, hd);
    p->g->qkrope_fwd(p->gd, b[4].gpu, b[5].gpu, b[0].gpu, b[1].gpu, b[2].gpu, b[3].gpu,
                     1e-6f, 1e6f, T, H, KV, hd);
    p->c->qkrope_bwd(p->cd, b[8].cpu, b[9].cpu, b[10].cpu, b[6].cpu, b[7].cpu, b[0].cpu,
                     b[1].cpu, b[2].cpu, b[3].cpu, 1e-6f, 1e6f, T, H, KV, hd);
    p->g->qkrope_bwd(p->gd, b[8].gpu, b[9].gpu, b[10].gpu, b[6].gpu, b[7].gpu, b[0].gpu,
                     b[1].gpu, b[2].gpu, b[3].gpu, 1e-6f, 1e6f, T, H, KV, hd);
    pair_status(p, "qkrope");
    pair_check(p, "qkrope_fwd", "q", &b[4], BF);
    pair_check(p, "qkrope_fwd", "k", &b[5], BF);
    pair_report(
        p, "qkrope_bwd", "dqkv",
        buf_error_part(p, &b[8], (int64_t)heads * hd, 0, (int64_t)(H + KV) * hd), BF);
    pair_check(p, "qkrope_bwd", "dwq", &b[9], 1e-4);
    pair_check(p, "qkrope_bwd", "dwk", &b[10], 1e-4);
    reset(p, b, ARRAY_LEN(b));
}

/* Documents of 1 to 40 tokens. */
static struct buf documents(struct pair *p, int B, int S)
{
    struct buf b = buf_ints(p, (int64_t)B * S, 40);
    int32_t *at = b.cpu;

    for (int i = 0; i < B; i++)
        for (int s = 0, start = 0, left = 1; s < S; s++) {
            if (--left == 0) {
                start = s;
                left = at[i * S + s] + 1;
            }
            at[i * S + s] = start;
        }
    buf_send(p, &b);
    return b;
}

static void test_attention(struct pair *p, const struct attn_shape *shape, int docs)
{
    struct attn_shape s = *shape;
    int64_t T = (int64_t)s.B * s.S, heads = s.H + 2 * s.KV, wide = heads * s.hd;
    int64_t nq = T * s.H * s.hd, nk = T * s.KV * s.hd, v_at = (s.H + s.KV) * s.hd;
    struct buf b[] = { buf_random(p, BUF_ELEM, nq, 2),
                       buf_random(p, BUF_ELEM, nk, 2),
                       buf_random(p, BUF_ELEM, T * wide, 1),
                       buf_new(p, BUF_ELEM, nq),
                       buf_new(p, BUF_F32, T * s.H),
                       buf_random(p, BUF_ELEM, nq, 1),
                       buf_new(p, BUF_ELEM, nq),
                       buf_new(p, BUF_ELEM, nk),
                       buf_new(p, BUF_ELEM, T * wide),
                       documents(p, s.B, s.S) };
    const void *doc_c = docs ? b[9].cpu : NULL, *doc_g = docs ? b[9].gpu : NULL;

    s.q_stride = s.H * s.hd; /* v and dv inside qkv, as in the layer */
    s.k_stride = s.KV * s.hd;
    s.v_stride = wide;
    snprintf(label, sizeof(label), "B=%d S=%d H=%d/%d hd=%d%s", s.B, s.S, s.H, s.KV,
             s.hd, docs ? " documents" : "");
    p->c->attention_fwd(p->cd, b[3].cpu, b[4].cpu, b[0].cpu, b[1].cpu,
                        (float *)b[2].cpu + v_at, doc_c, s);
    p->g->attention_fwd(p->gd, b[3].gpu, b[4].gpu, b[0].gpu, b[1].gpu,
                        (uint16_t *)b[2].gpu + v_at, doc_g, s);
    pair_status(p, "attention_fwd");
    pair_check(p, "attention_fwd", label, &b[3], BF2);
    pair_check(p, "attention_fwd", "lse", &b[4], 1e-3);
    p->c->attention_bwd(p->cd, b[6].cpu, b[7].cpu, (float *)b[8].cpu + v_at, b[5].cpu,
                        b[0].cpu, b[1].cpu, (float *)b[2].cpu + v_at, b[3].cpu,
                        b[4].cpu, doc_c, s);
    p->g->attention_bwd(p->gd, b[6].gpu, b[7].gpu, (uint16_t *)b[8].gpu + v_at,
                        b[5].gpu, b[0].gpu, b[1].gpu, (uint16_t *)b[2].gpu + v_at,
                        b[3].gpu, b[4].gpu, doc_g, s);
    pair_status(p, "attention_bwd");
    pair_check(p, "attention_bwd", "dq", &b[6], 2e-2);
    pair_check(p, "attention_bwd", "dk", &b[7], 2e-2);
    pair_report(p, "attention_bwd", "dv",
                buf_error_part(p, &b[8], wide, v_at, (int64_t)s.KV * s.hd), BF2);
    reset(p, b, ARRAY_LEN(b));
}

/* --- router and experts ----------------------------------------------------------- */

enum { EXPERT, WEIGHT, COUNT, OFFSET, TOKEN, ROW, N_ROUTE };

static void route_new(struct pair *p, struct buf *b, const struct dims *z)
{
    int64_t R = (int64_t)z->T * z->K;

    b[EXPERT] = buf_new(p, BUF_I32, R);
    b[WEIGHT] = buf_new(p, BUF_F32, R);
    b[COUNT] = buf_new(p, BUF_I32, z->E);
    b[OFFSET] = buf_new(p, BUF_I32, z->E + 1);
    b[TOKEN] = buf_new(p, BUF_I32, R);
    b[ROW] = buf_new(p, BUF_I32, R);
}

static struct route route_of(const struct buf *b, int gpu)
{
    void *at[N_ROUTE];

    for (int i = 0; i < N_ROUTE; i++)
        at[i] = gpu ? b[i].gpu : b[i].cpu;
    return (struct route){ at[0], at[1], at[2], at[3], at[4], at[5] };
}

static void test_router(struct pair *p, const struct dims *z, int renormalise,
                        int biased)
{
    int T = z->T, E = z->E, D = z->D, K = z->K;
    int64_t x = (int64_t)T * D, w = (int64_t)E * D, l = (int64_t)T * E;
    struct buf b[] = { buf_random(p, BUF_ELEM, x, 1),
                       buf_random(p, BUF_ELEM, w, 0.0625f),
                       buf_new(p, BUF_F32, l),
                       buf_random(p, BUF_F32, l, 1),
                       buf_random(p, BUF_ELEM, x, 1),
                       buf_new(p, BUF_F32, w),
                       buf_random(p, BUF_F32, E, 0.125f),
                       buf_random(p, BUF_F32, (int64_t)T * K, 1),
                       buf_new(p, BUF_F32, l),
                       buf_random(p, BUF_F32, l, 1) };
    struct buf r[N_ROUTE];
    struct route rc, rg;

    for (int64_t i = 0; i < l; i++) /* FP32 gradients, not BF16-exact */
        ((float *)b[3].cpu)[i] *= 1.2345f;
    buf_send(p, &b[3]);
    route_new(p, r, z);
    rc = route_of(r, 0);
    rg = route_of(r, 1);
    p->c->router_fwd(p->cd, b[2].cpu, b[0].cpu, b[1].cpu, T, E, D);
    p->g->router_fwd(p->gd, b[2].gpu, b[0].gpu, b[1].gpu, T, E, D);
    p->c->router_bwd(p->cd, b[4].cpu, b[5].cpu, b[3].cpu, b[0].cpu, b[1].cpu, T, E, D);
    p->g->router_bwd(p->gd, b[4].gpu, b[5].gpu, b[3].gpu, b[0].gpu, b[1].gpu, T, E, D);
    p->c->route(p->cd, &rc, b[9].cpu, biased ? b[6].cpu : NULL, 0, renormalise, 1.5f, T,
                E, K);
    p->g->route(p->gd, &rg, b[9].gpu, biased ? b[6].gpu : NULL, 0, renormalise, 1.5f, T,
                E, K);
    p->c->route_bwd(p->cd, b[8].cpu, b[7].cpu, b[9].cpu, &rc, renormalise, 1.5f, T, E,
                    K);
    p->g->route_bwd(p->gd, b[8].gpu, b[7].gpu, b[9].gpu, &rg, renormalise, 1.5f, T, E,
                    K);
    pair_status(p, "router");
    pair_check(p, "router_fwd", dims_text(z), &b[2], FP);
    pair_check(p, "router_bwd", "dx", &b[4], BF);
    pair_check(p, "router_bwd", "dw", &b[5], 1e-4);
    pair_check(p, "route", "experts", &r[EXPERT], 0);
    pair_check(p, "route", "weights", &r[WEIGHT], FP);
    pair_check(p, "route", "counts", &r[COUNT], 0);
    pair_check(p, "route", "offsets", &r[OFFSET], 0);
    pair_check(p, "route", "tokens", &r[TOKEN], 0);
    pair_check(p, "route", "rows", &r[ROW], 0);
    pair_check(p, "route_bwd", renormalise ? "renormalised" : "plain", &b[8], 1e-4);
    reset(p, r, N_ROUTE);
    reset(p, b, ARRAY_LEN(b));
}

/* Rows as the CPU's router chose them, spread over other tokens. */
static void test_spread(struct pair *p, const struct dims *z)
{
    int T = z->T, E = z->E, K = z->K;
    struct buf b[] = { buf_random(p, BUF_F32, (int64_t)T * E, 3),
                       buf_new(p, BUF_I32, (int64_t)T * K) };
    struct buf r[N_ROUTE];
    struct route rc;

    route_new(p, r, z);
    rc = route_of(r, 0);
    p->c->route(p->cd, &rc, b[0].cpu, NULL, 0, 1, 1, T, E, K);
    buf_send(p, &r[OFFSET]);
    p->c->spread(p->cd, b[1].cpu, r[OFFSET].cpu, 1, T / 3, T, E, K);
    p->g->spread(p->gd, b[1].gpu, r[OFFSET].gpu, 1, T / 3, T, E, K);
    pair_status(p, "spread");
    pair_check(p, "spread", dims_text(z), &b[1], 0);
    if (T % 2) { /* coprime with T - 1 halves */
        p->c->spread(p->cd, b[1].cpu, r[OFFSET].cpu, 2 % T + (T == 1), 0, T, E, K);
        p->g->spread(p->gd, b[1].gpu, r[OFFSET].gpu, 2 % T + (T == 1), 0, T, E, K);
        pair_check(p, "spread", "mul 2", &b[1], 0);
    }
    reset(p, b, ARRAY_LEN(b));
    for (int i = 0; i < N_ROUTE; i++)
        buf_free(&r[i]);
}

/* The CPU's route of random logits, or K experts that get every token; both devices
 * work with it. */
static void fill_route(struct pair *p, struct buf *r, const struct dims *z, int crowded)
{
    struct buf l = buf_random(p, BUF_F32, (int64_t)z->T * z->E, 1);
    struct route rc = route_of(r, 0);

    for (int64_t i = 0; crowded && i < (int64_t)z->T * z->K; i++)
        rc.expert[i] = (int32_t)(z->E - 1 - i % z->K);
    p->c->route(p->cd, &rc, l.cpu, NULL, crowded, 1, 1, z->T, z->E, z->K);
    for (int i = 0; i < N_ROUTE; i++)
        buf_send(p, &r[i]);
    buf_free(&l);
}

static void test_experts(struct pair *p, const struct dims *z, int crowded)
{
    int T = z->T, D = z->D, E = z->E, K = z->K, F = z->F;
    int64_t x = (int64_t)T * D, h = (int64_t)T * K * 2 * F, w = (int64_t)E * D * F;
    struct buf b[] = { buf_random(p, BUF_ELEM, x, 1),
                       buf_random(p, BUF_ELEM, 2 * w, 0.0625f),
                       buf_random(p, BUF_ELEM, w, 0.0625f),
                       buf_random(p, BUF_ELEM, x, 1),
                       buf_new(p, BUF_ELEM, x),
                       buf_new(p, BUF_ELEM, h),
                       buf_random(p, BUF_ELEM, x, 1),
                       buf_new(p, BUF_ELEM, x),
                       buf_new(p, BUF_F32, (int64_t)T * K),
                       buf_new(p, BUF_F32, 2 * w),
                       buf_new(p, BUF_F32, w),
                       buf_new(p, BUF_ELEM, h) };
    struct buf r[N_ROUTE];
    struct route rc, rg;

    route_new(p, r, z);
    rc = route_of(r, 0);
    rg = route_of(r, 1);
    fill_route(p, r, z, crowded);
    p->c->experts_fwd(p->cd, b[4].cpu, b[5].cpu, b[0].cpu, b[3].cpu, b[1].cpu, b[2].cpu,
                      &rc, T, D, E, K, F);
    p->g->experts_fwd(p->gd, b[4].gpu, b[5].gpu, b[0].gpu, b[3].gpu, b[1].gpu, b[2].gpu,
                      &rg, T, D, E, K, F);
    p->c->experts_fwd(p->cd, NULL, b[11].cpu, b[0].cpu, NULL, b[1].cpu, b[2].cpu, &rc,
                      T, D, E, K, F);
    p->g->experts_fwd(p->gd, NULL, b[11].gpu, b[0].gpu, NULL, b[1].gpu, b[2].gpu, &rg,
                      T, D, E, K, F);
    pair_status(p, "experts_fwd");
    pair_check(p, "experts_fwd", crowded ? "crowded" : dims_text(z), &b[4], BF);
    pair_check(p, "experts_fwd", "h", &b[5], BF);
    pair_check(p, "experts_fwd", "h alone", &b[11], BF);
    p->c->experts_bwd(p->cd, b[7].cpu, b[8].cpu, b[9].cpu, b[10].cpu, b[6].cpu,
                      b[0].cpu, b[5].cpu, b[1].cpu, b[2].cpu, &rc, T, D, E, K, F);
    p->g->experts_bwd(p->gd, b[7].gpu, b[8].gpu, b[9].gpu, b[10].gpu, b[6].gpu,
                      b[0].gpu, b[5].gpu, b[1].gpu, b[2].gpu, &rg, T, D, E, K, F);
    pair_status(p, "experts_bwd");
    pair_check(p, "experts_bwd", crowded ? "dx, crowded" : "dx", &b[7], BF2);
    pair_check(p, "experts_bwd", "dweight", &b[8], BF2);
    pair_check(p, "experts_bwd", "dw13", &b[9], BF2);
    pair_check(p, "experts_bwd", "dw2", &b[10], BF2);
    reset(p, r, N_ROUTE);
    reset(p, b, ARRAY_LEN(b));
}

/* --- main ------------------------------------------------------------------------- */

static const struct attn_shape shapes[] = {
    { 1, 1, 4, 2, 64, 0, 0, 0 },    { 2, 7, 4, 2, 8, 0, 0, 0 },
    { 2, 130, 8, 2, 64, 0, 0, 0 },  { 1, 300, 4, 4, 32, 0, 0, 0 },
    { 2, 512, 8, 1, 128, 0, 0, 0 }, { 1, 1024, 32, 4, 128, 0, 0, 0 },
};

static int open_pair(struct pair *p, int gpu, struct err *err)
{
    size_t scratch = (size_t)2 << 30;
    void *s, *a;

    p->arena_bytes = (size_t)4 << 30;
    if (ops_find("cuda", &p->g, err) < 0 || p->g->open(&p->gd, gpu, 0, err) < 0)
        return -1;
    p->c = &ops_cpu;
    if (p->c->open(&p->cd, 0, 16, err) < 0 ||
        p->g->alloc(p->gd, p->arena_bytes, &a, err) < 0 ||
        p->g->alloc(p->gd, scratch, &s, err) < 0)
        return -1;
    p->arena = a;
    p->g->set_scratch(p->gd, s, scratch);
    p->c->set_scratch(p->cd, xcalloc(1, scratch), scratch);
    return 0;
}

/* --- groups: a process each, so that an error or a crash ends one group only ------ */

static void group_elementwise(struct pair *p, const struct dims *z)
{
    test_elementwise(p, z);
    test_swiglu(p, z);
    test_embed(p, z);
    test_loss(p, z);
    test_adamw(p, z);
}

static void group_router(struct pair *p, const struct dims *z)
{
    test_router(p, z, 1, 0);
    test_router(p, z, 0, 1);
    test_spread(p, z);
}

static void group_experts(struct pair *p, const struct dims *z)
{
    test_experts(p, z, 0);
    test_experts(p, z, 1);
}

static const struct {
    const char *name;
    void (*run)(struct pair *p, const struct dims *z); /* NULL: attention */
    int docs;
} groups[] = {
    { "elementwise", group_elementwise, 0 },
    { "rmsnorm", test_rmsnorm, 0 },
    { "linear", test_linear, 0 },
    { "qkrope", test_qkrope, 0 },
    { "router", group_router, 0 },
    { "experts", group_experts, 0 },
    { "attention", NULL, 0 },
    { "attention-documents", NULL, 1 },
};

static int run_group(struct pair *p, size_t g, int gpu)
{
    struct err err = ERR_INIT;

    alarm(150);
    if (open_pair(p, gpu, &err) < 0) {
        fprintf(stderr, "test_ops_gpu: %s\n", err_text(&err));
        return err.code;
    }
    printf("# %s: %s\n", groups[g].name, p->g->describe(p->gd));
    for (size_t i = 0; groups[g].run && i < ARRAY_LEN(all); i++)
        groups[g].run(p, &all[i]);
    for (size_t i = 0; !groups[g].run && i < ARRAY_LEN(shapes); i++)
        test_attention(p, &shapes[i], groups[g].docs);
    p->g->close(p->gd);
    p->c->close(p->cd);
    return 0;
}

int main(int argc, char **argv)
{
    struct pair *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int failures = 0, checks = 0;

    if (argc == 2 && strcmp(argv[1], "-l") == 0) {
        for (size_t g = 0; g < ARRAY_LEN(groups); g++)
            printf("%s\n", groups[g].name);
        return 0;
    }
    for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
        int status = 0;

        if (argc > 2 && strcmp(argv[2], groups[g].name) != 0)
            continue;
        memset(p, 0, sizeof(*p));
        p->seed = 20260930 + g;
        fflush(stdout);
        if (fork() == 0)
            exit(run_group(p, g, argc > 1 ? atoi(argv[1]) : 0));
        wait(&status);
        if (status != 0) {
            printf("not ok - %s ended with status %d\n", groups[g].name, status);
            p->failures++;
        }
        checks += p->checks;
        failures += p->failures;
    }
    printf("# %d checks, %d failed\n", checks, failures);
    return failures > 0;
}
