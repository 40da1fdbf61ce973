/* A plan as people read it. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "launcher/plan.h"
#include "launcher/spares.h"
#include "topology/place.h"
#include "topology/topology.h"

static double gib(int64_t bytes)
{
    return (double)bytes / (double)(1LL << 30);
}

/* Four digits that say something, in the unit that fits. */
static const char *say_bytes(int64_t bytes, char out[32])
{
    if (bytes >= 1LL << 40)
        snprintf(out, 32, "%.3f TiB", gib(bytes) / 1024);
    else if (bytes >= 1LL << 30)
        snprintf(out, 32, "%.3f GiB", gib(bytes));
    else if (bytes >= 1LL << 20)
        snprintf(out, 32, "%.2f MiB", (double)bytes / (1 << 20));
    else
        snprintf(out, 32, "%.2f KiB", (double)bytes / 1024);
    return out;
}

static const char *say_flops(double flops, char out[32])
{
    if (flops >= 1e12)
        snprintf(out, 32, "%.1f TFLOP", flops / 1e12);
    else if (flops >= 1e9)
        snprintf(out, 32, "%.3f GFLOP", flops / 1e9);
    else
        snprintf(out, 32, "%.3f MFLOP", flops / 1e6);
    return out;
}

static void print_model(const struct plan *p, FILE *fp)
{
    const struct model *m = &p->recipe.model;
    int seq = p->recipe.training.seq_len;
    char text[32];

    fprintf(fp, "model     %lld parameters, %lld active for a token\n",
            (long long)model_params_total(m), (long long)model_params_active(m));
    fprintf(fp, "flops     per token at %d:", seq);
    for (int i = 0; i < N_FLOP_CONVENTIONS; i++) {
        enum flop_convention c = (enum flop_convention)i;
        fprintf(fp, "%s %s %s", i ? "," : "", flop_convention_name(c),
                say_flops(model_flops_per_token(m, seq, c), text));
    }
    fprintf(fp, "\n");
}

static const char *plural(int n)
{
    return n == 1 ? "" : "s";
}

static void print_batch(const struct plan *p, FILE *fp)
{
    const struct recipe *r = &p->recipe;
    const struct placement *q = p->placement;

    fprintf(fp,
            "mesh      %d rank%s on %d node%s = %d replica%s x %d shard%s, activation "
            "checkpointing %s\n",
            q->world, plural(q->world), q->n_nodes, plural(q->n_nodes),
            q->replicate_degree, plural(q->replicate_degree), q->shard_degree,
            plural(q->shard_degree), ac_mode_name(r->activation_checkpoint.mode));
    fprintf(
        fp,
        "batch     %d sequences of %d a rank x %d micro-batch%s x %d ranks = %lld a "
        "step\n",
        r->training.local_batch_size, r->training.seq_len, q->accumulation,
        q->accumulation == 1 ? "" : "es", q->world,
        (long long)r->training.local_batch_size * q->accumulation * q->world);
}

/* Node after node: the placement_print() lines of first_rank .. last_rank. */
static void print_some_ranks(const struct plan *p, FILE *fp)
{
    const struct placement *q = p->placement;
    char *text = NULL, *line, *rest;
    size_t size = 0;
    FILE *mem = open_memstream(&text, &size);
    int rank = -1, first = q->order[0], last = q->order[q->n_nodes - 1], cut = 0;

    if (!mem)
        abort(); /* only when memory is gone */
    placement_print(q, p->topology, mem);
    fclose(mem);
    for (rest = text; (line = strsep(&rest, "\n")) && (*line || rest); rank++) {
        int node = rank >= 0 && rank < q->world ? q->rank[rank].node : -1;
        if (node < 0 || node == first || node == last)
            fprintf(fp, "%s\n", line);
        else if (!cut++)
            fprintf(fp, "  ... %d nodes between, in the same manner (--all-ranks)\n",
                    q->n_nodes - 2);
    }
    free(text);
}

static void print_memory(const struct plan *p, FILE *fp)
{
    const struct memplan *m = &p->memory;
    char text[32];

    fprintf(fp, "memory    of one rank (%s):\n", p->device);
    for (int i = 0; i < m->n; i++)
        if (m->item[i].bytes)
            fprintf(fp, "  %14s  %s\n", say_bytes(m->item[i].bytes, text),
                    m->item[i].name);
    fprintf(fp, "  %14s  arena, the sum\n", say_bytes(m->arena_bytes, text));
    fprintf(fp, "  %14s  outside of it (predicted)\n",
            say_bytes(m->outside_bytes, text));
    if (m->device_bytes > 0)
        fprintf(fp, "  %12.1f %%  of %s\n", m->percent,
                say_bytes(m->device_bytes, text));
    else
        fprintf(fp, "  the device's size is unknown\n");
}

