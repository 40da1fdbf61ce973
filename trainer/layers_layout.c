/* Where each tensor lies in its unit's flat buffer. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trainer/layers_internal.h"

enum { ALIGN = 128 };

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Appends a tensor of `dims` of the three sizes. */
static void add(struct unit_layout *l, const char *name, double std, int dims,
                const int64_t shape[3])
{
    struct unit_tensor *t = &l->tensor[l->n++];

    snprintf(t->name, sizeof(t->name), "%s", name);
    t->dims = dims;
    t->count = 1;
    for (int i = 0; i < dims; i++) {
        t->shape[i] = shape[i];
        t->count *= shape[i];
    }
    t->offset = l->count;
    t->decay = 1;
    t->init_std = std;
    l->count = round_up(l->count + t->count, ALIGN);
}

#define ADD1(l, name, std, a)       add(l, name, std, 1, (const int64_t[3]){ a })
#define ADD2(l, name, std, a, b)    add(l, name, std, 2, (const int64_t[3]){ a, b })
#define ADD3(l, name, std, a, b, c) add(l, name, std, 3, (const int64_t[3]){ a, b, c })

static void layer_layout(const struct model *m, struct unit_layout *l)
{
    double std = m->init_std, out = m->init_std / sqrt(2.0 * m->layers);
    int64_t D = m->hidden, hd = m->head_dim, E = m->experts, F = m->expert_ffn;

    ADD1(l, "input_layernorm.weight", 0, D);
    ADD3(l, "self_attn.qkv_proj.weight", std, m->heads + 2 * m->kv_heads, hd, D);
    ADD1(l, "self_attn.q_norm.weight", 0, hd);
    ADD1(l, "self_attn.k_norm.weight", 0, hd);
    ADD2(l, "self_attn.o_proj.weight", out, D, m->heads * hd);
    ADD1(l, "post_attention_layernorm.weight", 0, D);
    ADD2(l, "mlp.gate.weight", std, E, D);
    ADD3(l, "mlp.experts.w13", std, E, 2 * F, D);
    ADD3(l, "mlp.experts.w2", out, E, D, F);
    if (m->shared_ffn > 0) {
        ADD2(l, "mlp.shared_expert.w13", std, 2 * (int64_t)m->shared_ffn, D);
        ADD2(l, "mlp.shared_expert.w2", out, D, m->shared_ffn);
    }
}

void unit_layout(const struct model *m, enum unit_kind kind, int shard,
                 struct unit_layout *out)
{
    memset(out, 0, sizeof(*out));
    out->kind = kind;
    switch (kind) {
    case UNIT_EMBED:
        ADD2(out, "embed_tokens.weight", m->init_std, m->vocab, m->hidden);
        break;
    case UNIT_LAYER:
        layer_layout(m, out);
        break;
    case UNIT_HEAD:
        ADD1(out, "norm.weight", 0, m->hidden);
        if (!m->tied)
            ADD2(out, "lm_head.weight", m->init_std, m->vocab, m->hidden);
        break;
    }
    out->padded = round_up(out->count, (int64_t)ALIGN * shard);
}

const struct unit_tensor *unit_find(const struct unit_layout *l, const char *name)
{
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->tensor[i].name, name) == 0)
            return &l->tensor[i];
    return NULL;
}
