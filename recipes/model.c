#include "recipes/model.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

/* Attention matrices of one layer: QKV and the output projection. */
static int64_t attention_params(const struct model *m)
{
    return (model_qkv_dim(m) + (int64_t)m->heads * m->head_dim) * m->hidden;
}

/* Router and `experts` of the experts, three matrices each, and the shared one. */
static int64_t ffn_params(const struct model *m, int experts)
{
    int64_t router = (int64_t)m->experts * m->hidden;
    int64_t width = (int64_t)experts * m->expert_ffn + m->shared_ffn;

    return router + 3 * width * m->hidden;
}

/* Two of hidden, one each for q and k of head_dim; the last one of the model. */
static int64_t norm_params(const struct model *m)
{
    return (int64_t)m->layers * (2 * (int64_t)m->hidden + 2 * (int64_t)m->head_dim) +
           m->hidden;
}

static int64_t layer_params(const struct model *m, int experts)
{
    return m->layers * (attention_params(m) + ffn_params(m, experts));
}

static int64_t table_params(const struct model *m)
{
    return (int64_t)m->vocab * m->hidden;
}

int64_t model_params_total(const struct model *m)
{
    return layer_params(m, m->experts) + norm_params(m) +
           (m->tied ? 1 : 2) * table_params(m);
}

int64_t model_params_active(const struct model *m)
{
    return model_params_matmul(m, 1) + norm_params(m);
}

int64_t model_params_matmul(const struct model *m, int with_embedding)
{
    /* A tied table is one matrix: as the head it multiplies, and it is not
     * counted again as the embedding. */
    int tables = with_embedding && !m->tied ? 2 : 1;

    return layer_params(m, m->top_k) + tables * table_params(m);
}

double model_attention_flops(const struct model *m, int seq_len, int causal)
{
    double square = 12.0 * m->layers * m->heads * m->head_dim * seq_len;

    return causal ? square / 2 : square;
}

static const struct {
    const char *name;
    int with_embedding;
    int causal; /* half of the attention square */
} conventions[] = {
    [FLOPS_REFERENCE] = { "reference", 1, 0 },
    [FLOPS_TORCHTITAN] = { "torchtitan", 0, 0 },
    [FLOPS_CAUSAL] = { "causal", 0, 1 },
};

const char *flop_convention_name(enum flop_convention c)
{
    return conventions[c].name;
}

double model_flops_per_token(const struct model *m, int seq_len, enum flop_convention c)
{
    int64_t params =
        model_params_matmul(m, conventions[c].with_embedding) + norm_params(m);

    return 6.0 * (double)params +
           model_attention_flops(m, seq_len, conventions[c].causal);
}

/* Dense BF16 without sparsity.  NVIDIA data sheets of A100, H100, HGX B200 and
 * GB200 NVL72; PCIe and NVL cards as torchtitan's tools/utils.py lists them.
 * The first part that the name holds wins, so longer names stand first. */
static const struct {
    const char *part;
    double tflops;
} peaks[] = {
    { "GB200", 2500 },    { "GB300", 2500 },   { "B200", 2250 },    { "B300", 2250 },
    { "H100 PCIe", 756 }, { "H100 NVL", 835 }, { "H200 NVL", 835 }, { "H200", 989 },
    { "H100", 989 },      { "H800", 989 },     { "A100", 312 },     { "A800", 312 },
};

double model_peak_flops(const char *gpu_name)
{
    for (size_t i = 0; gpu_name && i < ARRAY_LEN(peaks); i++)
        if (strstr(gpu_name, peaks[i].part))
            return peaks[i].tflops * 1e12;
    return 0;
}

double model_mfu(double flops_per_token, double tokens_per_s_per_gpu, double peak)
{
    return peak > 0 ? 100.0 * flops_per_token * tokens_per_s_per_gpu / peak : NAN;
}

const char *model_mfu_note(double mfu)
{
    return mfu > 100 ? "above 100 %: not possible, the peak or the count is wrong" : "";
}
