/* Slurm's texts: cases B06, B07, B13, B14, C02, C14, and scontrol's records. */
#include "recipes/slurm_signal.h"
#include "slurm_cases.h"
#include "topology/cpulist.h"
#include "topology/slurm_gres.h"
#include "topology/slurm_job.h"
#include "topology/slurm_record.h"
#include "topology/slurm_state.h"

/* --- GRES --------------------------------------------------------------------------- */

/* The third column of b06: "h200=2 h200_3g.71gb=6 (MIG slices)". */
static char *types_text(const struct gres *g)
{
    struct str s = STR_INIT;
    int untyped_tres = 0;

    str_adds(&s, "");
    for (int i = 0; i < g->n; i++)
        untyped_tres |= g->item[i].tres && !g->item[i].type[0];
    for (int i = 0; i < g->n; i++) {
        const struct gres_item *m = &g->item[i];
        if (strcmp(m->name, "gpu") != 0 || (m->tres && !m->type[0]))
            continue;
        str_addf(&s, "%s%s=%lld%s", s.len ? " " : "", m->type[0] ? m->type : "(none)",
                 (long long)m->count, m->mig ? " (MIG slices)" : "");
    }
    if (untyped_tres)
        str_adds(&s, " (the untyped total is not added again)");
    return s.len ? str_take(&s) : (str_adds(&s, "-"), str_take(&s));
}

/* The fourth: "S 0-1", "IDX 0 4 5", "IDX none". */
static char *place_text(const struct gres *g)
{
    struct str s = STR_INIT;
    struct cpulist set;

    if (g->n == 0 || g->item[0].place == GRES_NOWHERE)
        return xstrdup("-");
    if (g->item[0].place == GRES_SOCKETS)
        return xasprintf("S %s", g->item[0].where);
    gres_where(&g->item[0], &set);
    str_adds(&s, "IDX");
    for (int i = 0; i < CPULIST_MAX; i++)
        if (cpulist_has(&set, i))
            str_addf(&s, " %d", i);
    if (cpulist_count(&set) == 0)
        str_adds(&s, " none");
    return str_take(&s);
}

static void row_b06(char **column, int n)
{
    struct gres g = { 0 };
    struct err err = ERR_INIT;
    char *types, *place, *want = xstrdup(column[2]), *note;

    assert_int_equal(n, 4);
    assert_ok(gres_parse(column[0], &g, &err), &err);
    if (gres_count(&g, "gpu") != atoll(column[1]))
        fail_msg("%s: %lld GPUs", column[0], (long long)gres_count(&g, "gpu"));
    types = types_text(&g);
    place = place_text(&g);
    if ((note = strstr(want, " (count omitted")) || (note = strstr(want, " (K suffix")))
        *note = '\0'; /* remarks of the table */
    assert_string_equal(types, want);
    assert_string_equal(place, column[3]);
    free(types);
    free(place);
    free(want);
    gres_release(&g);
}

static void test_b06_gres(void **state)
{
    (void)state;
    assert_int_equal(case_rows("tests/cases/b06_gres.tsv", row_b06), 17);
}

static void test_gres_more(void **state)
{
    static const struct {
        const char *text;
        int64_t gpus, whole;
    } rows[] = {
        { "gpu:h200:2(S:0-1),gpu:h200_3g.71gb:6(S:0-1)", 8, 2 },
        { "gpu:b200:8(IDX:0-7)", 8, 8 },
        { "gres:gpu:b200:8", 8, 8 },
        { "gres/gpu:b200:4", 4, 4 },
        { "billing=64,cpu=64,mem=960G,node=1,gres/gpu=8,gres/gpu:h100=8", 8, 8 },
        { "gres/gpu:a=2,gres/gpu:b=3", 5, 5 },
        { "gpu:1g.10gb:7", 7, 0 },
        { "gpu:a100:no_consume:4,shard:32", 4, 4 },
        { "gpu:2080ti:2", 2, 2 },
        { "gpu:8(CNT:8)", 8, 8 },
        { " gpu:2 , gpu:x:1 ,", 3, 3 },
        { "gpu", 1, 1 },
        { "N/A", 0, 0 },
        { "", 0, 0 },
    };
    static const char *const bad[] = {
        "gpu:8(S:0-1",   "gpu:8(S:0-1)x",  "gpu:h100:many",
        "gpu:a:b:c",     "gpu:8(IDX:0-x)", ":8",
        "gres/gpu=",     "gres/gpu=x",     "gpu:9999999999999999999999",
        "gpu:h 1\001:1",
    };
    struct err err = ERR_INIT;
    struct gres g;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_ok(gres_parse(rows[i].text, &g, &err), &err);
        if (gres_count(&g, "gpu") != rows[i].gpus ||
            gres_whole_gpus(&g) != rows[i].whole)
            fail_msg("%s: %lld, %lld whole", rows[i].text,
                     (long long)gres_count(&g, "gpu"), (long long)gres_whole_gpus(&g));
        gres_release(&g);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_err(gres_parse(bad[i], &g, &err), &err, ERR_USAGE, "GRES '");
}

