/* Tasks of a Slurm step: frames, what to start, the launcher's side of the
 * connection, and the lines of scontrol that say what a job was given. */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/js.h"
#include "base/mem.h"
#include "launcher/slurm_nodes.h"
#include "launcher/task_server.h"
#include "launcher/task_voice.h"
#include "launcher/task_wire.h"
#include "test.h"
#include "topology/topology.h"
#include "trainer/kvdial.h"

static void test_frames(void **state)
{
    struct str s = STR_INIT;
    enum task_frame type;
    const char *bytes;
    size_t n;

    (void)state;
    task_frame_add(&s, TASK_OUT, "a\0b", 3);
    task_frame_add(&s, TASK_ERR, NULL, 0);
    for (size_t k = 0; k < TASK_HEAD + 3; k++)
        assert_int_equal(task_frame_parse(s.text, k, &type, &bytes, &n), 0);
    assert_int_equal(task_frame_parse(s.text, s.len, &type, &bytes, &n), TASK_HEAD + 3);
    assert_int_equal(type, TASK_OUT);
    assert_int_equal(n, 3);
    assert_memory_equal(bytes, "a\0b", 3);
    assert_int_equal(
        task_frame_parse(s.text + TASK_HEAD + 3, TASK_HEAD, &type, &bytes, &n),
        TASK_HEAD);
    assert_int_equal(task_frame_parse("\x63\0\0\0\0", 5, &type, &bytes, &n), -1);
    assert_int_equal(task_frame_parse("\x02\xff\xff\xff\xff", 5, &type, &bytes, &n),
                     -1);
    assert_int_equal(task_frame_signal("\x0f", 1), 15);
    assert_int_equal(task_frame_signal("\x0f\x0f", 2), 0);
    assert_int_equal(task_frame_signal("\x7f", 1), 0);
    str_release(&s);
}

/* C15: commas, quotes, bytes that are no UTF-8, values that are empty. */
static void test_start(void **state)
{
    struct task_start in = { .cwd = (char *)"/a b",
                             .cpus = (char *)"0-3",
                             .program = (char *)"/bin/x",
                             .grace_ms = 1234,
                             .look_ms = 567,
                             .bind = TASK_BIND_SHARE,
                             .net = TASK_NET_NAMES };
    struct task_start out;
    struct err err = ERR_INIT;
    struct str s = STR_INIT;
    size_t n;

    (void)state;
    strlist_add(&in.env, "NCCL_IB_HCA=mlx5_0,mlx5_1");
    strlist_add(&in.env, "X=a b;c\"d\n\xff");
    strlist_add(&in.env, "Z=");
    strlist_add(&in.drop, "OMPI_X");
    strlist_add(&in.argv, "x");
    strlist_add(&in.argv, "");
    task_start_add(&s, &in);
    n = s.len - TASK_HEAD;
    assert_ok(task_start_parse(s.text + TASK_HEAD, n, &out, &err), &err);
    assert_string_equal(out.cwd, "/a b");
    assert_string_equal(out.cpus, "0-3");
    assert_int_equal(out.grace_ms, 1234);
    assert_int_equal(out.look_ms, 567);
    assert_int_equal(out.bind, TASK_BIND_SHARE);
    assert_int_equal(out.net, TASK_NET_NAMES);
    assert_int_equal(out.env.n, 3);
    assert_string_equal(out.env.item[1], "X=a b;c\"d\n\xff");
    assert_string_equal(out.env.item[2], "Z=");
    assert_null(out.env.item[3]);
    assert_int_equal(out.argv.n, 2);
    assert_string_equal(out.argv.item[1], "");
    assert_null(out.argv.item[2]);
    task_start_release(&out);
    for (size_t k = 0; k < n; k++) {
        assert_int_equal(task_start_parse(s.text + TASK_HEAD, k, &out, &err), -1);
        err_release(&err);
    }
    str_release(&s);
    strlist_release(&in.env);
    strlist_release(&in.drop);
    strlist_release(&in.argv);
}

