/* What a recipe says to Slurm, and what Slurm's words about a waiting job mean. */
#include "test.h"

#include "base/str.h"
#include "launcher/slurm_options.h"
#include "launcher/slurm_reason.h"
#include "launcher/slurm_setup.h"
#include "launcher/slurm_source.h"
#include "launcher/slurm_wait.h"
#include "recipes/recipe.h"
#include "topology/topology.h"

static void set(struct recipe *r, const char *key, const char *text)
{
    struct err err = ERR_INIT;

    assert_ok(recipe_set(r, key, text, &err), &err);
}

/* The words, one a line. */
static void assert_words(struct strlist *got, const char *want)
{
    struct str s = STR_INIT;

    for (int i = 0; i < got->n; i++)
        str_addf(&s, "%s\n", got->item[i]);
    assert_string_equal(s.text ? s.text : "", want);
    str_release(&s);
    strlist_release(got);
}

static void test_job_and_step(void **state)
{
    struct strlist job = { 0 }, step = { 0 };
    struct err err = ERR_INIT;
    struct recipe r;

    (void)state;
    recipe_init(&r);
    set(&r, "cluster.gpus_per_node", "8");
    assert_ok(slurm_alloc_options(&r, 20, &job, &err), &err);
    assert_words(&job, "--nodes=3\n--ntasks-per-node=8\n--gres=gpu:8\n"
                       "--job-name=muster\n--no-kill\n--signal=USR1@120\n");
    set(&r, "cluster.slurm.partition", "a,b");
    set(&r, "cluster.slurm.time", "90m");
    set(&r, "cluster.slurm.gres", "none");
    set(&r, "cluster.slurm.args",
        "[-p, long, --mpi=pmix_v4, --hint=x, --mem=0, -K0, --container-image=i, "
        "'--gpus-"
        "per-node=8', --network, ib]");
    assert_ok(slurm_alloc_options(&r, 4, &job, &err), &err);
    assert_words(&job,
                 "--nodes=1\n--ntasks-per-node=4\n--job-name=muster\n--no-kill\n--"
                 "signal=USR1@120\n"
                 "--partition=a,b\n--time=0-01:30:00\n-p\nlong\n--hint=x\n--mem=0\n"
                 "--gpus-per-node=8\n--network\nib\n");
    slurm_step_options(&r, &step);
    assert_words(&step, "--mpi=pmix_v4\n--hint=x\n-K0\n--container-image=i\n"
                        "--network\nib\n");
    set(&r, "cluster.slurm.time", "unlimited");
    set(&r, "cluster.slurm.args", "[]");
    assert_ok(slurm_alloc_options(&r, 1, &job, &err), &err);
    assert_words(&job, "--nodes=1\n--ntasks-per-node=1\n--job-name=muster\n--no-kill\n-"
                       "-signal=USR1@120\n"
                       "--partition=a,b\n--time=UNLIMITED\n");
    recipe_release(&r);
}

static void test_refused_options(void **state)
{
    static const char *const no[] = { "[--nodes=2, ':', --nodes=1]",
                                      "[--array=1-3]",
                                      "[-a, 1-3]",
                                      "[--wrap=x]",
                                      "[--requeue]",
                                      "[--no-requeue]",
                                      "[--signal=USR1]",
                                      "[--pty]" };
    struct strlist job = { 0 };
    struct err err = ERR_INIT;
    struct recipe r;

    (void)state;
    recipe_init(&r);
    set(&r, "cluster.gpus_per_node", "8");
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        set(&r, "cluster.slurm.args", no[i]);
        assert_err(slurm_alloc_options(&r, 8, &job, &err), &err, ERR_USAGE,
                   "cannot stand there");
    }
    recipe_release(&r);
}

/* An option that only salloc knows, or a variable for it, takes it there. */
static void test_who_asks(void **state)
{
    struct recipe r;
    char *why;

    (void)state;
    recipe_init(&r);
    set(&r, "cluster.slurm.args", "[--mpi=pmix]");
    assert_null(slurm_needs_salloc(&r));
    set(&r, "cluster.slurm.args", "[--switches=1]");
    why = slurm_needs_salloc(&r);
    assert_string_equal(why, "cluster.slurm.args has --switches=1");
    free(why);
    set(&r, "cluster.slurm.args", "[]");
    setenv("SALLOC_PARTITION", "x", 1);
    why = slurm_needs_salloc(&r);
    assert_string_equal(why, "SALLOC_PARTITION is set");
    free(why);
    unsetenv("SALLOC_PARTITION");
    recipe_release(&r);
}