/* --- states ------------------------------------------------------------------------- */

static void row_b07(char **column, int n)
{
    static const struct {
        const char *begins;
        enum slurm_use use;
        const char *why;
    } answers[] = {
        { "yes (partial; planned", SLURM_USE_PARTIAL, "planned by backfill" },
        { "yes (partial", SLURM_USE_PARTIAL, "partly in use" },
        { "yes", SLURM_USE_YES, "idle" },
        { "no until powered up", SLURM_USE_LATER, "powered off" },
        { "not yet (powering up)", SLURM_USE_LATER, "powering up" },
        { "no (maintenance reservation)", SLURM_USE_INSIDE, "maintenance reservation" },
        { "only inside that reservation", SLURM_USE_INSIDE, "reserved" },
        { "no (still running jobs)", SLURM_USE_NO, "still running jobs" },
        { "no (not responding)", SLURM_USE_NO, "not responding" },
        { "no", SLURM_USE_NO, "" },
    };
    struct slurm_state s;

    assert_int_equal(n, 3);
    slurm_state_parse(column[0], &s);
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        if (strncmp(column[2], answers[i].begins, strlen(answers[i].begins)) != 0)
            continue;
        if (s.use != answers[i].use || !strstr(s.why, answers[i].why))
            fail_msg("%s: use %d, %s (wanted %s)", column[0], (int)s.use, s.why,
                     column[2]);
        assert_int_equal(slurm_state_usable(&s), strncmp(column[2], "yes", 3) == 0);
        return;
    }
    fail_msg("no answer for '%s'", column[2]);
}

static void test_b07_states(void **state)
{
    (void)state;
    assert_int_equal(case_rows("tests/cases/b07_states.tsv", row_b07), 17);
}

static void state_is(const char *text, enum slurm_use use, const char *why)
{
    struct slurm_state s;

    slurm_state_parse(text, &s);
    assert_int_equal(s.use, use);
    assert_string_equal(s.why, why);
}

static void test_states_more(void **state)
{
    (void)state;
    state_is("ALLOCATED", SLURM_USE_LATER, "in use");
    state_is("alloc*", SLURM_USE_NO, "not responding, still running jobs");
    state_is("IDLE+FROBNICATED", SLURM_USE_NO, "unknown state 'FROBNICATED'");
    state_is("", SLURM_USE_NO, "unknown state ''");
    state_is("IDLE+", SLURM_USE_NO, "unknown state ''");
    state_is("*", SLURM_USE_NO, "not responding, unknown state ''");
    state_is("drain\033[1m", SLURM_USE_NO, "unknown state 'drain?[1m'");
    state_is("DOWN*~+DRAIN", SLURM_USE_NO, "not responding, down, drained");
}

/* --- records ------------------------------------------------------------------------ */

static void record_is(const struct slurm_record *r, const char *key, const char *want)
{
    const char *got = slurm_record_get(r, key);

    if (!got || strcmp(got, want) != 0)
        fail_msg("%s: '%s' (wanted '%s')", key, got ? got : "(absent)", want);
}

