/* recipe: parsing, all problems at once, variables, layouts (E10, F13, G02). */
#include "test.h"

#include "recipes/field.h"
#include "recipes/recipe.h"
#include "recipes/yaml.h"

#define TINY "model: {preset: tiny}\n"

static struct recipe parse(const char *text)
{
    struct err err = ERR_INIT;
    struct recipe r;

    assert_ok(recipe_parse(text, strlen(text), "r.yaml", &r, &err), &err);
    return r;
}

static void parse_fails(const char *text, const char *want)
{
    struct err err = ERR_INIT;
    struct recipe r;

    if (recipe_parse(text, strlen(text), "r.yaml", &r, &err) != -1)
        fail_msg("accepted: %s", text);
    assert_int_equal(err.code, ERR_USAGE);
    if (strcmp(err_text(&err), want) != 0)
        fail_msg("said:\n%s\nwanted:\n%s", err_text(&err), want);
    err_release(&err);
}

static void test_defaults_and_overrides(void **state)
{
    struct recipe r =
        parse("model:\n  layers: 3   # before the preset\n  preset: tiny\n");

    (void)state;
    assert_int_equal(r.model.layers, 3);
    assert_int_equal(r.model.hidden, 64);
    assert_string_equal(r.preset, "tiny");
    assert_int_equal(r.training.seq_len, 4096);
    assert_int_equal(r.training.global_batch_size, -1);
    assert_int_equal(r.training.deterministic, -1);
    assert_int_equal(r.parallelism.data_parallel_shard_degree, -1);
    assert_int_equal(r.parallelism.data_parallel_replicate_degree, 1);
    assert_true(r.optimizer.beta2 == 0.95);
    assert_int_equal(r.lr_scheduler.decay, DECAY_COSINE);
    recipe_release(&r);
}

static void test_all_problems_with_lines(void **state)
{
    (void)state;
    parse_fails(
        "trainng: {steps: 1}\n"
        "training: {step: 5, local_batch_size: 0}\n"
        "activation_checkpoint: {mode: selectve}\n"
        "model: {preset: tiny, layers: 4.5}\n"
        "optimizer:\n"
        "  lr: \"1e-5\"\n"
        "  eps: 1_000\n"
        "  beta1: .inf\n"
        "  lr: 1\n"
        "name:\n"
        "checks: 5\n"
        "data: {path: {a: 1}}\n",
        "r.yaml:1: unknown key 'trainng' (did you mean 'training'?)\n"
        "r.yaml:2: unknown key 'training.step' (did you mean 'training.steps'?)\n"
        "r.yaml:2: training.local_batch_size: 0 is outside 1 .. 65536\n"
        "r.yaml:3: activation_checkpoint.mode: 'selectve' is none of: none, "
        "selective, full (did you mean 'selective'?)\n"
        "r.yaml:4: model.layers: '4.5' is not a whole number\n"
        "r.yaml:6: optimizer.lr: \"1e-5\" is text, but a number is wanted: leave "
        "the quotes out\n"
        "r.yaml:7: optimizer.eps: '1_000' is not a number: write it without _ "
        "(1000)\n"
        "r.yaml:8: optimizer.beta1: .inf is outside 0 .. 0.999999\n"
        "r.yaml:9: key 'optimizer.lr' repeats the one on line 6\n"
        "r.yaml:10: name has no value (an empty text is \"\")\n"
        "r.yaml:11: checks is a section: keys are wanted under it, not text\n"
        "r.yaml:12: data.path: one value is wanted, not a mapping");
}

static void test_e01_e04_in_a_recipe(void **state)
{
    struct err err = ERR_INIT;
    struct recipe r;

    (void)state;
    parse_fails(TINY "optimizer: {lr: .inf}\n",
                "r.yaml:2: optimizer.lr: .inf is outside above 0 .. 100");
    parse_fails(TINY "optimizer: {lr: 61e9540}\n",
                "r.yaml:2: optimizer.lr: '61e9540' is out of range of a 64-bit float");
    parse_fails(TINY "optimizer: {lr: .nan}\n",
                "r.yaml:2: optimizer.lr: .nan is not a number");
    r = parse(TINY "name: 61e9540\n");
    assert_string_equal(r.name, "61e9540");
    recipe_release(&r);
    assert_err(recipe_load("tests/cases/e04_dup.yaml", &r, &err), &err, ERR_USAGE,
               "e04_dup.yaml:4: key 'train.lr' repeats the one on line 2");
}

