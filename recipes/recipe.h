/* recipe.h - what the user asked for, parsed and validated.
 *
 * Plain data: read it freely, change it through recipe_set().  One field table
 * in recipe.c drives parsing, types, ranges, defaults, sweeps, printing and the
 * reference that `muster plan --help-recipe` prints.
 *
 * libyaml gives text and the field's declared type decides (YAML 1.2 core
 * scalars, sizes "64MiB", durations "30:00"; see value.h).  ${VAR} and
 * ${VAR:-default} are filled in after parsing, once. */
#ifndef RECIPES_RECIPE_H
#define RECIPES_RECIPE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/str.h"
#include "recipes/model.h"

#ifdef __cplusplus
extern "C" {
#endif

struct err;

enum ac_mode { AC_NONE, AC_SELECTIVE, AC_FULL };
enum dtype { DTYPE_FLOAT32, DTYPE_BFLOAT16 };
enum decay { DECAY_CONSTANT, DECAY_LINEAR, DECAY_COSINE, DECAY_SQRT };
enum device { DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA, DEVICE_SIM };
enum backend { BACKEND_AUTO, BACKEND_LOCAL, BACKEND_SSH, BACKEND_SLURM };
enum container { CONTAINER_PYXIS, CONTAINER_APPTAINER };
enum batch_rule { BATCH_CONSTANT, BATCH_PER_GPU };
enum strategy { STRATEGY_HIERARCHICAL, STRATEGY_PREDICTED, STRATEGY_EXHAUSTIVE };
enum routing_kind { ROUTING_NATURAL, ROUTING_BALANCED, ROUTING_SKEWED, ROUTING_REPLAY };
enum level { LEVEL_QUICK, LEVEL_STANDARD, LEVEL_FULL };

struct intlist {
    int64_t *item;
    int n;
};

struct reallist {
    double *item;
    int n;
};

/* One key of scale.sweep and its candidate values, as text, each already
 * checked against the key's field. */
struct sweep_axis {
    char *key; /* "training.local_batch_size" */
    struct strlist values;
};

struct recipe {
    char *name;
    char *preset; /* model.preset; "" when every field is given */
    struct model model;
    struct {
        int seq_len, local_batch_size;
        int64_t global_batch_size; /* sequences a step; -1: local x world */
        int64_t steps;
        enum dtype dtype;
        int64_t seed;
        int deterministic; /* 0, 1; -1: auto */
        int log_interval;
        int loss_chunk; /* tokens whose logits exist at once */
    } training;
    struct {
        int data_parallel_shard_degree;     /* -1: what is left of the world */
        int data_parallel_replicate_degree; /* -1: what is left of the world */
        int reshard_after_forward;          /* gather again in backward */
    } parallelism;
    struct {
        enum ac_mode mode;
    } activation_checkpoint;
    struct {
        char *name;                                            /* adamw */
        double lr, beta1, beta2, eps, weight_decay, grad_clip; /* grad_clip 0: off */
    } optimizer;
    struct {
        int64_t warmup_steps;
        enum decay decay;
        double min_lr_factor;
    } lr_scheduler;
    struct {
        struct strlist path;            /* globs of .bin or .idx; one: a source */
        struct reallist weights;        /* one a source; empty: by token count */
        struct strlist validation_path; /* empty: split off validation_fraction */
        double validation_fraction;
        int64_t validation_interval; /* steps; 0: never */
        int64_t validation_steps;
        int document_mask; /* attention does not cross documents */
        int64_t eod_token; /* ends a document; -1: none */
    } data;
    struct {
        char *folder; /* "" : no checkpoints */
        int64_t interval;
        int keep;
        int async;
    } checkpoint;
    struct {
        enum backend backend;
        int gpus_per_node;
        enum device device;
        char *file; /* a cluster specification; "" : look at what is there */
        struct strlist hosts;
        int spares; /* nodes held back */
        struct strlist slurm_args;
        /* of the job: "" leaves it to Slurm */
        char *slurm_partition, *slurm_account, *slurm_qos, *slurm_time;
        char *slurm_constraint, *slurm_exclude, *slurm_reservation;
        char *slurm_gres;           /* of a node; "": gpu:N; "none" */
        struct strlist slurm_env;   /* NAME=VALUE for every rank */
        struct strlist slurm_setup; /* argv, run on each node before the ranks */
        enum container container;
        char *container_image; /* "": none */
        struct strlist container_mounts;
        char *slurm_signal; /* slurm_signal.h */
        int slurm_requeue;  /* times; 0: never */
    } cluster;
    struct {
        enum level level;
    } checks;
    struct {
        enum routing_kind moe_routing;
        char *moe_counts;  /* replay: the recording; "": none */
        char *check_fault; /* "KIND RANK", checks/work.h; "": none */
        char *moe_record;  /* where to write one, relative to the run; "": nowhere */
    } debug;
    struct {
        struct intlist rungs;
        double memory_ceiling; /* share of device memory */
        enum batch_rule batch;
        enum strategy strategy;
        int64_t trial_steps, trial_warmup; /* measured; thrown away before */
        struct sweep_axis *sweep;
        int n_sweep;
    } scale;
};

/* Parse YAML text.  `where` names it in messages.  All problems of the file
 * are listed at once, one "FILE:LINE: what (did you mean ...?)" a line, code
 * ERR_USAGE.  *out is set only on success; free with recipe_release(). */
int recipe_parse(const char *text, size_t len, const char *where, struct recipe *out,
                 struct err *err);
int recipe_load(const char *path, struct recipe *out, struct err *err);

/* Every default, no preset. */
void recipe_init(struct recipe *r);
void recipe_copy(struct recipe *to, const struct recipe *from);
void recipe_release(struct recipe *r);

/* Set one key from text as the file would ("training.steps", "20"), e.g. from
 * `--set KEY=VALUE` or a sweep.  Validates the field, not the whole. */
int recipe_set(struct recipe *r, const char *key, const char *text, struct err *err);
/* One key as text; the caller's to free(); NULL for an unknown key. */
char *recipe_get(const struct recipe *r, const char *key);

/* What must hold across fields.  All problems at once. */
int recipe_validate(const struct recipe *r, const char *where, struct err *err);

/* Turn -1 degrees into numbers for a world of `world` ranks; refuse what
 * cannot be: shard x replicate must equal world (cases E10), the global batch
 * must be a multiple of local x world.  *accumulation: micro-batches a step. */
int recipe_layout(const struct recipe *r, int world, int *shard, int *replicate,
                  int *accumulation, struct err *err);

/* What deserves a word though it works (shard groups that leave NVLink unused);
 * NULL: nothing.  The caller's to free(). */
char *recipe_layout_note(const struct recipe *r, int world, int shard);

/* The whole recipe as YAML that recipe_parse() reads back equal. */
void recipe_print(const struct recipe *r, FILE *fp);
char *recipe_text(const struct recipe *r); /* the same; the caller's to free() */

/* Every key: type, default, range, meaning; as text or as a Markdown table. */
void recipe_help(FILE *fp, int markdown);

const char *ac_mode_name(enum ac_mode m);
const char *device_name(enum device d);
const char *routing_name(enum routing_kind k);
const char *backend_name(enum backend b);

#ifdef __cplusplus
}
#endif
#endif