static const char nodes_text[] =
    "NodeName=gn01 Arch=x86_64 CoresPerSocket=56 \n"
    "   CPUAlloc=0 CPUTot=224 CPULoad=0.03\n"
    "   AvailableFeatures=(null)\n"
    "   Gres=gpu:b200:8(S:0-1)\n"
    "   NodeAddr=gn01 NodeHostName=gn01 Version=22.05.8\n"
    "   OS=Linux 6.1.0-13 #1 SMP a=b State=DOWN UTC 2026 \n"
    "   RealMemory=2000000 AllocMem=0 FreeMem=N/A Sockets=2 Boards=1\n"
    "   State=IDLE+DRAIN ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A\n"
    "   CfgTRES=cpu=224,mem=2000000M,billing=224,gres/gpu=8\n"
    "   AllocTRES=\n"
    "   Comment=swap psu=2 Reason=none yet\n"
    "   Reason=IB port=down State=IDLE  again [root@2026-02-03T10:00:00]\n"
    "\n"
    "NodeName=gn02 Arch=x86_64\n"
    "   State=IDLE\n";

static void test_records(void **state)
{
    struct slurm_records all;
    struct err err = ERR_INIT;
    const struct slurm_record *r;

    (void)state;
    assert_ok(slurm_records_parse(nodes_text, strlen(nodes_text), "t", &all, &err),
              &err);
    assert_int_equal(all.n, 2);
    r = &all.record[0];
    record_is(r, "NodeName", "gn01");
    record_is(r, "CoresPerSocket", "56");
    assert_null(slurm_record_get(r, "AvailableFeatures"));
    assert_null(slurm_record_get(r, "Missing"));
    record_is(r, "OS", "Linux 6.1.0-13 #1 SMP a=b State=DOWN UTC 2026");
    record_is(r, "State", "IDLE+DRAIN");
    record_is(r, "CfgTRES", "cpu=224,mem=2000000M,billing=224,gres/gpu=8");
    record_is(r, "AllocTRES", "");
    record_is(r, "Comment", "swap psu=2 Reason=none yet");
    record_is(r, "Reason", "IB port=down State=IDLE  again [root@2026-02-03T10:00:00]");
    record_is(&all.record[1], "State", "IDLE");
    assert_int_equal(all.record[1].line, 14);
    slurm_records_release(&all);
}

static void test_records_one_line(void **state)
{
    static const char text[] =
        "NodeName=gn01 OS=Linux x=1 y RealMemory=5 State=IDLE Comment=a=b c "
        "Reason=bad State=DOWN RealMemory=9 [root@x]\n"
        "JobId=7 JobName=my run=3 UserId=u(1) JobState=PENDING Reason=Resources "
        "Dependency=(null) Socks/Node=* NtasksPerN:B:S:C=8:0:*:* Command=/a b=c d "
        "WorkDir=/w\n"
        "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
        "SwitchName=s1 Level=1 LinkSpeed=1 Nodes=n[1-2] Switches=s0\n";
    struct slurm_records all;
    struct err err = ERR_INIT;

    (void)state;
    assert_ok(slurm_records_parse(text, strlen(text), "t", &all, &err), &err);
    assert_int_equal(all.n, 4);
    record_is(&all.record[0], "OS", "Linux x=1 y");
    record_is(&all.record[0], "RealMemory", "5");
    record_is(&all.record[0], "Comment", "a=b c");
    record_is(&all.record[0], "Reason", "bad State=DOWN RealMemory=9 [root@x]");
    record_is(&all.record[1], "JobName", "my run=3");
    record_is(&all.record[1], "Reason", "Resources");
    assert_null(slurm_record_get(&all.record[1], "Dependency"));
    record_is(&all.record[1], "Socks/Node", "*");
    record_is(&all.record[1], "NtasksPerN:B:S:C", "8:0:*:*");
    record_is(&all.record[1], "Command", "/a b=c d");
    record_is(&all.record[1], "WorkDir", "/w");
    record_is(&all.record[3], "Switches", "s0");
    slurm_records_release(&all);
}

