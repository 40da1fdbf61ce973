/* gpu_grads - gradients of a device against golden ones, the CPU's experts replayed.
 *
 *   gpu_grads GOLDEN DEVICE OUT CHOICES   run GOLDEN's batch on DEVICE (cpu, cuda)
 *   gpu_grads -m PRESET LAYERS BATCH SEQ GOLDEN   make a GOLDEN on the CPU, in FP32
 *
 * OUT gets "loss OURS GOLDEN", then "NAME |a-b|/|b|" of each gradient in GOLDEN.  CHOICES
 * (safetensors: choice.N [T,K], for gpu_torch_grads.py) are the experts that the CPU
 * chose with GOLDEN's weights, and what DEVICE used.  Gradients are sums over the counted
 * tokens, divided at the end, as the trainer does it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/golden_file.h"
#include "trainer/model_run.h"
#include "trainer/ops.h"

static void check(int rc, const struct err *err)
{
    if (!rc)
        return;
    fprintf(stderr, "gpu_grads: %s\n", err_text(err));
    exit((int)err->code);
}

/* --- a model on a device ------------------------------------------------------------ */

static void load_part(void *arg, struct st_file *f, const char *name, float *at)
{
    int64_t n;
    float *p = golden_read(f, name, &n);

    (void)arg;
    memcpy(at, p, (size_t)n * sizeof(*at));
    free(p);
}

static void send_unit(struct model_run *r, int u, const float *host)
{
    size_t bytes = (size_t)r->layout[u].padded * sizeof(float);
    void *staged = run_alloc(r, bytes);

    r->c.ops->upload(r->c.dev, staged, host, bytes);
    r->c.ops->from_f32(r->c.dev, r->param[u], staged, r->layout[u].padded);
}

static void load_weights(struct model_run *r, struct st_file *f)
{
    for (int u = 0; u < r->units; u++) {
        float *host = xcalloc((size_t)r->layout[u].padded, sizeof(*host));

        for (int i = 0; i < r->layout[u].n; i++)
            golden_visit(f, "weight", u, &r->layout[u], &r->layout[u].tensor[i], host,
                         load_part, NULL);
        send_unit(r, u, host);
        free(host);
    }
}

static int load_batch(struct model_run *r, struct st_file *f)
{
    int64_t n;
    int32_t *tokens = golden_read(f, "tokens", &n);
    int32_t *targets = golden_read(f, "targets", &n);
    int counted = 0;

    r->c.ops->upload(r->c.dev, r->tokens, tokens, (size_t)n * 4);
    r->c.ops->upload(r->c.dev, r->targets, targets, (size_t)n * 4);
    for (int64_t t = 0; t < n; t++)
        counted += targets[t] >= 0;
    free(tokens);
    free(targets);
    return counted;
}

/* Opens, loads and returns the counted tokens. */
static int open_run(struct model_run *r, const struct ops *ops, const struct model *m,
                    struct st_file *f)
{
    int B = golden_int(f, "batch"), S = golden_int(f, "seq");

    model_run_open_on(r, ops, m, AC_NONE, B, S, B * S, 2);
    load_weights(r, f);
    return load_batch(r, f);
}

/* --- the CPU's choice ---------------------------------------------------------------- */
static void save_choices(const char *path, struct model_run *cpu)
{
    int layers = cpu->m.layers, T = cpu->b.T, K = cpu->m.top_k;
    struct st_tensor *t = xcalloc((size_t)layers, sizeof(*t));
    struct err err = ERR_INIT;
    struct st_writer *w;

    for (int i = 0; i < layers; i++)
        t[i] = (struct st_tensor){ .name = xasprintf("choice.%d", i),
                                   .type = ST_I32,
                                   .dims = 2,
                                   .shape = { T, K } };
    check(st_create(path, t, layers, NULL, &w, &err), &err);
    for (int i = 0; i < layers; i++)
        check(
            st_write(w, i, 0, cpu->saved[i + 1].route.expert, (int64_t)T * K * 4, &err),
            &err);
    check(st_commit(w, &err), &err);
    for (int i = 0; i < layers; i++)
        free(t[i].name);
    free(t);
}

static void force_choices(struct model_run *r, const struct model_run *cpu)
{
    size_t bytes = (size_t)r->b.T * (size_t)r->m.top_k * sizeof(int32_t);

    for (int u = 1; u <= r->m.layers; u++) {
        void *at = run_alloc(r, bytes);

        r->c.ops->upload(r->c.dev, at, cpu->saved[u].route.expert, bytes);
        r->forced[u] = at;
    }
}

/* --- comparing ------------------------------------------------------------------------ */
struct comparing {
    FILE *out;
    double scale;
};

static void compare(void *arg, struct st_file *f, const char *name, float *at)
{
    const struct comparing *c = arg;
    double off = 0, all = 0;
    int64_t n;
    float *want = golden_read(f, name, &n);

    for (int64_t i = 0; i < n; i++) {
        double d = (double)at[i] * c->scale - (double)want[i];

        off += d * d;
        all += (double)want[i] * (double)want[i];
    }
    fprintf(c->out, "%s %.6e\n", name + strlen("grad."), sqrt(off / all));
    free(want);
}

