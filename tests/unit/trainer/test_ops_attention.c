/* Rotation and attention on the CPU: against FP64 loops and finite differences. */
#include "grad_check.h"

static const struct ops *const ops = &ops_cpu;
static struct fixture fx;

/* --- norm and rotation of q and k ------------------------------------------------ */
struct rope_case {
    float *qkv, *wq, *wk, *q, *k, *cq, *ck;
    int32_t *pos;
    int T, H, KV, hd;
};

static double rope_loss(void *arg)
{
    struct rope_case *r = arg;

    ops->qkrope_fwd(fx.dev, r->q, r->k, r->qkv, r->pos, r->wq, r->wk, 1e-5f, 1e4f, r->T,
                    r->H, r->KV, r->hd);
    return dot(r->cq, r->q, (int64_t)r->T * r->H * r->hd) +
           dot(r->ck, r->k, (int64_t)r->T * r->KV * r->hd);
}

/* q and k of token t, head h (keys after queries), element j. */
static double rope_wants(const struct rope_case *r, int t, int h, int j)
{
    const float *x = r->qkv + ((int64_t)t * (r->H + 2 * r->KV) + h) * r->hd;
    const float *w = h < r->H ? r->wq : r->wk;
    int half = r->hd / 2, i = j % half;
    double angle = r->pos[t] * pow(1e4, -2.0 * i / r->hd);
    double rstd = 1 / sqrt(dot(x, x, r->hd) / r->hd + 1e-5);
    double x1 = (double)x[i] * rstd * (double)w[i];
    double x2 = (double)x[i + half] * rstd * (double)w[i + half];

    return j < half ? x1 * cos(angle) - x2 * sin(angle)
                    : x2 * cos(angle) + x1 * sin(angle);
}

static void check_rope_forward(const struct rope_case *r)
{
    for (int t = 0; t < r->T; t++)
        for (int h = 0; h < r->H + r->KV; h++)
            for (int j = 0; j < r->hd; j++) {
                const float *row = h < r->H
                                       ? r->q + ((int64_t)t * r->H + h) * r->hd
                                       : r->k + ((int64_t)t * r->KV + h - r->H) * r->hd;

                assert_near("rope", j, (double)row[j], rope_wants(r, t, h, j), 3e-6);
            }
}

static void rope(int T, int H, int KV, int hd, int first)
{
    int64_t q = (int64_t)T * H * hd, k = (int64_t)T * KV * hd, n = q + 2 * k;
    struct rope_case r = { random_floats(&fx, n, 1),
                           random_floats(&fx, hd, 1),
                           random_floats(&fx, hd, 1),
                           unset_floats(q),
                           unset_floats(k),
                           random_floats(&fx, q, 1),
                           random_floats(&fx, k, 1),
                           malloc((size_t)(T + 1) * sizeof(int32_t)),
                           T,
                           H,
                           KV,
                           hd };
    float *dqkv = random_floats(&fx, n, 1), *dwq = unset_floats(hd);
    float *dwk = unset_floats(hd), value = T ? dqkv[(H + KV) * hd] : 0;

    for (int t = 0; t < T; t++)
        r.pos[t] = first + t % 5;
    rope_loss(&r);
    check_rope_forward(&r);
    ops->qkrope_bwd(fx.dev, dqkv, dwq, dwk, r.cq, r.ck, r.qkv, r.pos, r.wq, r.wk, 1e-5f,
                    1e4f, T, H, KV, hd);
    assert_true(T == 0 || dqkv[(H + KV) * hd] == value); /* v is left alone */
    for (int t = 0; t < T; t++)                          /* the loss does not see v */
        memset(dqkv + ((int64_t)t * (H + 2 * KV) + H + KV) * hd, 0,
               (size_t)(KV * hd) * sizeof(float));
    check_grad("rope dqkv", r.qkv, dqkv, n, rope_loss, &r);
    check_grad("rope dwq", r.wq, dwq, hd, rope_loss, &r);
    check_grad("rope dwk", r.wk, dwk, hd, rope_loss, &r);
    free(r.qkv);
    free(r.wq);
    free(r.wk);
    free(r.q);
    free(r.k);
    free(r.cq);
    free(r.ck);
    free(r.pos);
    free(dqkv);
    free(dwq);
    free(dwk);
}

static void test_rope(void **state)
{
    (void)state;
    rope(0, 2, 1, 4, 0);
    rope(1, 1, 1, 2, 0);
    rope(7, 3, 1, 6, 0);
    rope(130, 2, 2, 8, 2);
    rope(3, 2, 1, 10, 300); /* positions beyond the number of tokens */
}

/* --- attention --------------------------------------------------------------------- */
struct attn_case {
    struct attn_shape s;
    float *q, *k, *qkv, *out, *lse, *c; /* v lies in qkv, at its end */
    int32_t *doc;
    int64_t nq, nk, nqkv, nlse;
};

static float *attn_v(const struct attn_case *a, float *qkv)
{
    return qkv + (int64_t)(a->s.H + a->s.KV) * a->s.hd;
}

static double attn_loss(void *arg)
{
    struct attn_case *a = arg;

    ops->attention_fwd(fx.dev, a->out, a->lse, a->q, a->k, attn_v(a, a->qkv), a->doc,
                       a->s);
    return dot(a->c, a->out, a->nq);
}