/* "nvlink 12.3 GiB, nic 1.2 GiB": what crosses links of each tier, all groups. */
static void add_tiers(const struct cost *c, struct str *out)
{
    char text[32];

    for (int i = 0; i < N_COST_TIERS; i++)
        if (c->bytes[i] > 0)
            str_addf(out, "%s%s %s", out->len ? ", " : "",
                     cost_tier_name((enum cost_tier)i),
                     say_bytes((int64_t)c->bytes[i], text));
}

static void print_cost(const char *what, const struct cost *c, int64_t bytes, FILE *fp)
{
    double mib = (double)bytes / (1 << 20);
    struct str tiers = STR_INIT;

    add_tiers(c, &tiers);
    if (c->limit == COST_SELF)
        fprintf(fp, "  %-14s of a layer: none, groups of one\n", what);
    else if (c->limit == COST_UNKNOWN)
        fprintf(fp, "  %-14s of a layer: %.1f MiB in unknown time: %s\n", what, mib,
                c->object);
    else
        fprintf(fp,
                "  %-14s of a layer: %.1f MiB in %.3f ms at %.1f GB/s (%s), %s%s%s\n"
                "                 limit: %s\n                 crossing: %s\n",
                what, mib, 1e3 * c->seconds, c->gbytes_per_s, c->tier, c->algorithm,
                c->protocol[0] ? " " : "", c->protocol, c->object, tiers.text);
    str_release(&tiers);
}

static void print_assumed(const struct prediction *x, FILE *fp)
{
    char text[32];

    fprintf(fp,
            "  assumed: %.2f of a peak of %s/s%s, memory at %.0f GB/s; a "
            "layer's communication hides behind its compute\n",
            x->assumed.efficiency, say_flops(x->assumed.peak_flops, text),
            x->peak_known ? "" : " (a guess: none is published)",
            x->assumed.memory_gbytes_per_s);
}

static void print_predicted(const struct plan *p, FILE *fp)
{
    const struct prediction *x = &p->predicted;

    fprintf(fp, "predicted (not measured%s)\n",
            p->topology->simulated ? "; the machines are simulated"
            : plan_is_simulated(p) ? "; the ranks are simulated"
                                   : "");
    fprintf(fp, "  %s%.1f tokens/s/GPU", x->missing[0] ? "at most " : "",
            x->tokens_per_s_per_gpu);
    if (x->peak_known)
        fprintf(fp, ", MFU %.1f %% (reference), %.1f %% (causal)", x->mfu_reference,
                x->mfu_causal);
    fprintf(fp,
            "\n  step %.4f s = compute %.4f + exposed communication %.4f + optimizer "
            "%.4f\n  exposed: %.4f s of shard groups, %.4f s of replicate groups\n"
            "  layer: forward %.3f ms, backward %.3f ms\n",
            x->step_s, x->compute_s, x->exposed_s, x->optimizer_s, x->exposed_shard_s,
            x->exposed_replicate_s, 1e3 * x->layer_forward_s,
            1e3 * x->layer_backward_s);
    print_cost("all_gather", &x->gather, x->gather_bytes, fp);
    print_cost("reduce_scatter", &x->scatter, x->scatter_bytes, fp);
    print_cost("all_reduce", &x->replica, x->replica_bytes, fp);
    if (x->missing[0])
        fprintf(fp, "  not counted: %s\n", x->missing);
    print_assumed(x, fp);
}

/* The launch; and, where they are known, the step of Slurm that it starts, or the first
 * rank's own line for all of them. */
static void print_commands(const struct plan *p, FILE *fp)
{
    const char *second =
        p->commands.n == 2 && p->placement->world > 1 ? "step" : "rank 0";

    for (int i = 0; i < p->commands.n && i < 2; i++)
        fprintf(fp, "%-9s %s\n", i ? second : "command", p->commands.item[i]);
    if (p->commands.n > 2)
        fprintf(fp, "          and so on to rank %d: `muster launch ... --dry-run`\n",
                p->commands.n - 2);
}

static void print_spares(const struct plan *p, FILE *fp)
{
    struct str names = STR_INIT;

    spares_add_names(p->topology, &names);
    if (names.len)
        fprintf(fp, "spares    %s\n", names.text);
    str_release(&names);
}

void plan_print(const struct plan *p, int all_ranks, FILE *fp)
{
    fprintf(fp, "plan      %s on %s%s\n", p->recipe.name, p->topology->source,
            plan_is_simulated(p) ? " (simulated)" : "");
    print_model(p, fp);
    print_batch(p, fp);
    if (all_ranks || p->placement->n_nodes < 4)
        placement_print(p->placement, p->topology, fp);
    else
        print_some_ranks(p, fp);
    print_spares(p, fp);
    if (p->map)
        plan_map_print(p->map, fp);
    print_memory(p, fp);
    print_predicted(p, fp);
    for (int i = 0; i < p->warnings.n; i++)
        fprintf(fp, "warning   %s\n", p->warnings.item[i]);
    print_commands(p, fp);
}
