/* env, rank_env, secret, proc: what ranks get and what people see. */
#include "test.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "launcher/env.h"
#include "launcher/proc.h"
#include "launcher/rank_env.h"
#include "launcher/run.h"
#include "launcher/secret.h"
#include "topology/place.h"
#include "topology/topology.h"

static char *user[] = { (char *)"PATH=/bin",
                        (char *)"NCCL_IB_HCA=mlx5_0,mlx5_1",
                        (char *)"X=a b;c\"d",
                        (char *)"Y=\xc3\xa9\xff",
                        (char *)"Z=",
                        (char *)"SLURM_PROCID=2",
                        (char *)"SLURM_CONF=/etc/c",
                        (char *)"PMIX_RANK=9",
                        (char *)"RANK=7",
                        NULL };

static void test_env_keeps_bytes(void **state)
{
    struct env e;

    (void)state;
    env_copy(&e, user);
    for (int i = 0; user[i]; i++)
        assert_string_equal(e.item[i], user[i]);
    assert_string_equal(env_get(&e, "Z"), "");
    assert_null(env_get(&e, "ZZ"));
    env_default(&e, "Z", "no");
    assert_string_equal(env_get(&e, "Z"), "");
    env_set(&e, "RANK", "0");
    env_set(&e, "NEW", "a=b");
    env_drop(&e, "SLURM_");
    assert_string_equal(env_get(&e, "NEW"), "a=b");
    assert_null(env_get(&e, "SLURM_CONF"));
    assert_int_equal(e.n, 8);
    assert_null(e.item[e.n]);
    env_release(&e);
}

static void test_env_set_leaves_one(void **state)
{
    char *twice[] = { (char *)"A=1", (char *)"B=2", (char *)"A=3", NULL };
    struct env e;

    (void)state;
    env_copy(&e, twice);
    env_set(&e, "A", "4");
    assert_int_equal(e.n, 2);
    assert_string_equal(e.item[0], "A=4");
    assert_string_equal(e.item[1], "B=2");
    env_release(&e);
}

/* Four GPUs on one node, `world` ranks, rank r on GPU gpus[r]. */
static struct run_request request(struct topology *t, struct placement *p, int world,
                                  const int *gpus)
{
    static int order[1] = { 0 };
    static char *command[] = { (char *)"true", NULL };

    *p = (struct placement){ .world = world, .n_nodes = 1, .order = order };
    p->rank = xcalloc((size_t)world, sizeof(*p->rank));
    for (int r = 0; r < world; r++) {
        p->rank[r].gpu = gpus[r];
        p->rank[r].local_rank = r;
        snprintf(p->rank[r].cpus, sizeof(p->rank[r].cpus), "%d-%d", 2 * r, 2 * r + 1);
    }
    return (struct run_request){ .topology = t, .placement = p, .command = command };
}

static struct topology *machine(int gpus)
{
    struct topology *t = topology_new("test", 1);

    snprintf(t->nodes[0].name, sizeof(t->nodes[0].name), "gn01");
    t->nodes[0].n_gpus = gpus;
    t->nodes[0].gpus = xcalloc((size_t)gpus + 1, sizeof(struct gpu));
    for (int i = 0; i < gpus; i++) {
        t->nodes[0].gpus[i].index = i;
        snprintf(t->nodes[0].gpus[i].busid, sizeof(t->nodes[0].gpus[i].busid),
                 "0000:%d8:00.0", (i + 1) % 10);
    }
    return t;
}

