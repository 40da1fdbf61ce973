/* golden_file.h - read and write golden values: weights, a batch, loss, gradients.
 *
 * tests/golden/make_golden.py describes the files.  Tensors are Hugging Face's; where
 * ours hold several of them fused, the file may also have ours, by our names. */
#ifndef UNIT_GOLDEN_FILE_H
#define UNIT_GOLDEN_FILE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "trainer/layers.h"
#include "trainer/safetensors.h"

/* Which of Hugging Face's tensors make up ours; others have the same name. */
static const struct {
    const char *ours, *part[4];
} golden_fused[] = {
    { "self_attn.qkv_proj.weight",
      { "self_attn.q_proj.weight", "self_attn.k_proj.weight",
        "self_attn.v_proj.weight" } },
    { "mlp.experts.w13", { "mlp.experts.gate_up_proj" } },
    { "mlp.experts.w2", { "mlp.experts.down_proj" } },
};

static inline const struct st_tensor *golden_find(struct st_file *f, const char *name)
{
    const struct st_tensor *t = st_find(f, name);

    if (!t) {
        fprintf(stderr, "no tensor %s\n", name);
        abort();
    }
    return t;
}

/* A whole tensor of 4-byte elements; the caller's to free. */
static inline void *golden_read(struct st_file *f, const char *name, int64_t *count)
{
    const struct st_tensor *t = golden_find(f, name);
    struct err err = ERR_INIT;
    void *p = xcalloc((size_t)(t->end - t->begin) + 1, 1);

    *count = (t->end - t->begin) / 4;
    if (st_read(f, t, 0, p, t->end - t->begin, &err)) {
        fprintf(stderr, "%s\n", err_text(&err));
        abort();
    }
    return p;
}

/* kind.prefix.name: "weight.model.layers.0.mlp.gate.weight" */
static inline void golden_name(char *out, size_t size, const char *kind, int unit,
                               enum unit_kind u, const char *name)
{
    char prefix[64];

    snprintf(prefix, sizeof(prefix), "model.layers.%d.", unit - 1);
    snprintf(out, size, "%s.%s%s", kind,
             u == UNIT_LAYER                       ? prefix
             : strcmp(name, "lm_head.weight") == 0 ? ""
                                                   : "model.",
             name);
}

/* `at`: where the tensor called `name` in the file lies in our buffer. */
typedef void golden_fn(void *arg, struct st_file *f, const char *name, float *at);

/* Every tensor of the file behind tensor t of a unit, with its place in `base`. */
static inline void golden_visit(struct st_file *f, const char *kind, int unit,
                                const struct unit_layout *l,
                                const struct unit_tensor *t, float *base, golden_fn *fn,
                                void *arg)
{
    const char *same[] = { t->name, NULL }, *const *part = same;
    float *at = base + t->offset;
    char name[128];

    for (size_t i = 0; i < ARRAY_LEN(golden_fused); i++) {
        golden_name(name, sizeof(name), kind, unit, l->kind, golden_fused[i].part[0]);
        if (strcmp(golden_fused[i].ours, t->name) == 0 && st_find(f, name))
            part = golden_fused[i].part;
    }
    for (; *part; part++) {
        const struct st_tensor *st;

        golden_name(name, sizeof(name), kind, unit, l->kind, *part);
        st = golden_find(f, name);
        fn(arg, f, name, at);
        at += (st->end - st->begin) / 4;
    }
    if (at - base != t->offset + t->count) {
        fprintf(stderr, "%s: another shape than the model's\n", name);
        abort();
    }
}

static inline int golden_int(struct st_file *f, const char *key)
{
    const char *text = st_meta(f, key);

    return text ? (int)strtol(text, NULL, 10) : 0;
}

static const struct golden_key {
    const char *key;
    size_t offset;
} golden_keys[] = {
    { "num_hidden_layers", offsetof(struct model, layers) },
    { "hidden_size", offsetof(struct model, hidden) },
    { "num_attention_heads", offsetof(struct model, heads) },
    { "num_key_value_heads", offsetof(struct model, kv_heads) },
    { "head_dim", offsetof(struct model, head_dim) },
    { "num_experts", offsetof(struct model, experts) },
    { "num_experts_per_tok", offsetof(struct model, top_k) },
    { "moe_intermediate_size", offsetof(struct model, expert_ffn) },
    { "vocab_size", offsetof(struct model, vocab) },
    { "tied", offsetof(struct model, tied) },
};

static inline void golden_model(struct st_file *f, struct model *m)
{
    *m = (struct model){ .renormalise = 1,
                         .rope_theta = 1e6,
                         .norm_eps = 1e-6,
                         .route_scale = 1,
                         .init_std = 0.02 };
    for (size_t i = 0; i < ARRAY_LEN(golden_keys); i++)
        *(int *)((char *)m + golden_keys[i].offset) = golden_int(f, golden_keys[i].key);
}

static inline struct js *golden_meta(const struct model *m, int B, int S)
{
    struct js *o = js_object();
    char text[32];

    for (size_t i = 0; i < ARRAY_LEN(golden_keys); i++) {
        snprintf(text, sizeof(text), "%d",
                 *(const int *)((const char *)m + golden_keys[i].offset));
        js_put_str(o, golden_keys[i].key, text);
    }
    snprintf(text, sizeof(text), "%d", B);
    js_put_str(o, "batch", text);
    snprintf(text, sizeof(text), "%d", S);
    js_put_str(o, "seq", text);
    js_put_str(o, "boundary", "0");
    return o;
}

#endif
