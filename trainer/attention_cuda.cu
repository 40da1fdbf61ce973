/* Attention: cuDNN where it can, our own kernels for the rest. */
#include "trainer/attention_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "trainer/cuda_dev.h"

/* Absent from a module built without cuDNN. */
#pragma weak attention_cudnn_open
#pragma weak attention_cudnn_close
#pragma weak attention_cudnn_fits
#pragma weak attention_cudnn_fwd
#pragma weak attention_cudnn_bwd

struct attention {
    struct attention_cudnn *cudnn; /* NULL: not here, or not wanted */
    char text[160];
};

extern "C" {

/* MUSTER_ATTENTION=mma asks for our own kernels. */
int attention_open(struct attention **out, int deterministic, struct err *err)
{
    const char *want = getenv("MUSTER_ATTENTION");
    struct attention *a = (struct attention *)xcalloc(1, sizeof(*a));
    struct err e = ERR_INIT;

    (void)err;
    *out = a;
    snprintf(a->text, sizeof(a->text), "mma.sync");
    if (want && strcmp(want, "mma") == 0)
        return 0;
    if (!attention_cudnn_open)
        snprintf(a->text, sizeof(a->text), "mma.sync (built without cuDNN)");
    else if (attention_cudnn_open(&a->cudnn, &e) == 0)
        snprintf(a->text, sizeof(a->text), "%s", deterministic ? "cuDNN forward, mma.sync backward" : "cuDNN");
    else
        snprintf(a->text, sizeof(a->text), "mma.sync (%s)", err_text(&e));
    err_release(&e);
    return 0;
}

void attention_close(struct attention *a)
{
    if (!a)
        return;
    if (a->cudnn)
        attention_cudnn_close(a->cudnn);
    free(a);
}

const char *attention_describe(const struct attention *a)
{
    return a->text;
}

/* Whom the call goes to: 1 cuDNN, 0 our own, -1 nobody (the device says why).
 * cuDNN 9.19 offered no backward for Hopper that repeats bit for bit within the
 * workspace we give it. */
static int attention_choose(struct dev *d, const struct attention_call *c, int backward)
{
    const struct attn_shape *s = &c->s;
    int repeats = !backward || !d->deterministic;

    if (d->attention->cudnn && repeats && !c->doc_start && attention_cudnn_fits(s))
        return 1;
    if (attention_mma_fits(s))
        return 0;
    dev_fail(d, ERR_USAGE,
             "attention: a head dimension of %d; CUDA takes multiples of 8 up to 128",
             s->hd);
    return -1;
}

void cuda_attention_fwd(struct dev *d, void *out, float *lse, const void *q,
                        const void *k, const void *v, const int32_t *doc_start,
                        struct attn_shape s)
{
    struct attention_call c = {};
    int who;

    c.s = s;
    c.q = q;
    c.k = k;
    c.v = v;
    c.out = out;
    c.lse = lse;
    c.doc_start = doc_start;
    if (!dev_ok(d) || s.B == 0 || s.S == 0)
        return;
    who = attention_choose(d, &c, 0);
    if (who > 0)
        attention_cudnn_fwd(d->attention->cudnn, d, &c);
    else if (who == 0)
        attention_mma_fwd(d, &c);
}

void cuda_attention_bwd(struct dev *d, void *dq, void *dk, void *dv, const void *dout,
                        const void *q, const void *k, const void *v, const void *out,
                        const float *lse, const int32_t *doc_start, struct attn_shape s)
{
    struct attention_call c = { s,        q,
                                k,        v,
                                dout,     const_cast<void *>(out),
                                dq,       dk,
                                dv,       const_cast<float *>(lse),
                                doc_start };
    int who;

    if (!dev_ok(d) || s.B == 0 || s.S == 0)
        return;
    who = attention_choose(d, &c, 1);
    if (who > 0)
        attention_cudnn_bwd(d->attention->cudnn, d, &c);
    else if (who == 0)
        attention_mma_bwd(d, &c);
}

} /* extern "C" */