static void test_dotted_keys_are_the_same_keys(void **state)
{
    struct recipe r = parse(TINY "training.steps: 7\n"
                                 "cluster: {slurm: {args: [--exclusive, -A x]}}\n");

    (void)state;
    assert_int_equal(r.training.steps, 7);
    assert_int_equal(r.cluster.slurm_args.n, 2);
    recipe_release(&r);
    parse_fails(TINY "training.steps: 7\ntraining: {steps: 8}\n",
                "r.yaml:3: training.steps was already set on line 2");
}

/* cluster.slurm.env: any bytes but zero, written either way, printed and read back. */
static void test_variables_of_ranks(void **state)
{
    struct recipe r =
        parse(TINY "cluster: {slurm: {env: {HCA: \"mlx5_0,mlx5_1\", N: 1, E: \"\",\n"
                   "  L: \"a\\nb\\tc\", U: \"\xc3\xa9 'q' \\\"d\\\" $x\"}}}\n");
    static const char *const want[] = { "HCA=mlx5_0,mlx5_1", "N=1", "E=", "L=a\nb\tc",
                                        "U=\xc3\xa9 'q' \"d\" $x" };
    struct err err = ERR_INIT;

    (void)state;
    for (int k = 0; k < 2; k++) {
        char *text = recipe_text(&r);
        assert_int_equal(r.cluster.slurm_env.n, 5);
        for (int i = 0; i < 5; i++)
            assert_string_equal(r.cluster.slurm_env.item[i], want[i]);
        recipe_release(&r);
        r = parse(text);
        free(text);
    }
    assert_ok(recipe_set(&r, "cluster.slurm.env", "{A: 'x,y', B: ''}", &err), &err);
    assert_int_equal(r.cluster.slurm_env.n, 2);
    assert_string_equal(r.cluster.slurm_env.item[0], "A=x,y");
    assert_err(recipe_set(&r, "cluster.slurm.env", "[=x]", &err), &err, ERR_USAGE,
               "'=x' is not NAME=VALUE");
    recipe_release(&r);
    parse_fails(TINY "cluster: {slurm: {env: {A: 1, A: 2, B.C: 3, D: }}}\n",
                "r.yaml:2: cluster.slurm.env: A repeats the one on line 2\n"
                "r.yaml:2: cluster.slurm.env: 'B.C=3' is not NAME=VALUE with a name of "
                "letters, "
                "digits and _\n"
                "r.yaml:2: cluster.slurm.env.D has no value (an empty text is \"\")");
    parse_fails(TINY "cluster: {slurm: {time: soon, container_mounts: [\"/a:/b\"]}}\n",
                "r.yaml:2: cluster.slurm.time: 'soon' is not a duration (minutes, "
                "minutes:seconds, hours:minutes:seconds, "
                "days-hours:minutes:seconds, or 90s)\n"
                "r.yaml:2: cluster.slurm.container_mounts: mounts without a "
                "cluster.slurm.container_image");
}

static void test_rules_across_keys(void **state)
{
    (void)state;
    parse_fails("name: x\n", "r.yaml:1: model: no model: name one with model.preset");
    parse_fails("model: {layers: 2, hidden: 8, heads: 2, kv_heads: 1, head_dim: 4,\n"
                "  experts: 2, top_k: 1, expert_ffn: 8}\n",
                "r.yaml:1: model.vocab: is missing: give it, or name a model.preset");
    parse_fails(
        TINY "model.kv_heads: 3\n"
             "training: {local_batch_size: 4, global_batch_size: 6}\n"
             "parallelism:\n"
             "  data_parallel_replicate_degree: -1\n"
             "data: {path: [a, b], weights: [1], eod_token: 264}\n"
             "scale: {rungs: [4, 2]}\n",
        "r.yaml:2: model.kv_heads: 3 does not divide model.heads (4)\n"
        "r.yaml:3: training.global_batch_size: 6 is not a multiple of "
        "local_batch_size (4)\n"
        "r.yaml:5: parallelism.data_parallel_replicate_degree: two free degrees: "
        "give shard or replicate a number\n"
        "r.yaml:6: data.weights: 1 weights for 2 sources in data.path\n"
        "r.yaml:6: data.eod_token: 264 is not below model.vocab (264)\n"
        "r.yaml:7: scale.rungs: 2 comes after 4: rungs must rise");
}

