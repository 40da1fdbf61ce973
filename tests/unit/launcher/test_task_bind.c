/* task_bind: the CPUs of a rank, chosen on its node (case C16: by its own GPU). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/js.h"
#include "base/mem.h"
#include "launcher/env.h"
#include "launcher/task_bind.h"
#include "launcher/task_state.h"
#include "test.h"

static char *tree(const char *shape)
{
    char *dir = xstrdup("/tmp/muster-bind-XXXXXX"), *command;

    if (!mkdtemp(dir))
        fail_msg("mkdtemp");
    command = xasprintf("sh tests/trees/make.sh %s %s", shape, dir);
    assert_int_equal(system(command), 0);
    free(command);
    return dir;
}

static void remove_tree(char *dir)
{
    char *command = xasprintf("rm -rf %s", dir);

    assert_int_equal(system(command), 0);
    free(command);
    free(dir);
}

static void expect(const char *root, struct task_bind_ask ask, const char *cpus,
                   const char *by)
{
    struct task_bound b;

    task_bind_choose(root, &ask, &b);
    assert_string_equal(b.cpus, cpus);
    assert_string_equal(b.by, by);
    assert_int_equal(*b.why == '\0', strcmp(by, "muster") == 0);
}

/* Two sockets of 8 cores with two threads each, four GPUs on either; the numbers of the
 * device files go against the order of the bus. */
static void test_near_gpu(void **state)
{
    char *root = tree("hgx");
    static const char *const cpus[] = { "8-9,24-25",   "10-11,26-27", "12-13,28-29",
                                        "14-15,30-31", "0-1,16-17",   "2-3,18-19",
                                        "4-5,20-21",   "6-7,22-23" };

    (void)state;
    for (int i = 0; i < 8; i++)
        expect(root,
               (struct task_bind_ask){ TASK_BIND_GPU, i, 8, "0,1,2,3,4,5,6,7", "" },
               cpus[i], "muster");
    /* two ranks on GPUs of one socket share it, one alone has all of it */
    expect(root, (struct task_bind_ask){ TASK_BIND_GPU, 1, 2, "7,6", NULL },
           "4-7,20-23", "muster");
    expect(root, (struct task_bind_ask){ TASK_BIND_GPU, 1, 2, "0,6", "none" },
           "0-7,16-23", "muster");
    expect(root, (struct task_bind_ask){ TASK_BIND_GPU, 0, 1, NULL, NULL },
           "8-15,24-31", "muster");
    /* a GPU that is not there */
    expect(root, (struct task_bind_ask){ TASK_BIND_GPU, 1, 2, "0", NULL }, "",
           "nobody");
    remove_tree(root);
}

static void test_share(void **state)
{
    char *root = tree("hgx"), *small = tree("small");

    (void)state;
    expect(root, (struct task_bind_ask){ TASK_BIND_SHARE, 3, 4, NULL, NULL },
           "12-15,28-31", "muster");
    expect(small, (struct task_bind_ask){ TASK_BIND_SHARE, 1, 2, NULL, NULL }, "1",
           "muster");
    expect(small, (struct task_bind_ask){ TASK_BIND_GPU, 1, 2, "0,1", NULL }, "1",
           "muster"); /* no GPU of NVIDIA here: as without */
    expect(small, (struct task_bind_ask){ TASK_BIND_SHARE, 1, 3, NULL, NULL }, "",
           "nobody");
    remove_tree(root);
    remove_tree(small);
}

/* What Slurm bound stays, and nothing is done that nobody wants. */
static void test_left_alone(void **state)
{
    struct task_bound b;
    const struct task_bind_ask none = { TASK_BIND_NONE, 0, 1, NULL, NULL };

    (void)state;
    expect("", (struct task_bind_ask){ TASK_BIND_SHARE, 0, 1, NULL, "cores" }, "",
           "slurm");
    task_bind_choose("", &none, &b);
    assert_string_equal(b.cpus, "");
    assert_string_equal(b.by, "nobody");
}

/* Of this very process: what the kernel says. */
static void test_state(void **state)
{
    struct task_bound b = { .cpus = "0", .by = "muster" };
    char *const base[] = { (char *)"LOCAL_RANK=3", (char *)"CUDA_VISIBLE_DEVICES=0,1",
                           NULL };
    const struct js *l;
    struct env env;
    struct js *o;

    (void)state;
    env_copy(&env, base);
    o = task_state(getpid(), &b, &env);
    l = js_get(o, "limits");
    assert_int_equal(js_get_int(o, "pid", 0), getpid());
    assert_true(*js_str(o, "cpus", "") != '\0');
    assert_true(*js_str(o, "mems", "") != '\0');
    assert_string_equal(js_str(o, "want_cpus", ""), "0");
    assert_string_equal(js_str(o, "devices", ""), "0,1");
    assert_int_equal(js_get_int(o, "local_rank", -1), 3);
    assert_int_equal(js_get_int(l, "nofile", 0), sysconf(_SC_OPEN_MAX));
    assert_true(js_get_int(l, "memlock", -2) >= -1);
    assert_true(js_get_int(l, "core", -2) >= -1);
    assert_true(js_get_int(l, "stack", -2) >= -1);
    assert_true(js_get_int(o, "shm_bytes", 0) >= js_get_int(o, "shm_free_bytes", 0));
    js_free(o);
    env_release(&env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near_gpu),
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_left_alone),
        cmocka_unit_test(test_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