/* What Slurm 22.05.8 printed of a drained node and of a job with an odd name. */
static void test_records_recorded(void **state)
{
    static const char text[] =
        "NodeName=n3 Arch=x86_64 CoresPerSocket=32 \n"
        "   CPUAlloc=0 CPUEfctv=64 CPUTot=64 CPULoad=22.08\n"
        "   Gres=gpu:b200:8\n"
        "   OS=Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0 \n"
        "   State=IDLE+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A\n"
        "   Partitions=batch \n"
        "   AllocTRES=\n"
        "   Reason=IB port=down State=IDLE x  y [root@2026-11-30T02:45:48]\n"
        "   Comment=swap psu=2 Reason=none\n"
        "\n"
        "JobId=1 JobName=my run=3 State=X\n"
        "   UserId=root(0) GroupId=root(0) MCS_label=N/A\n"
        "   JobState=RUNNING Reason=None Dependency=(null)\n"
        "   JOB_GRES=gpu:b200:4\n"
        "     Nodes=n1 CPU_IDs=0-3,32-34 Mem=0 GRES=gpu:b200:2(IDX:0-1)\n"
        "     Nodes=n2 CPU_IDs=0 Mem=0 GRES=gpu:b200:2(IDX:0-1)\n"
        "   Comment=a b=c \n"
        "   StdErr=/dev/null\n"
        "   Power=\n"
        "   TresPerNode=gres:gpu:b200:2\n"
        "   \n"
        "\n"
        "NodeName=n3 Arch=x86_64 CoresPerSocket=32  OS=Linux 6.18.44 #1 SMP @0  "
        "RealMemory=16000 State=IDLE+DRAIN Reason=IB port=down State=IDLE x  y "
        "[root@2026-11-30T02:45:48] Comment=swap psu=2 Reason=none\n";
    struct slurm_records all;
    struct err err = ERR_INIT;
    struct gres g;

    (void)state;
    assert_ok(slurm_records_parse(text, strlen(text), "t", &all, &err), &err);
    assert_int_equal(all.n, 3);
    for (int i = 0; i < 3; i += 2) {
        record_is(&all.record[i], "State", "IDLE+DRAIN");
        record_is(&all.record[i], "Comment", "swap psu=2 Reason=none");
        record_is(&all.record[i], "Reason",
                  "IB port=down State=IDLE x  y [root@2026-11-30T02:45:48]");
    }
    record_is(&all.record[1], "JobName", "my run=3 State=X");
    record_is(&all.record[1], "Comment", "a b=c");
    record_is(&all.record[1], "Reason", "None");
    record_is(&all.record[1], "Power", "");
    assert_ok(gres_parse(slurm_record_get(&all.record[1], "TresPerNode"), &g, &err),
              &err);
    assert_int_equal(gres_count(&g, "gpu"), 2);
    gres_release(&g);
    slurm_records_release(&all);
}

static void test_records_odd(void **state)
{
    static const char joined[] =
        "NodeName=a\n   Comment=one\n   two three\n   State=X\n";
    struct slurm_records all;
    struct err err = ERR_INIT;

    (void)state;
    assert_ok(slurm_records_parse("", 0, "t", &all, &err), &err);
    assert_int_equal(all.n, 0);
    slurm_records_release(&all);
    assert_ok(slurm_records_parse(joined, strlen(joined), "t", &all, &err), &err);
    record_is(&all.record[0], "State", "X");
    assert_non_null(strstr(slurm_record_get(&all.record[0], "Comment"), "two three"));
    slurm_records_release(&all);
    assert_err(slurm_records_parse("slurm_load_node error\n", 22, "t", &all, &err),
               &err, ERR_USAGE, "t:1: 'slurm_load_node error' is no KEY=VALUE");
    assert_err(slurm_records_parse("A=1\0B=2", 7, "t", &all, &err), &err, ERR_USAGE,
               "NUL");
}

/* --- tasks per node ------------------------------------------------------------------ */