static void test_variables(void **state)
{
    struct recipe r;

    (void)state;
    setenv("T_DIR", "/a b/${T_STEPS}", 1);
    setenv("T_STEPS", "12", 1);
    setenv("T_EMPTY", "", 1);
    unsetenv("T_NONE");
    r = parse(TINY
              "name: \"$${T_DIR} $5\"\n"
              "data: {path: [\"${T_DIR}/*.bin\", \"${T_NONE:-/d}/x${T_EMPTY:-y}\"]}\n"
              "training: {steps: \"${T_STEPS}\", seed: \"${T_NONE:-3}\"}\n"
              "checkpoint.folder: ${T_EMPTY}\n");
    assert_string_equal(r.name, "${T_DIR} $5");
    /* once: what a variable holds is not looked through again */
    assert_string_equal(r.data.path.item[0], "/a b/${T_STEPS}/*.bin");
    assert_string_equal(r.data.path.item[1], "/d/xy");
    assert_int_equal(r.training.steps, 12);
    assert_int_equal(r.training.seed, 3);
    assert_string_equal(r.checkpoint.folder, "");
    recipe_release(&r);
    parse_fails(TINY "name: a${T_NONE}b\n",
                "r.yaml:2: name: the variable T_NONE is not set: set it, or write "
                "${T_NONE:-default}");
    parse_fails(TINY "name: ${1X}\n",
                "r.yaml:2: name: '${1X}' is neither ${VAR} nor ${VAR:-default}");
    parse_fails(TINY "name: x${T\n",
                "r.yaml:2: name: '${T': \"${\" without \"}\" (write $${ for ${)");
}

static void test_sweep(void **state)
{
    struct recipe r = parse(TINY "scale:\n  sweep:\n"
                                 "    training.local_batch_size: [1, 2]\n"
                                 "    activation_checkpoint.mode: full\n");

    (void)state;
    assert_int_equal(r.scale.n_sweep, 2);
    assert_string_equal(r.scale.sweep[0].key, "training.local_batch_size");
    assert_string_equal(r.scale.sweep[0].values.item[1], "2");
    assert_int_equal(r.scale.sweep[1].values.n, 1);
    assert_int_equal(r.training.local_batch_size, 1);
    recipe_release(&r);
    parse_fails(
        TINY "scale:\n  sweep:\n"
             "    training.local_batch_size: [1, 0, 1]\n"
             "    activation_checkpoint.mode: [ful]\n"
             "    training.steps: [1]\n"
             "    training.lr: [1]\n"
             "    training.seq_len: []\n",
        "r.yaml:4: scale.sweep: training.local_batch_size: 0 is outside 1 .. "
        "65536\n"
        "r.yaml:4: scale.sweep: training.local_batch_size: 1 stands twice\n"
        "r.yaml:5: scale.sweep: activation_checkpoint.mode: 'ful' is none of: "
        "none, selective, full (did you mean 'full'?)\n"
        "r.yaml:6: scale.sweep: training.steps cannot be swept\n"
        "r.yaml:7: unknown key 'training.lr' (did you mean 'optimizer.lr'?)\n"
        "r.yaml:8: scale.sweep: training.seq_len: a list of 1 to 1000 values is "
        "wanted");
}

/* Every field survives print and parse, odd texts too. */
static void test_print_reads_back(void **state)
{
    struct recipe r = parse(
                      TINY
                      "data: {path: [a b, \"x: y\", \"null\", \"\", \"é\\\"\\\\\"], "
                      "weights: [1, 0.1, 3, 4, 5]}\n"
                      "name: \"$${HOME} # no\"\n"
                      "training: {deterministic: true}\n"
                      "scale: {rungs: [1, 2], sweep: {training.dtype: "
                      "[float32], model.preset: [tiny, demo]}}\n"),
                  copy, back;
    char *text, *again;

    (void)state;
    recipe_copy(&copy, &r);
    text = recipe_text(&r);
    recipe_release(&r);
    back = parse(text);
    again = recipe_text(&back);
    assert_string_equal(text, again);
    assert_string_equal(back.data.path.item[4], "é\"\\");
    assert_string_equal(back.data.path.item[2], "null");
    free(again);
    again = recipe_text(&copy);
    assert_string_equal(text, again);
    free(text);
    free(again);
    recipe_release(&back);
    recipe_release(&copy);
}