/* ---- the server ---- */

struct heard {
    int hellos, frames, lost, last_rank;
    struct str order; /* what frames hold */
};

static int on_hello(void *arg, int rank, const struct js *about)
{
    struct heard *h = arg;

    h->hellos++;
    h->last_rank = rank;
    return js_get_int(about, "pmix_rank", -1) == rank ? 0 : -1;
}

static void on_frame(void *arg, int rank, enum task_frame type, const char *bytes,
                     size_t n)
{
    struct heard *h = arg;

    (void)rank, (void)type;
    h->frames++;
    str_addf(&h->order, "%.*s ", (int)n, bytes);
}

static void on_lost(void *arg, int rank)
{
    struct heard *h = arg;

    h->lost++;
    h->last_rank = rank;
}

static int events_wait(enum task_frame type, const char *bytes, size_t n)
{
    (void)bytes, (void)n;
    return type == TASK_EVENT;
}

static void serve(struct task_server *s, int ms)
{
    struct pollfd p = { .fd = task_server_fd(s), .events = POLLIN };
    int64_t until = clock_ms() + ms;

    while (clock_ms() < until)
        if (poll(&p, 1, 10) > 0)
            task_server_poll(s);
}

/* The agent's side, in a child: connect with `key`, say `rank`, a line, an end. */
static void agent(const char *at, const char *key, int rank, int says_exit)
{
    struct kvdial k = { .key = kv_key_of(key) };
    struct str s = STR_INIT;
    struct err err = ERR_INIT;
    char *hello = xasprintf("{\"rank\": %d, \"pmix_rank\": %d}", rank, rank);
    int fd;

    snprintf(k.master, sizeof(k.master), "127.0.0.1");
    k.port = (int)strtol(strrchr(at, ':') + 1, NULL, 10);
    fd = kvdial_reach(&k, clock_ms() + 3000, &err);
    if (fd < 0)
        _exit(9);
    task_frame_add(&s, TASK_HELLO, hello, strlen(hello));
    task_frame_add(&s, TASK_EVENT, "event", 5);
    task_frame_add(&s, TASK_OUT, "hi", 2);
    task_frame_add(&s, TASK_PMIX, "pmix", 4);
    task_frame_add(&s, TASK_EVENT, "last", 4);
    if (says_exit)
        task_frame_add(&s, TASK_EXIT, "{}", 2);
    kvdial_write(fd, s.text, s.len, clock_ms() + 1000);
    clock_nap_us(100000);
    _exit(0);
}

static void meet(const char *key, int rank, int says_exit, struct heard *h)
{
    const struct task_server_calls calls = { on_hello, on_frame, on_lost, events_wait };
    struct err err = ERR_INIT;
    struct task_server *s;
    pid_t pid;
    char *at;

    memset(h, 0, sizeof(*h));
    assert_ok(task_server_open(&s, 4, "secret", &calls, h, &err), &err);
    at = task_server_at(s);
    pid = fork();
    if (pid == 0)
        agent(at, key, rank, says_exit);
    serve(s, 400);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    free(at);
    task_server_close(s);
    str_adds(&h->order, ".");
    h->order.text[h->order.len - 1] = '\0';
}

/* Events wait for what is printed, and come before all else. */
static void test_server(void **state)
{
    struct heard h;

    (void)state;
    meet("secret", 3, 1, &h);
    assert_int_equal(h.hellos, 1);
    assert_int_equal(h.last_rank, 3);
    assert_string_equal(h.order.text, "hi event pmix last {} ");
    assert_int_equal(h.lost, 0);
    str_release(&h.order);
    meet("secret", 2, 0, &h);
    assert_string_equal(h.order.text, "hi event pmix last ");
    assert_int_equal(h.lost, 1);
    assert_int_equal(h.last_rank, 2);
    str_release(&h.order);
}