static void test_rank_env_places(void **state)
{
    const int gpus[] = { 2, 0, 1 };
    struct err err = ERR_INIT;
    struct topology *t = machine(4);
    struct placement p;
    struct run_request q = request(t, &p, 3, gpus);
    struct env e;

    (void)state;
    assert_ok(rank_env_build(&e, user, &q, 1, &err), &err);
    assert_string_equal(env_get(&e, "RANK"), "1");
    assert_string_equal(env_get(&e, "WORLD_SIZE"), "3");
    assert_string_equal(env_get(&e, "LOCAL_WORLD_SIZE"), "3");
    assert_string_equal(env_get(&e, "CUDA_VISIBLE_DEVICES"), "2,0,1");
    assert_string_equal(env_get(&e, "OPENBLAS_NUM_THREADS"), "2");
    assert_string_equal(env_get(&e, "JSM_JSRUN_PORT"), "1");
    assert_string_equal(env_get(&e, "X"), "a b;c\"d");
    assert_string_equal(env_get(&e, "SLURM_CONF"), "/etc/c");
    assert_null(env_get(&e, "SLURM_PROCID"));
    assert_null(env_get(&e, "PMIX_RANK"));
    env_release(&e);
    free(p.rank);
    topology_free(t);
}

/* Case C16: what the user shows stays and must be enough; no card twice. */
static void test_rank_env_gpus(void **state)
{
    static char *shown[] = { (char *)"CUDA_VISIBLE_DEVICES=4,6", NULL };
    static char *none[] = { (char *)"CUDA_VISIBLE_DEVICES=", NULL };
    const int apart[] = { 0, 1 }, together[] = { 1, 1 }, three[] = { 0, 1, 2 };
    struct err err = ERR_INIT;
    struct topology *t = machine(4);
    struct placement p;
    struct run_request q = request(t, &p, 2, apart);
    struct env e;

    (void)state;
    assert_ok(rank_env_build(&e, shown, &q, 0, &err), &err);
    assert_string_equal(env_get(&e, "CUDA_VISIBLE_DEVICES"), "4,6");
    env_release(&e);
    assert_err(rank_env_build(&e, none, &q, 0, &err), &err, ERR_MISSING,
               "no GPU visible on gn01");
    free(p.rank);
    q = request(t, &p, 3, three);
    assert_err(rank_env_build(&e, shown, &q, 0, &err), &err, ERR_USAGE,
               "3 ranks on gn01, but CUDA_VISIBLE_DEVICES=4,6 shows 2 GPUs");
    free(p.rank);
    q = request(t, &p, 2, together);
    assert_err(rank_env_build(&e, user, &q, 1, &err), &err, ERR_USAGE,
               "ranks 0 and 1 are both placed on GPU 0000:28:00.0 of gn01");
    free(p.rank);
    topology_free(t);
    t = machine(0); /* a CPU node: `gpu` is a slot */
    q = request(t, &p, 2, apart);
    assert_ok(rank_env_build(&e, none, &q, 0, &err), &err);
    assert_string_equal(env_get(&e, "CUDA_VISIBLE_DEVICES"), "");
    env_release(&e);
    free(p.rank);
    topology_free(t);
}

static void test_rank_env_start(void **state)
{
    struct rank_env_start s, other;
    struct env e = ENV_INIT;

    (void)state;
    rank_env_choose(&s, "r-1", "/dev/shm/x");
    rank_env_choose(&other, "r-2", NULL);
    assert_true(s.master_port > 1024 && s.master_port < 65536);
    assert_string_not_equal(s.job_key, other.job_key);
    env_set(&e, "MASTER_PORT", "29500");
    rank_env_finish(&e, &s);
    assert_string_equal(env_get(&e, "MASTER_PORT"), "29500");
    assert_string_equal(env_get(&e, "MUSTER_RUN"), "r-1");
    assert_string_equal(env_get(&e, "MUSTER_EVENT_FD"), "3");
    env_release(&e);
}