static void test_set_and_get(void **state)
{
    struct err err = ERR_INIT;
    struct recipe r = parse(TINY);
    char *text;

    (void)state;
    assert_ok(recipe_set(&r, "scale.rungs", "2,4,8", &err), &err);
    assert_ok(recipe_set(&r, "scale.rungs", "[2, 4]", &err), &err);
    text = recipe_get(&r, "scale.rungs");
    assert_string_equal(text, "[2, 4]");
    free(text);
    assert_err(recipe_set(&r, "scale.rungs", "[2, x]", &err), &err, ERR_USAGE,
               "scale.rungs: 'x' is not a whole number");
    assert_int_equal(r.scale.rungs.n, 2); /* whole or not at all */
    assert_ok(recipe_set(&r, "model.preset", "demo", &err), &err);
    assert_int_equal(r.model.hidden, 128);
    assert_ok(recipe_set(&r, "name", "a: b", &err), &err);
    text = recipe_get(&r, "name");
    assert_string_equal(text, "a: b");
    free(text);
    assert_err(recipe_set(&r, "name", "\xff", &err), &err, ERR_USAGE, "not UTF-8");
    assert_err(recipe_set(&r, "name", "a\nb", &err), &err, ERR_USAGE, "control");
    assert_err(recipe_set(&r, "training.stepz", "1", &err), &err, ERR_USAGE,
               "did you mean 'training.steps'?");
    assert_null(recipe_get(&r, "no.such"));
    recipe_release(&r);
}

/* Case E10.  A tp column above 1 divides the world first (its rule); muster has
 * no tp and no ep, so ep rows are refused by name. */
static int e10_row(int world, int per_node, int replicate, int shard, char **note,
                   struct err *err)
{
    struct recipe r = parse(TINY);
    int s, p, a, rc;

    r.cluster.gpus_per_node = per_node;
    r.parallelism.data_parallel_shard_degree = shard;
    r.parallelism.data_parallel_replicate_degree = replicate;
    rc = recipe_layout(&r, world, &s, &p, &a, err);
    if (rc == 0) {
        assert_int_equal(s * p, world);
        assert_int_equal(a, 1);
        *note = recipe_layout_note(&r, world, s);
    }
    recipe_release(&r);
    return rc;
}

static void test_e10_layouts(void **state)
{
    FILE *fp = fopen("tests/cases/e10_layouts.tsv", "r");
    int w, gpn, rep, shard, tp, ep, experts, rows = 0;
    struct err err = ERR_INIT;
    char line[256], verdict[128];

    (void)state;
    assert_non_null(fp);
    while (fgets(line, sizeof(line), fp)) {
        char *note = NULL;
        int valid;
        if (sscanf(line, "%d %d %d %d %d %d %d %127[^\n]", &w, &gpn, &rep, &shard, &tp,
                   &ep, &experts, verdict) != 8)
            continue;
        rows++;
        if (ep != 1)
            continue;
        valid = e10_row(w / tp, gpn, rep, shard, &note, &err) == 0;
        if (valid != (strncmp(verdict, "valid", 5) == 0))
            fail_msg("%s: %s", line, err_text(&err));
        assert_int_equal(note != NULL, strstr(verdict, "warn: shard groups") != NULL);
        err_release(&err);
        free(note);
    }
    fclose(fp);
    assert_int_equal(rows, 13);
    parse_fails(TINY "parallelism: {expert_parallel_degree: 16}\n",
                "r.yaml:2: unknown key 'parallelism.expert_parallel_degree'");
}

static void test_e10_reasons(void **state)
{
    static const struct {
        int world, replicate, shard;
        const char *why;
    } want[] = {
        { 16, 2, 4, "shard 4 x replicate 2 = 8, but there are 16 ranks" },
        { 16, 4, 8, "= 32, but there are 16 ranks" },
        { 16, -1, -1, "two free degrees" },
        { 16, 1, -2, "negative degree" },
        { 16, 1, 0, "zero degree" },
        { 12, 1, 12, "12 ranks are not a whole number of nodes of 8" },
        { 16, 3, -1, "replicate degree 3 does not divide 16 ranks" },
        { 0, 1, -1, "at least one" },
    };
    struct err err = ERR_INIT;
    char *note = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++)
        assert_err(
            e10_row(want[i].world, 8, want[i].replicate, want[i].shard, &note, &err),
            &err, ERR_USAGE, want[i].why);
    assert_ok(e10_row(4, 8, 1, -1, &note, &err), &err); /* part of one node */
    assert_null(note);
    assert_ok(e10_row(16, 8, 8, 2, &note, &err), &err);
    assert_string_equal(note, "shard groups of 2 leave 6 of 8 GPUs of a node's NVLink "
                              "unused and 8 replicas cross nodes");
    free(note);
}