static void test_tasks_per_node(void **state)
{
    static const char *const bad[] = { "",
                                       ",2",
                                       "2,",
                                       "2(x)",
                                       "2(x0)",
                                       "2(3)",
                                       "2(x3",
                                       "a",
                                       "-1",
                                       "2(x3)4",
                                       "2 (x3)",
                                       "8(x999999999)",
                                       "99999999999999999999" };
    struct err err = ERR_INIT;
    int *tasks = NULL, n = 0;

    (void)state;
    assert_ok(slurm_tasks_per_node("4(x3),2,0", 5, 14, &tasks, &n, &err), &err);
    assert_int_equal(n, 5);
    assert_int_equal(tasks[2], 4);
    assert_int_equal(tasks[3], 2);
    assert_int_equal(tasks[4], 0);
    free(tasks);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_err(slurm_tasks_per_node(bad[i], -1, -1, &tasks, &n, &err), &err,
                   ERR_USAGE, "tasks per node '");
    assert_err(slurm_tasks_per_node("8(x2)", 3, -1, &tasks, &n, &err), &err, ERR_USAGE,
               "about 2 nodes, not 3");
    assert_err(slurm_tasks_per_node("8(x2)", 2, 17, &tasks, &n, &err), &err, ERR_USAGE,
               "adds up to 16, not 17");
}

/* --- the allocation ------------------------------------------------------------------- */

/* As environ is declared. */
#define ENV(e) ((char *const *)(e))

static void nodes_are(const char *const *env, int group, const char *want)
{
    struct err err = ERR_INIT;
    struct strlist nodes = { 0 };
    struct slurm_job j;
    char *got;

    assert_ok(slurm_job_from_env(ENV(env), &j, &err), &err);
    assert_ok(slurm_job_nodes(&j, group, &nodes, &err), &err);
    got = case_join(&nodes, " ");
    assert_string_equal(got, want);
    free(got);
    strlist_release(&nodes);
    slurm_job_release(&j);
}

static void master_is(const char *const *env, int group, const char *want)
{
    struct err err = ERR_INIT;
    char host[256];

    assert_ok(slurm_job_master(ENV(env), group, host, &err), &err);
    assert_string_equal(host, want);
}

static void test_c02_master(void **state)
{
    const char *env[] = { "SLURM_JOB_ID=5", "SLURM_LAUNCH_NODE_IPADDR=192.0.2.9",
                          "SLURM_JOB_NODELIST=gn[07-08]", NULL, NULL };

    (void)state;
    master_is(env, -1, "gn07");
    env[3] = "MASTER_ADDR=gn08-ib";
    master_is(env, -1, "gn08-ib");
    env[3] = "MASTER_ADDR=";
    master_is(env, -1, "gn07");
}

static void test_b13_hostfile(void **state)
{
    const char *env[] = { "SLURM_JOB_NODELIST=compute-[571,743,811,866]",
                          "SLURM_HOSTFILE=tests/cases/b13_hostfile.txt",
                          "SLURM_DISTRIBUTION=arbitrary", "SLURM_NTASKS=4", NULL };
    struct strlist nodes = case_expand("compute-[571,743,811,866]"), ranks = { 0 };
    struct strlist few = case_expand("compute-[571,743,811]");
    struct err err = ERR_INIT;
    char *got, host[256];

    (void)state;
    assert_ok(slurm_hostfile_read("tests/cases/b13_hostfile.txt", &nodes, &ranks, &err),
              &err);
    got = case_join(&ranks, " ");
    assert_string_equal(got, "compute-811 compute-866 compute-571 compute-743");
    free(got);
    strlist_release(&ranks);
    assert_err(slurm_hostfile_read("tests/cases/b13_hostfile.txt", &few, &ranks, &err),
               &err, ERR_USAGE,
               "b13_hostfile.txt:2: host compute-866 is not in the allocation");
    master_is(env, -1, "compute-811");
    env[2] = "SLURM_DISTRIBUTION=block";
    master_is(env, -1, "compute-571");
    env[2] = "SLURM_DISTRIBUTION=arbitrary";
    env[0] = "SLURM_JOB_NODELIST=compute-[571,743,811]";
    assert_err(slurm_job_master(ENV(env), -1, host, &err), &err, ERR_USAGE,
               "compute-866");
    env[1] = "SLURM_HOSTFILE=/nonexistent";
    assert_err(slurm_job_master(ENV(env), -1, host, &err), &err, ERR_MISSING,
               "nonexistent");
    strlist_release(&nodes);
    strlist_release(&few);
}