static void test_secrets(void **state)
{
    static const struct {
        const char *name;
        int secret;
    } rows[] = {
        { "HF_TOKEN", 1 },       { "WANDB_API_KEY", 1 }, { "--db-password", 1 },
        { "aws.secret.x", 1 },   { "MY_SECRET_1", 1 },   { "passwd", 1 },
        { "PATH", 0 },           { "KEYBOARD", 0 },      { "TOKENS_PER_STEP", 0 },
        { "TOKEN_LIMIT", 0 },    { "monkey", 0 },        { "", 0 },
        { "GH_CREDENTIALS", 1 }, { "PGPASSWORD", 1 },    { "hftoken", 1 },
        { "DB_PASS", 1 },        { "GITHUB_PAT", 1 },    { "COMPASS", 0 },
        { "PATTERN", 0 },        { "OLDPWD", 0 },        { "MAX_TOKENS", 0 },
    };
    char *argv[] = { (char *)"train",
                     (char *)"--api-key=abc",
                     (char *)"--password",
                     (char *)"hunter2",
                     (char *)"HF_TOKEN=x",
                     (char *)"a b'c",
                     (char *)"--lr=1e-3",
                     (char *)"",
                     (char *)"*",
                     (char *)"--password",
                     NULL };
    struct str s = STR_INIT;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (secret_name(rows[i].name, (int)strlen(rows[i].name)) != rows[i].secret)
            fail_msg("%s", rows[i].name);
    secret_add_command(&s, argv);
    assert_string_equal(s.text,
                        "train --api-key=<redacted> --password <redacted> "
                        "HF_TOKEN=<redacted> 'a b'\\''c' --lr=1e-3 '' '*' --password");
    str_clear(&s);
    secret_add_setting(&s, "X=a b");
    assert_string_equal(s.text, "X='a b'");
    str_clear(&s);
    secret_add_setting(&s, "https_proxy=http://me:pa$$w@10.0.0.1:3128/x");
    assert_string_equal(s.text, "https_proxy='http://me:<redacted>@10.0.0.1:3128/x'");
    str_clear(&s);
    secret_add_setting(&s, "AT=http://host:80/a@b:c@d");
    assert_string_equal(s.text, "AT=http://host:80/a@b:c@d");
    str_clear(&s);
    secret_add_command(&s,
                       (char *[]){ (char *)"x", (char *)"--db=pg://u:p@h/d", NULL });
    assert_string_equal(s.text, "x '--db=pg://u:<redacted>@h/d'");
    str_release(&s);
}

static void test_statuses(void **state)
{
    struct proc p = { .pid = 0 };

    (void)state;
    proc_reaped(&p, 7 << 8);
    assert_int_equal(p.status, 7);
    proc_reaped(&p, 11 | 0x80);
    assert_int_equal(p.status, 139);
    assert_int_equal(p.signo, 11);
    proc_reaped(&p, 0);
    assert_int_equal(p.status, 0);
}

static void test_cpus(void **state)
{
    struct err err = ERR_INIT;
    cpu_set_t set;

    (void)state;
    assert_ok(proc_cpus("0-3,8", &set, &err), &err);
    assert_int_equal(CPU_COUNT(&set), 5);
    assert_true(CPU_ISSET(8, &set));
    assert_ok(proc_cpus("", &set, &err), &err);
    assert_int_equal(CPU_COUNT(&set), 0);
    assert_err(proc_cpus("3-1", &set, &err), &err, ERR_USAGE, "no list of CPUs");
    assert_err(proc_cpus("1,,2", &set, &err), &err, ERR_USAGE, "no list of CPUs");
    assert_err(proc_cpus("x", &set, &err), &err, ERR_USAGE, "no list of CPUs");
    assert_err(proc_cpus("99999", &set, &err), &err, ERR_USAGE, "no list of CPUs");
}

static void test_find(void **state)
{
    struct err err = ERR_INIT;
    char *p = proc_find("sh", "/nowhere:/bin:/usr/bin", &err);

    (void)state;
    assert_non_null(p);
    assert_string_equal(p, "/bin/sh");
    free(p);
    assert_null(proc_find("no-such-thing", "/bin", &err));
    assert_int_equal(err.code, ERR_MISSING);
    err_release(&err);
    assert_null(proc_find("/bin", "/bin", &err));
    err_release(&err);
    assert_null(proc_find("", "/bin", &err));
    err_release(&err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_env_keeps_bytes),
        cmocka_unit_test(test_env_set_leaves_one),
        cmocka_unit_test(test_rank_env_places),
        cmocka_unit_test(test_rank_env_gpus),
        cmocka_unit_test(test_rank_env_start),
        cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_cpus),
        cmocka_unit_test(test_find),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