static struct attn_case attn_new(int B, int S, int H, int KV, int hd, int documents)
{
    int T = B * S;
    struct attn_case a = { .s = { B, S, H, KV, hd, (int64_t)H * hd, (int64_t)KV * hd,
                                  (int64_t)(H + 2 * KV) * hd },
                           .nq = (int64_t)T * H * hd,
                           .nk = (int64_t)T * KV * hd,
                           .nqkv = (int64_t)T * (H + 2 * KV) * hd,
                           .nlse = (int64_t)T * H };

    a.q = random_floats(&fx, a.nq, 2);
    a.k = random_floats(&fx, a.nk, 2);
    a.qkv = random_floats(&fx, a.nqkv, 1);
    a.c = random_floats(&fx, a.nq, 1);
    a.out = unset_floats(a.nq);
    a.lse = unset_floats(a.nlse);
    if (documents) {
        a.doc = malloc((size_t)(T + 1) * sizeof(int32_t));
        for (int t = 0; t < T; t++) /* boundaries fall anywhere in a block */
            a.doc[t] = t % S < S / 3 ? 0 : t % S < S / 3 + 2 ? S / 3 : S / 3 + 2;
    }
    return a;
}

static void attn_free(struct attn_case *a)
{
    free(a->q);
    free(a->k);
    free(a->qkv);
    free(a->c);
    free(a->out);
    free(a->lse);
    free(a->doc);
}

static double score(const struct attn_case *a, int64_t first, int h, int i, int j)
{
    int kv = h / (a->s.H / a->s.KV);

    return dot(a->q + (first + i) * a->s.q_stride + (int64_t)h * a->s.hd,
               a->k + (first + j) * a->s.k_stride + (int64_t)kv * a->s.hd, a->s.hd) /
           sqrt(a->s.hd);
}

static void check_attn_row(struct attn_case *a, int b, int h, int i)
{
    int64_t first = (int64_t)b * a->s.S;
    int kv = h / (a->s.H / a->s.KV), hd = a->s.hd;
    double sum = 0, out[64] = { 0 };

    for (int j = a->doc ? a->doc[first + i] : 0; j <= i; j++) {
        double p = exp(score(a, first, h, i, j));
        const float *v = attn_v(a, a->qkv) + (first + j) * a->s.v_stride + kv * hd;

        sum += p;
        for (int e = 0; e < hd; e++)
            out[e] += p * (double)v[e];
    }
    assert_near("lse", i, (double)a->lse[((int64_t)b * a->s.H + h) * a->s.S + i],
                log(sum), 3e-6);
    for (int e = 0; e < hd; e++)
        assert_near("attention", i, (double)a->out[((first + i) * a->s.H + h) * hd + e],
                    out[e] / sum, 3e-6);
}

static void attention(int B, int S, int H, int KV, int hd, int documents)
{
    struct attn_case a = attn_new(B, S, H, KV, hd, documents);
    float *dq = unset_floats(a.nq), *dk = unset_floats(a.nk);
    float *dqkv = random_floats(&fx, a.nqkv, 1), head = a.nqkv ? dqkv[0] : 0;

    attn_loss(&a);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int i = 0; i < S; i++)
                check_attn_row(&a, b, h, i);
    ops->attention_bwd(fx.dev, dq, dk, attn_v(&a, dqkv), a.c, a.q, a.k,
                       attn_v(&a, a.qkv), a.out, a.lse, a.doc, a.s);
    assert_true(a.nqkv == 0 || dqkv[0] == head); /* only the v part is written */
    for (int64_t i = 0; i < a.nqkv; i++)
        if (i % a.s.v_stride < (H + KV) * hd)
            dqkv[i] = 0;
    check_grad("attention dq", a.q, dq, a.nq, attn_loss, &a);
    check_grad("attention dk", a.k, dk, a.nk, attn_loss, &a);
    check_grad("attention dv", a.qkv, dqkv, a.nqkv, attn_loss, &a);
    attn_free(&a);
    free(dq);
    free(dk);
    free(dqkv);
}

static void test_attention(void **state)
{
    (void)state;
    attention(0, 4, 2, 1, 4, 0);
    attention(1, 1, 1, 1, 2, 0);
    attention(2, 7, 4, 2, 6, 0);
    attention(1, 131, 2, 1, 4, 0); /* three blocks, the last of three rows */
    attention(2, 64, 3, 3, 8, 0);
}

static void test_document_mask(void **state)
{
    (void)state;
    attention(2, 9, 2, 1, 4, 1);
    attention(1, 140, 2, 1, 6, 1);
}

/* Documents do not see each other: changing the first leaves the second as it was. */
static void test_documents_are_apart(void **state)
{
    struct attn_case a = attn_new(1, 90, 2, 1, 4, 1);
    int64_t second = (90 / 3 + 2) * a.s.q_stride;
    float *before = malloc((size_t)a.nq * sizeof(float));

    (void)state;
    attn_loss(&a);
    memcpy(before, a.out, (size_t)a.nq * sizeof(float));
    for (int64_t i = 0; i < 30 * a.s.k_stride; i++)
        a.k[i] += 1;
    for (int64_t i = 0; i < 30 * a.s.v_stride; i++)
        a.qkv[i] += 1;
    attn_loss(&a);
    assert_true(memcmp(before + second, a.out + second,
                       (size_t)(a.nq - second) * sizeof(float)) == 0);
    assert_true(before[0] != a.out[0]);
    attn_free(&a);
    free(before);
}

static int open_fixture(void **state)
{
    (void)state;
    fixture_open(&fx, 2);
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    fixture_close(&fx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_document_mask),
        cmocka_unit_test(test_documents_are_apart),
    };

    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
