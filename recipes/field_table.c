#include "recipes/field.h"

#include <string.h>

#include "base/mem.h"
#include "recipes/recipe.h"

static const char *const dtype_words[] = { "float32", "bfloat16" };
static const char *const ac_words[] = { "none", "selective", "full" };
static const char *const decay_words[] = { "constant", "linear", "cosine", "sqrt" };
static const char *const device_words[] = { "auto", "cpu", "cuda", "sim" };
static const char *const backend_words[] = { "auto", "local", "ssh", "slurm" };
static const char *const container_words[] = { "pyxis", "apptainer" };
static const char *const batch_words[] = { "constant", "per_gpu" };
static const char *const strategy_words[] = { "hierarchical", "predicted",
                                              "exhaustive" };
static const char *const routing_words[] = { "natural", "balanced", "skewed",
                                             "replay" };
static const char *const level_words[] = { "quick", "standard", "full" };

/* Key and place are the same words, so that they cannot drift apart. */
#define AT(path)      .key = #path, .offset = offsetof(struct recipe, path)
#define NAMED(k, p)   .key = k, .offset = offsetof(struct recipe, p)
#define RANGE(lo, hi) .min = lo, .max = hi
#define WORDS(w)      .type = FIELD_WORD, .words = w, .n_words = ARRAY_LEN(w)

