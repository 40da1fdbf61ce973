#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "recipes/model.h"

/* Shape and routing that all presets share: Qwen3's, with the balancing rate
 * of DeepSeek-V3 (aux-loss-free) since muster trains from the start. */
#define QWEN3_FAMILY                                                         \
    .renormalise = 1, .rope_theta = 1e6, .norm_eps = 1e-6, .route_scale = 1, \
    .bias_update_rate = 1e-3, .init_std = 0.02

static const struct {
    const char *name;
    struct model model;
} presets[] = {
    /* Qwen/Qwen3-30B-A3B config.json: 30,532,122,624 parameters */
    { "qwen3-30b-a3b",
      { .layers = 48,
        .hidden = 2048,
        .heads = 32,
        .kv_heads = 4,
        .head_dim = 128,
        .experts = 128,
        .top_k = 8,
        .expert_ffn = 768,
        .vocab = 151936,
        QWEN3_FAMILY } },
    /* 64.6M: benchmarks on a CPU */
    { "small-50m",
      { .layers = 8,
        .hidden = 512,
        .heads = 8,
        .kv_heads = 4,
        .head_dim = 64,
        .experts = 16,
        .top_k = 4,
        .expert_ffn = 256,
        .vocab = 8192,
        QWEN3_FAMILY } },
    /* Bytes and an end-of-document make 257; 264 is a multiple of 8. */
    { "demo",
      { .layers = 4,
        .hidden = 128,
        .heads = 4,
        .kv_heads = 2,
        .head_dim = 32,
        .experts = 8,
        .top_k = 2,
        .expert_ffn = 256,
        .vocab = 264,
        QWEN3_FAMILY } },
    { "tiny",
      { .layers = 2,
        .hidden = 64,
        .heads = 4,
        .kv_heads = 2,
        .head_dim = 16,
        .experts = 8,
        .top_k = 2,
        .expert_ffn = 32,
        .vocab = 264,
        QWEN3_FAMILY } },
};

enum { N_PRESETS = ARRAY_LEN(presets) };

const char *const *model_preset_names(int *n)
{
    static const char *names[N_PRESETS + 1];

    for (int i = 0; i < N_PRESETS; i++)
        names[i] = presets[i].name;
    *n = N_PRESETS;
    return names;
}

int model_preset(const char *name, struct model *out, struct err *err)
{
    struct str list = STR_INIT;
    const char *near;
    int n;

    for (int i = 0; i < N_PRESETS; i++) {
        if (str_eq(name, presets[i].name)) {
            *out = presets[i].model;
            str_release(&list);
            return 0;
        }
        str_addf(&list, "%s%s", i ? ", " : "", presets[i].name);
    }
    near = str_nearest(name, model_preset_names(&n), N_PRESETS);
    err_set(err, ERR_USAGE, "no preset '%s'%s%s%s; there are: %s", name,
            near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "",
            list.text);
    str_release(&list);
    return -1;
}