static void test_hostfile_forms(void **state)
{
    static const char text[] = "# order\r\nb*2, a\r\n\r\nc[1-2]*2 # two each\n";
    struct strlist ranks = { 0 };
    struct err err = ERR_INIT;
    char *got;

    (void)state;
    assert_ok(slurm_hostfile_parse(text, "h", NULL, &ranks, &err), &err);
    got = case_join(&ranks, " ");
    assert_string_equal(got, "b b a c1 c1 c2 c2");
    free(got);
    strlist_release(&ranks);
    assert_err(slurm_hostfile_parse("# none\n", "h", NULL, &ranks, &err), &err,
               ERR_USAGE, "h names no host");
    assert_err(slurm_hostfile_parse("a\nb*0\n", "h", NULL, &ranks, &err), &err,
               ERR_USAGE, "h:2: behind b*");
    assert_err(slurm_hostfile_parse("a*131072,b", "h", NULL, &ranks, &err), &err,
               ERR_USAGE, "more than 131072 tasks");
    assert_err(slurm_hostfile_parse("a\nn[1-2\n", "h", NULL, &ranks, &err), &err,
               ERR_USAGE, "h:2: host list 'n[1-2'");
}

static void test_b14_het(void **state)
{
    const char *env[] = { "SLURM_JOB_ID=9",
                          "SLURM_HET_SIZE=2",
                          "SLURM_JOB_NODELIST=a[1-2]",
                          "SLURM_JOB_NODELIST_HET_GROUP_0=a[1-2]",
                          "SLURM_TASKS_PER_NODE_HET_GROUP_0=8(x2)",
                          "SLURM_JOB_NODELIST_HET_GROUP_1=b1",
                          NULL };
    struct err err = ERR_INIT;
    struct strlist nodes = { 0 };
    struct slurm_job j;
    char host[256];

    (void)state;
    nodes_are(env, 0, "a1 a2");
    nodes_are(env, 1, "b1");
    nodes_are(env, -1, "a1 a2 b1");
    master_is(env, 0, "a1");
    master_is(env, 1, "b1");
    assert_ok(slurm_job_from_env(ENV(env), &j, &err), &err);
    assert_int_equal(j.n_groups, 2);
    assert_int_equal(j.group[0].n_tasks, 16);
    assert_int_equal(j.group[1].n_tasks, -1);
    assert_err(slurm_job_nodes(&j, 2, &nodes, &err), &err, ERR_USAGE,
               "no component 2 of job 9");
    slurm_job_release(&j);
    env[5] = "SLURM_JOB_NODELIST_HET_GROUP_1=a[2-3]"; /* joined, a2 would run twice */
    assert_err(
        (slurm_job_from_env(ENV(env), &j, &err), slurm_job_nodes(&j, -1, &nodes, &err)),
        &err, ERR_USAGE, "share node a2");
    slurm_job_release(&j);
    env[5] = "X=1"; /* never component 0 in its place */
    assert_err(slurm_job_from_env(ENV(env), &j, &err), &err, ERR_USAGE,
               "SLURM_JOB_NODELIST_HET_GROUP_1 is not set");
    assert_err(slurm_job_master(ENV(env), 1, host, &err), &err, ERR_USAGE, "GROUP_1");
    env[1] = "SLURM_HET_SIZE=0";
    assert_err(slurm_job_from_env(ENV(env), &j, &err), &err, ERR_USAGE,
               "SLURM_HET_SIZE");
}

static void test_allocation_must_agree(void **state)
{
    const char *env[] = { "SLURM_JOB_NODELIST=n[1-4]", "SLURM_JOB_NUM_NODES=4",
                          "SLURM_TASKS_PER_NODE=8(x4)", NULL };
    const char *none[] = { "HOME=/", NULL };
    struct err err = ERR_INIT;
    struct slurm_job j;

    (void)state;
    assert_ok(slurm_job_from_env(ENV(env), &j, &err), &err);
    assert_int_equal(j.group[0].n_tasks, 32);
    assert_int_equal(j.het, 0);
    slurm_job_release(&j);
    env[1] = "SLURM_JOB_NUM_NODES=5";
    assert_err(slurm_job_from_env(ENV(env), &j, &err), &err, ERR_USAGE,
               "SLURM_JOB_NUM_NODES is '5', but the node list has 4");
    env[1] = "X=";
    env[2] = "SLURM_TASKS_PER_NODE=8(x3)";
    assert_err(slurm_job_from_env(ENV(env), &j, &err), &err, ERR_USAGE,
               "SLURM_TASKS_PER_NODE: ");
    env[2] = "X=";
    env[0] = "SLURM_JOB_NODELIST=n[1-2],n1"; /* B04 */
    assert_err(slurm_job_from_env(ENV(env), &j, &err), &err, ERR_USAGE,
               "names n1 twice");
    assert_err(slurm_job_from_env(ENV(none), &j, &err), &err, ERR_MISSING,
               "no Slurm allocation");
}

