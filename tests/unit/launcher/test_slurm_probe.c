/* What nodes of a job say of themselves, against what Slurm says of them. */
#include "test.h"

#include "base/js.h"
#include "base/str.h"
#include "launcher/slurm_probe.h"
#include "topology/topology.h"

static struct topology *by_slurm(void)
{
    struct topology *t = topology_new("slurm", 3);

    snprintf(topology_add_switch(t)->name, 64, "leaf0");
    for (int i = 0; i < 3; i++) {
        snprintf(t->nodes[i].name, sizeof(t->nodes[i].name), "n%d", i + 1);
        t->nodes[i].leaf = 0;
        t->nodes[i].slots = 4;
        topology_add_gpu(&t->nodes[i]);
        topology_add_gpu(&t->nodes[i]);
    }
    return t;
}

/* A node's lines, in pieces that others come between. */
static void say(struct str *out, const char *name, int gpus, int half)
{
    struct topology *t = topology_new("sysfs", 1);
    struct js *o;
    char *line;
    size_t n;

    snprintf(t->nodes[0].name, sizeof(t->nodes[0].name), "%s", name);
    for (int i = 0; i < gpus; i++)
        snprintf(topology_add_gpu(&t->nodes[0])->name, 64, "NVIDIA H200");
    topology_find(t, SEVERITY_FAIL, name, "fan");
    o = topology_json(t);
    line = js_line(o);
    n = strlen(line) / 2;
    if (half == 0)
        str_addf(out, "muster-look %s %.*s\n", name, (int)n, line);
    else
        str_addf(out, "noise\nmuster-look %s %s\n", name, line + n);
    free(line);
    js_free(o);
    topology_free(t);
}

static int found(const struct topology *t, const char *object, const char *part)
{
    for (int i = 0; i < t->n_findings; i++)
        if (strcmp(t->findings[i].object, object) == 0 &&
            strstr(t->findings[i].text, part))
            return 1;
    return 0;
}

static void test_join(void **state)
{
    struct topology *t = by_slurm();
    struct str said = STR_INIT;
    struct err err = ERR_INIT;

    (void)state;
    say(&said, "n1", 2, 0);
    say(&said, "n2", 1, 0);
    say(&said, "n1", 2, 1);
    say(&said, "n2", 1, 1);
    assert_ok(slurm_probe_join(&t, said.text, "node n3 is away", &err), &err);
    assert_int_equal(t->n_nodes, 3);
    assert_int_equal(t->n_switches, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(t->nodes[i].leaf, 0);
        assert_int_equal(t->nodes[i].slots, 4);
    }
    assert_string_equal(t->nodes[0].gpus[1].name, "NVIDIA H200");
    assert_int_equal(t->nodes[1].n_gpus, 1); /* as it is */
    assert_true(found(t, "n2", "Slurm gives the job 2 GPUs here, 1 are seen"));
    assert_true(found(t, "n1", "fan"));
    assert_int_equal(t->nodes[2].n_gpus, 2); /* as Slurm has it */
    assert_true(found(t, "n3", "does not answer"));
    assert_true(found(t, "n3", "node n3 is away"));
    assert_int_equal(t->n_findings, 4);
    topology_free(t);
    str_release(&said);
}

static void test_nobody(void **state)
{
    static const char *const said[] = { "", "muster-look n1 {\"schema\": 1",
                                        "noise\n" };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct topology *t = by_slurm();
        struct err err = ERR_INIT;
        assert_err(slurm_probe_join(&t, said[i], "", &err), &err, ERR_FAILED,
                   "no node of the job says what it is: srun said nothing");
        topology_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_join),
                                        cmocka_unit_test(test_nobody) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