const struct field fields[] = {
    { AT(name), FIELD_TEXT, .def = "run", .doc = "label of runs and results" },
    { NAMED("model.preset", preset), FIELD_TEXT, .def = "", .swept = 1,
      .doc = "a known model; any field below overrides it" },
    { AT(model.layers), FIELD_INT, RANGE(1, 1024), .swept = 1,
      .doc = "decoder layers" },
    { AT(model.hidden), FIELD_INT, RANGE(1, 65536), .swept = 1,
      .doc = "width of the residual stream" },
    { AT(model.heads), FIELD_INT, RANGE(1, 1024), .swept = 1, .doc = "query heads" },
    { AT(model.kv_heads), FIELD_INT, RANGE(1, 1024), .swept = 1,
      .doc = "key and value heads; divides heads" },
    { AT(model.head_dim), FIELD_INT, RANGE(2, 1024), .swept = 1,
      .doc = "width of one head; even" },
    { AT(model.experts), FIELD_INT, RANGE(1, 4096), .swept = 1,
      .doc = "experts in each layer" },
    { AT(model.top_k), FIELD_INT, RANGE(1, 64), .swept = 1,
      .doc = "experts that each token visits" },
    { AT(model.expert_ffn), FIELD_INT, RANGE(1, 65536), .swept = 1,
      .doc = "width of one expert" },
    { AT(model.shared_ffn), FIELD_INT, RANGE(0, 65536), .def = "0", .swept = 1,
      .doc = "width of the expert that every token visits; 0: none" },
    { AT(model.vocab), FIELD_INT, RANGE(2, 4194304), .swept = 1, .doc = "token ids" },
    { AT(model.tied), FIELD_BOOL, .def = "false",
      .doc = "the output head is the embedding" },
    { AT(model.renormalise), FIELD_BOOL, .def = "true",
      .doc = "the weights of the visited experts are divided by their sum" },
    { AT(model.rope_theta), FIELD_REAL, RANGE(1, 1e12), .def = "1e6",
      .doc = "base of the rotary positions" },
    { AT(model.norm_eps), FIELD_REAL, RANGE(0, 1), .above_min = 1, .def = "1e-6",
      .doc = "added under the root of every RMSNorm" },
    { AT(model.route_scale), FIELD_REAL, RANGE(0, 1000), .above_min = 1, .def = "1",
      .doc = "multiplies the weights of the visited experts" },
    { AT(model.bias_update_rate), FIELD_REAL, RANGE(0, 1), .def = "0.001",
      .doc = "step of the load-balancing router bias; 0: off" },
    { AT(model.init_std), FIELD_REAL, RANGE(0, 10), .above_min = 1, .def = "0.02",
      .doc = "spread of the initial weights" },

    { AT(training.seq_len), FIELD_INT, RANGE(1, 1048576), .def = "4096", .swept = 1,
      .doc = "tokens in a sequence" },
    { AT(training.local_batch_size), FIELD_INT, RANGE(1, 65536), .def = "1", .swept = 1,
      .doc = "sequences in one micro-batch of a rank" },
    { AT(training.global_batch_size), FIELD_INT64, RANGE(1, 1e9), .swept = 1,
      .minus = "local_batch_size x ranks", .def = "-1",
      .doc = "sequences in one step" },
    { AT(training.steps), FIELD_INT64, RANGE(1, 1e12), .def = "1000",
      .doc = "optimizer steps" },
    { AT(training.dtype), WORDS(dtype_words), .def = "bfloat16", .swept = 1,
      .doc = "of weights and activations on a GPU; the CPU computes in float32" },
    { AT(training.seed), FIELD_INT64, RANGE(0, 9007199254740992), .def = "0",
      .doc = "of initial weights and sample order" },
    { AT(training.deterministic), FIELD_BOOL, .minus = "auto", .def = "auto",
      .swept = 1, .doc = "repeat bit for bit; the CPU always does" },
    { AT(training.log_interval), FIELD_INT, RANGE(1, 1000000), .def = "10",
      .doc = "steps between two lines of metrics" },
    { AT(training.loss_chunk), FIELD_INT, RANGE(1, 1048576), .def = "2048", .swept = 1,
      .doc = "tokens whose logits exist at once" },

    { AT(parallelism.data_parallel_shard_degree), FIELD_INT, RANGE(1, 65536),
      .minus = "what is left of the ranks", .def = "-1", .swept = 1,
      .doc = "ranks that hold one replica together (FSDP)" },
    { AT(parallelism.data_parallel_replicate_degree), FIELD_INT, RANGE(1, 65536),
      .minus = "what is left of the ranks", .def = "1", .swept = 1,
      .doc = "replicas; shard x replicate is the number of ranks" },
    { AT(parallelism.reshard_after_forward), FIELD_BOOL, .def = "true", .swept = 1,
      .doc = "free gathered weights after forward and gather again in backward" },

    { AT(activation_checkpoint.mode), WORDS(ac_words), .def = "none", .swept = 1,
      .doc = "activations computed again in backward" },

    { AT(optimizer.name), FIELD_TEXT, .def = "adamw", .doc = "adamw is the only one" },
    { AT(optimizer.lr), FIELD_REAL, RANGE(0, 100), .above_min = 1, .def = "3e-4",
      .swept = 1, .doc = "peak learning rate" },
    { AT(optimizer.beta1), FIELD_REAL, RANGE(0, 0.999999), .def = "0.9", .swept = 1,
      .doc = "decay of the first moment" },
    { AT(optimizer.beta2), FIELD_REAL, RANGE(0, 0.999999), .def = "0.95", .swept = 1,
      .doc = "decay of the second moment" },
    { AT(optimizer.eps), FIELD_REAL, RANGE(0, 1), .above_min = 1, .def = "1e-8",
      .swept = 1, .doc = "added to the root of the second moment" },
    { AT(optimizer.weight_decay), FIELD_REAL, RANGE(0, 100), .def = "0.1", .swept = 1,
      .doc = "decoupled, on every tensor as torchtitan does" },
    { AT(optimizer.grad_clip), FIELD_REAL, RANGE(0, 1e9), .def = "1", .swept = 1,
      .doc = "largest global gradient norm; 0: no clipping" },

    { AT(lr_scheduler.warmup_steps), FIELD_INT64, RANGE(0, 1e12), .def = "0",
      .doc = "steps over which the rate rises from 0" },
    { AT(lr_scheduler.decay), WORDS(decay_words), .def = "cosine", .swept = 1,
      .doc = "shape of the fall from the peak to the last step" },
    { AT(lr_scheduler.min_lr_factor), FIELD_REAL, RANGE(0, 1), .def = "0.1", .swept = 1,
      .doc = "last rate over the peak" },

    { AT(data.path), FIELD_TEXTS,
      .doc = "token files, globs; one entry is one source" },
    { AT(data.weights), FIELD_REALS, RANGE(0, 1e12), .above_min = 1,
      .doc = "one a source; none: by token count" },
    { AT(data.validation_path), FIELD_TEXTS,
      .doc = "token files of the validation loss; none: split off" },
    { AT(data.validation_fraction), FIELD_REAL, RANGE(0, 0.5), .def = "0",
      .doc = "share of the sequences split off when there is no validation_path" },
    { AT(data.validation_interval), FIELD_INT64, RANGE(0, 1e12), .def = "0",
      .doc = "steps between two validation losses; 0: never" },
    { AT(data.validation_steps), FIELD_INT64, RANGE(1, 1e9), .def = "10",
      .doc = "batches of one validation loss" },
    { AT(data.document_mask), FIELD_BOOL, .def = "false",
      .doc = "attention stays inside a document" },
    { AT(data.eod_token), FIELD_INT64, RANGE(0, 4294967295), .minus = "none",
      .def = "-1", .doc = "token that ends a document" },

    { AT(checkpoint.folder), FIELD_TEXT, .def = "",
      .doc = "where checkpoints go, relative to the run; empty: none" },
    { AT(checkpoint.interval), FIELD_INT64, RANGE(1, 1e12), .def = "500",
      .doc = "steps between two checkpoints" },
    { AT(checkpoint.keep), FIELD_INT, RANGE(0, 1000000), .def = "3",
      .doc = "newest ones kept; 0: all" },
    { AT(checkpoint.async), FIELD_BOOL, .def = "false",
      .doc = "write while training goes on" },

    { AT(cluster.backend), WORDS(backend_words), .def = "auto",
      .doc =
          "how ranks are started; auto: slurm inside an allocation, else hosts, else "
          "local; slurm asks for nodes when there is none" },
    { AT(cluster.gpus_per_node), FIELD_INT, RANGE(1, 1024), .minus = "what is there",
      .def = "-1", .doc = "ranks on one node" },
    { AT(cluster.device), WORDS(device_words), .def = "auto",
      .doc = "what a rank computes on; auto: cuda where there is one, else cpu; sim: "
             "ranks that only keep time, for trying a cluster out" },
    { AT(cluster.file), FIELD_TEXT, .def = "",
      .doc = "a cluster specification; empty: look at what is there" },
    { AT(cluster.hosts), FIELD_TEXTS, .doc = "nodes for the ssh backend" },
    { AT(cluster.spares), FIELD_INT, RANGE(0, 1024), .def = "0",
      .doc = "nodes held back, each to replace one that fails to start, fails its "
             "check or hangs at the start" },
    { NAMED("cluster.slurm.args", cluster.slurm_args), FIELD_TEXTS,
      .doc = "more options of salloc, sbatch and srun, each given to those that take "
             "it" },
    { NAMED("cluster.slurm.partition", cluster.slurm_partition), FIELD_TEXT, .def = "",
      .doc = "of the job; empty, here and below: Slurm's default" },
    { NAMED("cluster.slurm.account", cluster.slurm_account), FIELD_TEXT, .def = "",
      .doc = "what the job is charged to" },
    { NAMED("cluster.slurm.qos", cluster.slurm_qos), FIELD_TEXT, .def = "",
      .doc = "quality of service" },
    { NAMED("cluster.slurm.time", cluster.slurm_time), FIELD_TEXT, .def = "",
      .doc = "time limit of the job: 30:00, 2h, 1-12:00:00, unlimited" },
    { NAMED("cluster.slurm.constraint", cluster.slurm_constraint), FIELD_TEXT,
      .def = "", .doc = "features that nodes must have" },
    { NAMED("cluster.slurm.exclude", cluster.slurm_exclude), FIELD_TEXT, .def = "",
      .doc = "nodes to leave out, a host list; inside an allocation too" },
    { NAMED("cluster.slurm.reservation", cluster.slurm_reservation), FIELD_TEXT,
      .def = "", .doc = "run inside it" },
    { NAMED("cluster.slurm.gres", cluster.slurm_gres), FIELD_TEXT, .def = "",
      .doc = "of each node; empty: gpu:N for N ranks on a node; none: nothing" },
    { NAMED("cluster.slurm.env", cluster.slurm_env), FIELD_TEXTS, .pairs = 1,
      .doc = "variables of the ranks under Slurm, byte for byte" },
    { NAMED("cluster.slurm.setup", cluster.slurm_setup), FIELD_TEXTS,
      .doc = "a command and its arguments (no shell), run once on each node before the "
             "ranks" },
    { NAMED("cluster.slurm.container_image", cluster.container_image), FIELD_TEXT,
      .def = "", .doc = "what ranks run in; empty: no container" },
    { NAMED("cluster.slurm.container_mounts", cluster.container_mounts), FIELD_TEXTS,
      .doc = "SOURCE:TARGET of the container" },
    { NAMED("cluster.slurm.container_runtime", cluster.container),
      WORDS(container_words), .def = "pyxis",
      .doc = "pyxis: options of srun, for Enroot; apptainer: it starts the ranks" },
    { NAMED("cluster.slurm.signal", cluster.slurm_signal), FIELD_TEXT,
      .def = "USR1@120",
      .doc = "SIGNAL@SECONDS, as --signal of sbatch: so long before the time of its "
             "job is "
             "up the ranks are told to save; USR1 or USR2" },
    { NAMED("cluster.slurm.requeue", cluster.slurm_requeue), FIELD_INT, RANGE(0, 1000),
      .def = "10",
      .doc =
          "how often a batch job (launch --detach) goes on in a new allocation, from "
          "its last checkpoint" },

    { AT(checks.level), WORDS(level_words), .def = "standard",
      .doc = "preflight before a launch" },

    { AT(debug.moe_routing), WORDS(routing_words), .def = "natural",
      .doc = "who chooses the experts: the router; or, to measure speed, all experts "
             "alike, the busiest with 10 times the mean, or as moe_counts recorded" },
    { AT(debug.moe_counts), FIELD_TEXT, .def = "",
      .doc = "recording that moe_routing: replay reads" },
    { AT(debug.moe_record), FIELD_TEXT, .def = "",
      .doc = "file for the rows of each expert in every step, relative to the run; "
             "empty: none" },
    { AT(debug.check_fault), FIELD_TEXT, .def = "",
      .doc = "a fault that `muster check` must find, for tests: 'wrong RANK', 'flaky "
             "RANK', "
             "'slow RANK' or 'stuck RANK'; empty: none" },

    { AT(scale.rungs), FIELD_INTS, RANGE(1, 65536),
      .doc = "ranks, from small to large" },
    { AT(scale.memory_ceiling), FIELD_REAL, RANGE(0, 1), .above_min = 1, .def = "0.95",
      .doc = "share of device memory that a candidate may use" },
    { AT(scale.batch), WORDS(batch_words), .def = "constant",
      .doc = "global_batch_size from rung to rung: the same (strong scaling), or grows "
             "with the ranks (weak)" },
    { AT(scale.strategy), WORDS(strategy_words), .def = "exhaustive",
      .doc = "which candidates are measured" },
    { AT(scale.trial_steps), FIELD_INT64, RANGE(1, 1e9), .def = "20",
      .doc = "measured steps of one trial" },
    { AT(scale.trial_warmup), FIELD_INT64, RANGE(0, 1e9), .def = "5",
      .doc = "steps of a trial thrown away before" },
};

const int n_fields = ARRAY_LEN(fields);

const struct field *field_find(const char *key)
{
    for (int i = 0; i < n_fields; i++)
        if (strcmp(fields[i].key, key) == 0)
            return &fields[i];
    return NULL;
}

const char *ac_mode_name(enum ac_mode m)
{
    return ac_words[m];
}

const char *device_name(enum device d)
{
    return device_words[d];
}

const char *routing_name(enum routing_kind k)
{
    return routing_words[k];
}

const char *backend_name(enum backend b)
{
    return backend_words[b];
}