static void test_strangers(void **state)
{
    struct heard h;

    (void)state;
    meet("another", 1, 1, &h);
    assert_int_equal(h.hellos, 0);
    assert_int_equal(h.frames, 0);
    str_release(&h.order);
    meet("secret", 4, 1, &h);
    assert_int_equal(h.hellos, 0);
    assert_int_equal(h.lost, 0);
    str_release(&h.order);
}

/* ---- what a job was given ---- */

static void place_of(struct slurm_place *p)
{
    struct strlist nodes = { 0 };

    strlist_add(&nodes, "n1");
    strlist_add(&nodes, "n2");
    strlist_add(&nodes, "n10");
    slurm_place_init(p, "77", "n[1-2,10]", &nodes);
    strlist_release(&nodes);
}

static void test_given(void **state)
{
    struct slurm_place p;

    (void)state;
    place_of(&p);
    assert_int_equal(slurm_place_line(&p, "   TRES=cpu=2,node=2,billing=2"), -1);
    assert_int_equal(slurm_place_line(&p, "   NodeList=n[1-2] CPU_IDs=0"), -1);
    assert_int_equal(slurm_place_line(&p, "     Nodes=n[1-2] CPU_IDs=0-63 Mem=2048 "
                                          "GRES=gpu:b200:8(IDX:0-7)"),
                     0);
    assert_int_equal(slurm_place_line(&p, "     Nodes=n10 CPU_IDs=0,4-6 Mem=0 "
                                          "GRES=shard:4,gpu:a:2(IDX:0,3),gpu:b:1"),
                     0);
    assert_int_equal(p.node[0].gpus, 8);
    assert_int_equal(p.node[1].gpus, 8);
    assert_int_equal(p.node[1].index[7], 7);
    assert_string_equal(p.node[1].gpu_type, "b200");
    assert_int_equal(p.node[1].cpus, 64);
    assert_int_equal(p.node[1].memory_bytes, 2048ll << 20);
    assert_int_equal(p.node[2].gpus, 3);
    assert_int_equal(p.node[2].cpus, 4);
    assert_int_equal(p.node[2].memory_bytes, -1);
    assert_int_equal(slurm_place_line(&p, "     Nodes=n10 CPU_IDs=0 Mem=0 "
                                          "GRES=gpu:a:2(IDX:3,5)"),
                     0);
    assert_int_equal(p.node[2].index[0], 3);
    assert_int_equal(p.node[2].index[1], 5);
    assert_int_equal(slurm_place_line(&p, "     Nodes=n1 CPU_IDs=0 Mem=0 GRES="), 0);
    assert_int_equal(p.node[0].gpus, 0);
    slurm_place_release(&p);
}

/* What the nodes are, and which of them are down. */
static void test_nodes(void **state)
{
    static const char text[] =
        "NodeName=n1 Arch=x86_64 CoresPerSocket=32\n   RealMemory=16000 AllocMem=0 "
        "Sockets=2 Boards=1\n   State=ALLOCATED ThreadsPerCore=1\n\n"
        "NodeName=n2 Arch=x86_64\n   RealMemory=16000 Sockets=4\n"
        "   State=ALLOCATED+DRAIN\n   Reason=fan slow [root@x]\n\n"
        "NodeName=n10\n   State=DOWN*+DRAIN ThreadsPerCore=2\n"
        "   Reason=Not responding [slurm@2026-11-30T12:00:00]\n\n"
        "NodeName=other Sockets=8\n   State=IDLE\n";
    struct slurm_place p;
    struct err err = ERR_INIT;

    (void)state;
    place_of(&p);
    p.node[1].memory_bytes = 5;
    assert_ok(slurm_place_nodes(&p, text, strlen(text), &err), &err);
    assert_int_equal(p.node[0].sockets, 2);
    assert_int_equal(p.node[0].memory_bytes, 16000ll << 20);
    assert_string_equal(p.node[0].down, "");
    assert_int_equal(p.node[1].sockets, 4);
    assert_int_equal(p.node[1].memory_bytes, 5); /* what the job was given */
    assert_string_equal(p.node[1].down, "");     /* it goes on until the job ends */
    assert_string_equal(p.node[2].down,
                        "DOWN*+DRAIN (Not responding [slurm@2026-11-30T12:00:00])");
    slurm_place_release(&p);
}