static void compare_all(struct model_run *r, struct st_file *f, FILE *out, int counted)
{
    struct comparing c = { out, 1.0 / counted };

    for (int u = 0; u < r->units; u++) {
        size_t bytes = (size_t)r->layout[u].padded * sizeof(float);
        float *host = xcalloc(bytes, 1);

        r->c.ops->download(r->c.dev, host, r->grad[u], bytes);
        for (int i = 0; i < r->layout[u].n; i++)
            golden_visit(f, "grad", u, &r->layout[u], &r->layout[u].tensor[i], host,
                         compare, &c);
        free(host);
    }
}

static int run(const char *golden, const char *device, const char *out,
               const char *choices)
{
    struct model_run cpu, r;
    struct err err = ERR_INIT;
    const struct ops *ops;
    FILE *fp = fopen(out, "w");
    struct st_file *f;
    struct model m;
    float *want;
    int64_t n;
    int counted;

    if (!fp) {
        perror(out);
        return ERR_SYSTEM;
    }
    check(ops_find(device, &ops, &err), &err);
    check(st_open(golden, &f, &err), &err);
    golden_model(f, &m);
    open_run(&cpu, &ops_cpu, &m, f);
    model_run_step(&cpu, 1);
    save_choices(choices, &cpu);
    counted = open_run(&r, ops, &m, f);
    force_choices(&r, &cpu);
    model_run_step(&r, 1);
    check(r.c.ops->sync(r.c.dev, &err), &err);
    want = golden_read(f, "loss", &n);
    fprintf(fp, "loss %.7f %.7f\n", (double)r.loss_sum / counted, (double)want[0]);
    compare_all(&r, f, fp, counted);
    if (fclose(fp) != 0)
        return ERR_SYSTEM;
    printf("%s: %s\n", device, r.c.ops->describe(r.c.dev));
    return 0;
}

/* --- a golden of our own -------------------------------------------------------------- */
enum { MAX_TENSORS = 2 * RUN_MAX_UNITS * 11 + 3 };

struct making {
    struct st_tensor t[MAX_TENSORS];
    const void *from[MAX_TENSORS];
    int n;
};

static void add(struct making *k, char *name, enum st_type type, int dims,
                const int64_t *shape, const void *from)
{
    k->t[k->n] = (struct st_tensor){ .name = name, .type = type, .dims = dims };
    memcpy(k->t[k->n].shape, shape, (size_t)dims * sizeof(*shape));
    k->from[k->n++] = from;
}

static void add_unit(struct making *k, const struct model_run *r, int u)
{
    static const char *const kinds[] = { "weight", "grad" };

    for (int i = 0; i < r->layout[u].n; i++)
        for (int g = 0; g < 2; g++) {
            const struct unit_tensor *t = &r->layout[u].tensor[i];
            char name[128];

            golden_name(name, sizeof(name), kinds[g], u, r->layout[u].kind, t->name);
            add(k, xstrdup(name), ST_F32, t->dims, t->shape,
                (g ? r->grad[u] : r->param[u]) + t->offset);
        }
}

static int make(const char *preset, int layers, int B, int S, const char *path)
{
    static struct making k;
    struct err err = ERR_INIT;
    struct model_run r;
    struct st_writer *w;
    struct model m;
    struct js *meta;
    float loss;

    check(model_preset(preset, &m, &err), &err);
    m.layers = layers;
    model_run_open(&r, &m, AC_NONE, B, S, 512, 2);
    model_run_fill(&r, 20260930, 0.03f);
    loss = model_run_step(&r, 1) / (float)r.b.T;
    for (int u = 0; u < r.units; u++)
        for (int64_t i = 0; i < r.layout[u].padded; i++)
            r.grad[u][i] /= (float)r.b.T;
    add(&k, xstrdup("tokens"), ST_I32, 2, (int64_t[]){ B, S }, r.tokens);
    add(&k, xstrdup("targets"), ST_I32, 2, (int64_t[]){ B, S }, r.targets);
    add(&k, xstrdup("loss"), ST_F32, 1, (int64_t[]){ 1 }, &loss);
    for (int u = 0; u < r.units; u++)
        add_unit(&k, &r, u);
    meta = golden_meta(&m, B, S);
    check(st_create(path, k.t, k.n, meta, &w, &err), &err);
    for (int i = 0; i < k.n; i++)
        check(st_write(w, i, 0, k.from[i],
                       st_shape_bytes(ST_F32, k.t[i].dims, k.t[i].shape), &err),
              &err);
    check(st_commit(w, &err), &err);
    js_free(meta);
    printf("%s: %d layers of %s, %d tokens, loss %.6f\n", path, layers, preset, r.b.T,
           (double)loss);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "-m") == 0)
        return make(argv[2], (int)strtol(argv[3], NULL, 10),
                    (int)strtol(argv[4], NULL, 10), (int)strtol(argv[5], NULL, 10),
                    argv[6]);
    if (argc == 5)
        return run(argv[1], argv[2], argv[3], argv[4]);
    fprintf(stderr, "usage: gpu_grads GOLDEN DEVICE OUT CHOICES\n"
                    "       gpu_grads -m PRESET LAYERS BATCH SEQ GOLDEN\n");
    return 2;
}