/* Case F13: world 16, shard 8.  Case G02: tokens of a step count every
 * data-parallel rank once: world 8 with tp 4 is 2 ranks here. */
static void test_f13_g02_batch(void **state)
{
    struct recipe r = parse(TINY "training: {seq_len: 2048, local_batch_size: 2}\n");
    struct err err = ERR_INIT;
    int s, p, a;

    (void)state;
    assert_ok(recipe_layout(&r, 8 / 4, &s, &p, &a, &err), &err);
    assert_int_equal(r.training.local_batch_size * a * s * p * r.training.seq_len,
                     8192);
    assert_ok(recipe_set(&r, "parallelism.data_parallel_shard_degree", "8", &err),
              &err);
    assert_ok(recipe_set(&r, "parallelism.data_parallel_replicate_degree", "-1", &err),
              &err);
    assert_ok(recipe_set(&r, "training.global_batch_size", "96", &err), &err);
    assert_ok(recipe_layout(&r, 16, &s, &p, &a, &err), &err);
    assert_int_equal(s, 8);
    assert_int_equal(p, 2);
    assert_int_equal(a, 3);
    assert_err(recipe_layout(&r, 64, &s, &p, &a, &err), &err, ERR_USAGE,
               "global batch 96 is not a multiple of local batch 2 x 64 ranks = 128");
    recipe_release(&r);
}

static void test_shipped_recipes(void **state)
{
    struct err err = ERR_INIT;
    struct recipe r;
    int s, p, a;

    (void)state;
    assert_ok(recipe_load("recipes/moe-30b-a3b.yaml", &r, &err), &err);
    for (int i = 0; i < r.scale.rungs.n; i++)
        assert_ok(recipe_layout(&r, (int)r.scale.rungs.item[i], &s, &p, &a, &err),
                  &err);
    assert_true(model_params_total(&r.model) == 30532122624);
    recipe_release(&r);
    assert_ok(recipe_load("recipes/demo.yaml", &r, &err), &err);
    for (int i = 0; i < r.scale.rungs.n; i++)
        assert_ok(recipe_layout(&r, (int)r.scale.rungs.item[i], &s, &p, &a, &err),
                  &err);
    recipe_release(&r);
}

/* Every row of the table is sound: default in range, help not empty. */
static void test_field_table(void **state)
{
    struct err err = ERR_INIT;
    struct recipe r;

    (void)state;
    recipe_init(&r);
    for (int i = 0; i < n_fields; i++) {
        const struct field *f = &fields[i];
        assert_ptr_equal(field_find(f->key), f);
        assert_true(strlen(f->doc) > 0);
        if (f->def)
            assert_ok(field_set(f, &r, f->def, 0, &err), &err);
        if (f->type == FIELD_INT)
            assert_true(f->min >= -1 && f->max > 0 && f->max <= INT32_MAX);
    }
    recipe_release(&r);
}

static void test_help_names_every_key(void **state)
{
    char *text = NULL;
    size_t size;
    FILE *fp = open_memstream(&text, &size);

    (void)state;
    recipe_help(fp, 1);
    fclose(fp);
    for (int i = 0; i < n_fields; i++) {
        char row[96];
        snprintf(row, sizeof(row), "| `%s` |", fields[i].key);
        assert_non_null(strstr(text, row));
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_and_overrides),
        cmocka_unit_test(test_all_problems_with_lines),
        cmocka_unit_test(test_e01_e04_in_a_recipe),
        cmocka_unit_test(test_dotted_keys_are_the_same_keys),
        cmocka_unit_test(test_variables_of_ranks),
        cmocka_unit_test(test_rules_across_keys),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_print_reads_back),
        cmocka_unit_test(test_set_and_get),
        cmocka_unit_test(test_e10_layouts),
        cmocka_unit_test(test_e10_reasons),
        cmocka_unit_test(test_f13_g02_batch),
        cmocka_unit_test(test_shipped_recipes),
        cmocka_unit_test(test_field_table),
        cmocka_unit_test(test_help_names_every_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