static void test_topology_addr(void **state)
{
    struct slurm_level level[SLURM_LEVELS_MAX];
    struct err err = ERR_INIT;
    int n = 0;

    (void)state;
    assert_ok(slurm_topology_addr("spine.leaf[0-3].n001.cluster", "switch.switch.node",
                                  level, &n, &err),
              &err);
    assert_int_equal(n, 3);
    assert_string_equal(level[0].kind, "switch");
    assert_string_equal(level[1].names.item[3], "leaf3");
    assert_int_equal(level[1].names.n, 4);
    assert_string_equal(level[2].kind, "node");
    assert_string_equal(level[2].names.item[0], "n001.cluster");
    slurm_levels_release(level, n);
    assert_ok(slurm_topology_addr("r01.gb003", "block.node", level, &n, &err), &err);
    assert_string_equal(level[0].kind, "block");
    slurm_levels_release(level, n);
    assert_err(slurm_topology_addr("n1", "switch.node", level, &n, &err), &err,
               ERR_USAGE, "SLURM_TOPOLOGY_ADDR 'n1' by 'switch.node'");
    assert_err(slurm_topology_addr("", "node", level, &n, &err), &err, ERR_USAGE,
               "levels");
    assert_err(slurm_topology_addr("a.b", "", level, &n, &err), &err, ERR_USAGE,
               "levels");
    assert_err(slurm_topology_addr("a.b", "switch.", level, &n, &err), &err, ERR_USAGE,
               "levels");
    assert_err(slurm_topology_addr("a.n[1-", "switch.node", level, &n, &err), &err,
               ERR_USAGE, "not closed");
}

/* --- --signal -------------------------------------------------------------------------- */

static void test_c14_signal(void **state)
{
    static const struct {
        const char *text;
        int number, before_s, batch, reservation;
    } good[] = {
        { "USR1", 10, 60, 0, 0 },
        { "USR1@120", 10, 120, 0, 0 },
        { "B:USR1@120", 10, 120, 1, 0 },
        { "R:TERM@60", 15, 60, 0, 1 },
        { "RB:10@30", 10, 30, 1, 1 },
        { "SIGTERM@0", 15, 0, 0, 0 },
        { "b:sigusr2@65535", 12, 65535, 1, 0 },
    };
    static const char *const bad[] = { "FOO@10",     "@60",    "USR1@-1", "USR1@",
                                       "USR1@65536", "",       "0",       "65",
                                       ":USR1",      "X:USR1", "1x",      "USR1@1s",
                                       "SIGSIGUSR1", "B:" };
    struct err err = ERR_INIT;
    struct slurm_signal s;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_ok(slurm_signal_parse(good[i].text, &s, &err), &err);
        assert_int_equal(s.number, good[i].number);
        assert_int_equal(s.before_s, good[i].before_s);
        assert_int_equal(s.batch_shell, good[i].batch);
        assert_int_equal(s.reservation, good[i].reservation);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_err(slurm_signal_parse(bad[i], &s, &err), &err, ERR_USAGE, "--signal '");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b06_gres),
        cmocka_unit_test(test_gres_more),
        cmocka_unit_test(test_b07_states),
        cmocka_unit_test(test_states_more),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_records_one_line),
        cmocka_unit_test(test_records_recorded),
        cmocka_unit_test(test_records_odd),
        cmocka_unit_test(test_tasks_per_node),
        cmocka_unit_test(test_c02_master),
        cmocka_unit_test(test_b13_hostfile),
        cmocka_unit_test(test_hostfile_forms),
        cmocka_unit_test(test_b14_het),
        cmocka_unit_test(test_allocation_must_agree),
        cmocka_unit_test(test_topology_addr),
        cmocka_unit_test(test_c14_signal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
