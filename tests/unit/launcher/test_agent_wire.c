/* agent_wire: a job arrives as it was sent, byte for byte (case C15), and nothing that
 * does not add up is taken. */
#include "test.h"

#include "base/mem.h"
#include "launcher/agent_wire.h"
#include "launcher/frame.h"

#define T(text) ((char[]){ text }) /* at file scope it lives for ever */

static int node_of[] = { 0, 1, 1 };
static char *env0[] = { T("A=b c,\"d'"), T("E="), T("N=\xff\xc3\xa9"), NULL };
static char *env1[] = { NULL };
static char *argv[] = { T("/données/mö tor/train"), T("--out=a b'c\"d$HOME"), T("*"),
                        T(""), T("-x") };
static char *names[] = { T("n1"), T("n2") };
static int64_t sizes[] = { 5000000000 };
static struct agent_rank ranks[2] = { { 1, T("0-3,8"), { env0, 3 } },
                                      { 2, T(""), { env1, 0 } } };
static const struct agent_job model = { .run = T("r-1"),
                                        .cwd = T("/tmp"),
                                        .dir = T(""),
                                        .program = T("muster-train"),
                                        .job_key = T("k"),
                                        .file = T("/r/recipe.yaml"),
                                        .text = T("name: \xc3\xa9\n"),
                                        .needs = { names, 1 },
                                        .need_bytes = sizes,
                                        .argv = { argv, 5 },
                                        .stdin_rank = -1,
                                        .grace_ms = 5000,
                                        .node = 1,
                                        .n_nodes = 2,
                                        .nodes = { names, 2 },
                                        .world = 3,
                                        .node_of = node_of,
                                        .n_ranks = 2,
                                        .ranks = ranks };
static struct agent_hello hello = { .protocol = FRAME_PROTOCOL,
                                    .version = T("0.1"),
                                    .build = T("b"),
                                    .host = T("host"),
                                    .machine = T("m"),
                                    .address = T("10.0.0.1"),
                                    .interface = T("eth0"),
                                    .network = T(""),
                                    .nccl = T("also docker0"),
                                    .gloo = T(""),
                                    .mpi = T(""),
                                    .topology = T("{}") };

static struct agent_job job(void)
{
    return model;
}

/* The one frame of `o`. */
static struct frame only(struct frame_in *in, const struct frame_out *o)
{
    struct frame f;

    in->greeted = 1;
    frame_feed(in, o->bytes.text, o->bytes.len);
    assert_int_equal(frame_next(in, &f, NULL), 1);
    return f;
}

static void test_job(void **state)
{
    struct frame_out o = { .sent = 0 };
    struct frame_in in = { .used = 0 };
    struct agent_job sent = job(), got;
    struct err err = ERR_INIT;
    struct frame f;

    (void)state;
    assert_ok(agent_job_put(&o, &sent, &err), &err);
    f = only(&in, &o);
    assert_ok(agent_job_take(&f, &got, &err), &err);
    assert_string_equal(got.run, "r-1");
    assert_string_equal(got.file, "/r/recipe.yaml");
    assert_string_equal(got.text, "name: \xc3\xa9\n");
    assert_int_equal(got.stdin_rank, -1);
    assert_int_equal(got.needs.n, 1);
    assert_int_equal(got.need_bytes[0], 5000000000);
    assert_string_equal(got.needs.item[0], "n1");
    assert_int_equal(got.argv.n, 5);
    for (int i = 0; i < 5; i++)
        assert_string_equal(got.argv.item[i], sent.argv.item[i]);
    assert_int_equal(got.n_ranks, 2);
    assert_int_equal(got.ranks[0].env.n, 3);
    for (int i = 0; i < 3; i++)
        assert_string_equal(got.ranks[0].env.item[i], sent.ranks[0].env.item[i]);
    assert_null(got.ranks[0].env.item[3]);
    assert_null(got.ranks[1].env.item[0]);
    assert_string_equal(got.ranks[0].cpus, "0-3,8");
    assert_int_equal(got.ranks[1].rank, 2);
    assert_string_equal(got.nodes.item[1], "n2");
    assert_int_equal(got.node_of[2], 1);
    agent_job_release(&got);
    frame_in_release(&in);
    frame_out_release(&o);
}

static void refuse(const struct agent_job *j)
{
    struct frame_out o = { .sent = 0 };
    struct frame_in in = { .used = 0 };
    struct err err = ERR_INIT;
    struct agent_job got;
    struct frame f;

    assert_ok(agent_job_put(&o, j, &err), &err);
    f = only(&in, &o);
    assert_err(agent_job_take(&f, &got, &err), &err, ERR_FAILED, "JOB message");
    frame_in_release(&in);
    frame_out_release(&o);
}

static void test_what_does_not_add_up(void **state)
{
    struct agent_job j = job();
    struct agent_rank twice[2] = { j.ranks[0], j.ranks[0] }, other = j.ranks[0];
    int wild[] = { 0, 1, 2 };

    (void)state;
    j.node = 2;
    refuse(&j);
    j = job();
    j.node_of = wild;
    refuse(&j);
    j = job();
    j.ranks = twice;
    refuse(&j);
    j = job();
    j.n_ranks = 1;
    refuse(&j);
    j = job();
    j.node = 0;
    j.n_ranks = 1;
    j.ranks = &other;
    refuse(&j);
    j = job();
    j.argv.n = 0;
    refuse(&j);
}

static void test_every_cut_is_refused(void **state)
{
    struct frame_out o = { .sent = 0 };
    struct agent_job j = job(), got;

    (void)state;
    assert_int_equal(agent_job_put(&o, &j, NULL), 0);
    for (size_t n = 0; n + 8 < o.bytes.len; n++) {
        unsigned char *copy = xcalloc(n + 1, 1);
        struct frame f = { .type = FRAME_JOB, .at = copy, .left = n };
        memcpy(copy, o.bytes.text + 8, n);
        assert_int_equal(agent_job_take(&f, &got, NULL), -1);
        free(copy);
    }
    frame_out_release(&o);
}

static void test_hello(void **state)
{
    struct agent_hello got;
    struct frame_out o = { .sent = 0 };
    struct frame_in in = { .used = 0 };
    struct err err = ERR_INIT;
    struct frame f;

    (void)state;
    agent_hello_put(&o, &hello);
    f = only(&in, &o);
    assert_ok(agent_hello_take(&f, &got, &err), &err);
    assert_string_equal(got.interface, "eth0");
    assert_string_equal(got.nccl, "also docker0");
    assert_string_equal(got.address, "10.0.0.1");
    assert_string_equal(got.topology, "{}");
    agent_hello_release(&got);
    frame_out_release(&o);
    frame_in_release(&in);
}

/* A muster of another time: its number and version can always be read. */
static void test_another_protocol(void **state)
{
    struct frame_out o = { .sent = 0 };
    struct frame_in in = { .used = 0 };
    struct err err = ERR_INIT;
    struct agent_hello got;
    struct frame f;

    (void)state;
    frame_begin(&o, FRAME_HELLO);
    frame_add_u32(&o, FRAME_PROTOCOL + 1);
    frame_add_text(&o, "9.0");
    frame_add_u64(&o, 42);
    frame_end(&o, NULL);
    f = only(&in, &o);
    assert_ok(agent_hello_take(&f, &got, &err), &err);
    assert_string_equal(got.version, "9.0");
    agent_hello_release(&got);
    frame_out_release(&o);
    frame_in_release(&in);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_job),
        cmocka_unit_test(test_what_does_not_add_up),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_hello),
        cmocka_unit_test(test_another_protocol),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