static void test_reasons(void **state)
{
    static const struct {
        const char *word;
        enum slurm_hope hope;
    } rows[] = {
        { "Resources", SLURM_HOPE_WAITS },
        { "Priority", SLURM_HOPE_WAITS },
        { "None", SLURM_HOPE_WAITS },
        { "a word of next year", SLURM_HOPE_WAITS },
        { "ReqNodeNotAvail, UnavailableNodes:n[1-2]", SLURM_HOPE_HELP },
        { "JobHeldUser", SLURM_HOPE_HELP },
        { "PartitionDown", SLURM_HOPE_HELP },
        { "Reservation", SLURM_HOPE_WAITS },
        { "ReservationDeleted", SLURM_HOPE_NEVER },
        { "Dependency", SLURM_HOPE_WAITS },
        { "DependencyNeverSatisfied", SLURM_HOPE_NEVER },
        { "PartitionTimeLimit", SLURM_HOPE_NEVER },
        { "BadConstraints", SLURM_HOPE_NEVER },
        { "QOSMaxNodePerJobLimit", SLURM_HOPE_NEVER },
        { "AssocMaxWallDurationPerJobLimit", SLURM_HOPE_NEVER },
        { "QOSMaxNodePerUserLimit", SLURM_HOPE_WAITS },
        { "AssocGrpGRES", SLURM_HOPE_WAITS },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (slurm_reason_of(rows[i].word).hope != rows[i].hope)
            fail_msg("%s", rows[i].word);
    assert_non_null(strstr(slurm_refusal_cure("Invalid partition name specified"),
                           "cluster.slurm.partition"));
    assert_string_equal(slurm_refusal_cure("something else"), "");
}

static void test_job_record(void **state)
{
    struct slurm_wait w = { .job = "7" };

    (void)state;
    assert_int_equal(slurm_wait_read(&w, "JobId=7 JobName=muster\n   JobState=PENDING "
                                         "Reason=Nodes_required_for_job_are_DOWN "
                                         "Dependency=(null)\n   StartTime=Unknown\n"),
                     0);
    assert_string_equal(w.state, "PENDING");
    assert_string_equal(w.reason, "Nodes required for job are DOWN");
    assert_string_equal(w.starts, "Unknown");
    assert_int_equal(slurm_wait_read(&w, ""), -1);
    assert_int_equal(slurm_wait_read(&w, "scontrol says something else\n"), -1);
}

static struct topology *nodes(int n)
{
    struct topology *t = topology_new("slurm", 0);

    for (int i = 0; i < n; i++)
        snprintf(topology_add_node(t)->name, 64, "n%d", i + 1);
    return t;
}

static void test_setup_on_nodes(void **state)
{
    struct strlist bad = { 0 };
    struct topology *t = nodes(12);
    struct err err = ERR_INIT;
    struct str all = STR_INIT;

    (void)state;
    for (int i = 1; i <= 12; i++)
        str_addf(&all, "muster-setup n%d 0 fine\n", i);
    assert_ok(slurm_setup_judge(t, "prepare", all.text, 0, "", NULL, &err), &err);
    /* n1 is not n10, n11, n12, and lines of others are not reports */
    assert_err(
        slurm_setup_judge(t, "prepare", strchr(all.text, '\n') + 1, 1, "", NULL, &err),
        &err, ERR_TIMEOUT, "prepare is not done in time on n1");
    str_addf(&all, "x muster-setup n3 9 no\n");
    assert_ok(slurm_setup_judge(t, "prepare", all.text, 0, "", NULL, &err), &err);
    str_clear(&all);
    str_adds(&all, "muster-setup n11 139 \nmuster-setup n2 7 disk is full\n");
    assert_err(slurm_setup_judge(t, "prepare", all.text, 0, "", &bad, &err), &err,
               ERR_FAILED, "prepare failed on n2, n11: status 7: disk is full");
    assert_int_equal(bad.n, 12); /* with those that did not say a word */
    assert_string_equal(bad.item[1], "n2");
    strlist_release(&bad);
    assert_err(slurm_setup_judge(t, "prepare", NULL, 0, "srun: no", NULL, &err), &err,
               ERR_FAILED,
               "did not end on n1, n2, n3, n4, n5, n6, n7, n8 and 4 more: srun said: "
               "srun: no");
    str_release(&all);
    topology_free(t);
}

static void test_nodes_of_the_cluster(void **state)
{
    static const char text[] =
        "NodeName=a CPUTot=64 ThreadsPerCore=2 Sockets=2 RealMemory=1000\n"
        "   Gres=gpu:h100:4(S:0-1),gpu:h200_3g.71gb:6,nvme:1\n   State=IDLE+DRAIN\n"
        "   Partitions=x,long \n   Reason=xid 79 [root@now]\n\n"
        "NodeName=b CPUTot=8 Sockets=1\n   Gres=(null)\n   State=DOWN*\n"
        "   Partitions=x \n\n"
        "NodeName=c CPUTot=8\n   State=MIXED\n   Partitions=longer \n";
    struct err err = ERR_INIT;
    struct topology *t;

    (void)state;
    assert_ok(topology_from_slurm_nodes(text, strlen(text), NULL, &t, &err), &err);
    assert_int_equal(t->n_nodes, 3);
    assert_int_equal(t->nodes[0].n_gpus, 4); /* slices are none */
    assert_string_equal(t->nodes[0].gpus[3].name, "H100");
    assert_int_equal(t->nodes[0].cores, 32);
    assert_int_equal(t->nodes[0].memory_bytes, 1000LL << 20);
    assert_int_equal(t->n_findings, 2);
    assert_string_equal(t->findings[0].object, "a");
    assert_non_null(strstr(t->findings[0].text, "xid 79"));
    assert_string_equal(t->findings[1].object, "b");
    topology_free(t);
    assert_ok(topology_from_slurm_nodes(text, strlen(text), "long,y", &t, &err), &err);
    assert_int_equal(t->n_nodes, 1);
    topology_free(t);
    assert_err(topology_from_slurm_nodes(text, strlen(text), "lon", &t, &err), &err,
               ERR_FAILED, "no nodes in partition lon");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_and_step),
        cmocka_unit_test(test_refused_options),
        cmocka_unit_test(test_who_asks),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_job_record),
        cmocka_unit_test(test_setup_on_nodes),
        cmocka_unit_test(test_nodes_of_the_cluster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