/* Leaves of our nodes; the rest of the cluster is passed over. */
static void test_fabric(void **state)
{
    static const char text[] =
        "SwitchName=leaf0 Level=0 LinkSpeed=1 Nodes=n[1,10-11]\n"
        "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[2-3]\n"
        "SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-3,10-11] Switches=leaf[0-1]\n";
    struct topology *t = topology_new("slurm", 3);
    struct err err = ERR_INIT;

    (void)state;
    snprintf(t->nodes[0].name, 64, "n10");
    snprintf(t->nodes[1].name, 64, "n2");
    snprintf(t->nodes[2].name, 64, "stranger");
    assert_ok(slurm_place_fabric(t, text, strlen(text), &err), &err);
    assert_int_equal(t->n_nodes, 3);
    assert_string_equal(t->switches[t->nodes[0].leaf].name, "leaf0");
    assert_string_equal(t->switches[t->nodes[1].leaf].name, "leaf1");
    assert_int_equal(t->nodes[2].leaf, -1);
    assert_int_equal(t->n_links, 2);
    topology_free(t);
}

/* The whole frames that came: "type:bytes " each. */
static void expect_heard(int fd, const char *want)
{
    struct str heard = STR_INIT;
    enum task_frame type;
    const char *bytes;
    char buf[256];
    ssize_t got = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
    size_t n, at = 0;
    long whole;

    while (got > 0 && (whole = task_frame_parse(buf + at, (size_t)got - at, &type,
                                                &bytes, &n)) > 0) {
        str_addf(&heard, "%d:%.*s ", (int)type, (int)n, bytes);
        at += (size_t)whole;
    }
    assert_true(got <= 0 || at == (size_t)got);
    assert_string_equal(heard.text ? heard.text : "", want);
    str_release(&heard);
}

/* What is kept goes with what cannot wait, in order; alone it is due in a moment. */
static void test_voice(void **state)
{
    struct task_voice v = TASK_VOICE_INIT;
    char want[64];
    int fd[2];

    (void)state;
    task_voice_say(&v, TASK_OUT, "nobody", 6); /* not connected: dropped */
    assert_int_equal(v.kept.len, 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    v.fd = fd[0];
    task_voice_keep(&v, TASK_EVENT, "a", 1);
    task_voice_keep(&v, TASK_EVENT, "b", 1);
    expect_heard(fd[1], "");
    assert_true(v.due > 0 && v.due <= clock_ms() + TASK_VOICE_KEEP_MS);
    task_voice_say(&v, TASK_OUT, "c", 1);
    assert_int_equal(v.due, 0);
    snprintf(want, sizeof(want), "%d:a %d:b %d:c ", TASK_EVENT, TASK_EVENT, TASK_OUT);
    expect_heard(fd[1], want);

    task_voice_keep(&v, TASK_ERR, NULL, 0);
    task_voice_flush(&v);
    snprintf(want, sizeof(want), "%d: ", TASK_ERR);
    expect_heard(fd[1], want);

    close(fd[1]);
    task_voice_say(&v, TASK_OUT, "gone", 4);
    assert_int_equal(v.fd, -1);
    task_voice_keep(&v, TASK_OUT, "gone", 4);
    task_voice_flush(&v);
    assert_true(v.due == 0 && v.kept.len == 0);
    task_voice_release(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_voice),     cmocka_unit_test(test_frames),
        cmocka_unit_test(test_start),     cmocka_unit_test(test_server),
        cmocka_unit_test(test_strangers), cmocka_unit_test(test_given),
        cmocka_unit_test(test_nodes),     cmocka_unit_test(test_fabric),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
