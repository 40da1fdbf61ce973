#include "test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/js.h"
#include "base/mem.h"
#include "trainer/kvwire.h"
#include "trainer/wireup.h"

/* Nothing of the caller's, but cmocka still knows how to print. */
static void empty_env(void)
{
    char *output = xstrdup(getenv("CMOCKA_MESSAGE_OUTPUT"));

    clearenv();
    if (output)
        setenv("CMOCKA_MESSAGE_OUTPUT", output, 1);
    free(output);
}

/* A port that was free a moment ago. */
static int free_port(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    getsockname(fd, (struct sockaddr *)&at, &len);
    close(fd);
    return ntohs(at.sin_port);
}

static void put_number(const char *name, long v)
{
    char text[32];

    snprintf(text, sizeof(text), "%ld", v);
    setenv(name, text, 1);
}

static void rank_env(int rank, int world, int port)
{
    empty_env();
    put_number("RANK", rank);
    put_number("WORLD_SIZE", world);
    put_number("LOCAL_RANK", rank);
    put_number("LOCAL_WORLD_SIZE", world);
    put_number("MASTER_PORT", port);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
}

/* --- forked ranks: each runs body(rank) and its error text comes back --------- */

struct outcome {
    int status;
    char text[512];
};

typedef int (*rank_body)(int rank, struct err *err);

static pid_t start_rank(rank_body body, int rank, int world, int port, int *fd)
{
    int p[2];
    pid_t pid;

    assert_int_equal(pipe(p), 0);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        struct err err = ERR_INIT;
        int status;

        close(p[0]);
        rank_env(rank, world, port);
        status = body(rank, &err) == 0 ? 0 : err.code;
        dprintf(p[1], "%s", status ? err_text(&err) : "");
        _Exit(status);
    }
    close(p[1]);
    *fd = p[0];
    return pid;
}

static void collect(pid_t pid, int fd, struct outcome *o)
{
    size_t n = 0;
    ssize_t k;
    int status;

    while ((k = read(fd, o->text + n, sizeof(o->text) - 1 - n)) > 0)
        n += (size_t)k;
    o->text[n] = '\0';
    close(fd);
    waitpid(pid, &status, 0);
    o->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void run_ranks(rank_body body, int first, int n, int world, struct outcome *o)
{
    int port = free_port(), fd[16];
    pid_t pid[16];

    for (int r = first; r < n; r++)
        pid[r] = start_rank(body, r, world, port, &fd[r]);
    for (int r = first; r < n; r++)
        collect(pid[r], fd[r], &o[r]);
}

static int meet_and_talk(int rank, struct err *err)
{
    const struct wireup_self *me;
    struct wireup *w;
    char mine[64], want[64];

    if (wireup_open(&w, 20000, err))
        return -1;
    me = wireup_self(w);
    if (strcmp(me->method, "env") != 0 || me->rank != rank || me->world != 4 ||
        me->local_rank != rank || me->local_world != 4 || me->node_rank != 0 ||
        wireup_machines(w) != 1)
        return err_set(err, ERR_FAILED, "rank %d: I am not who I am", rank);
    for (int round = 0; round < 3; round++) {
        snprintf(mine, sizeof(mine), "rank %d round %d", rank, round);
        if (wireup_put(w, "word", mine, strlen(mine), err) ||
            wireup_put(w, "empty", "", 0, err) || wireup_fence(w, "talk", 20000, err))
            return -1;
        for (int r = 0; r < 4; r++) {
            void *got;
            size_t n;

            snprintf(want, sizeof(want), "rank %d round %d", r, round);
            if (wireup_get(w, r, "word", &got, &n, err))
                return -1;
            if (n != strlen(want) || memcmp(got, want, n) != 0)
                return err_set(err, ERR_FAILED, "got '%s', want '%s'", (char *)got,
                               want);
            free(got);
            if (wireup_get(w, r, "empty", &got, &n, err) || n != 0)
                return -1;
            free(got);
        }
    }
    if (wireup_claim_device(w, "", err))
        return -1;
    wireup_close(w);
    return 0;
}

static void test_four_meet(void **state)
{
    struct outcome o[4];

    (void)state;
    run_ranks(meet_and_talk, 0, 4, 4, o);
    for (int r = 0; r < 4; r++) {
        assert_string_equal(o[r].text, "");
        assert_int_equal(o[r].status, 0);
    }
}

static int share_a_device(int rank, struct err *err)
{
    struct wireup *w;

    if (wireup_open(&w, 20000, err))
        return -1;
    return wireup_claim_device(w, rank == 1 ? "0000:2a:00.0" : "0000:18:00.0", err);
}

static void test_c16_shared_device(void **state)
{
    struct outcome o[3];

    (void)state;
    run_ranks(share_a_device, 0, 3, 3, o);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(o[r].status, ERR_FAILED);
        assert_non_null(
            strstr(o[r].text, "ranks 0 and 2 are both on GPU 0000:18:00.0"));
    }
}

static int meet_quickly(int rank, struct err *err)
{
    struct wireup *w;

    (void)rank;
    if (wireup_open(&w, 1500, err))
        return -1;
    wireup_close(w);
    return 0;
}

/* C20: two of six never come; all others name both, in time. */
static void test_c20_missing(void **state)
{
    struct outcome o[6];
    int port = free_port(), fd[6];
    int64_t begun = clock_ms();
    pid_t pid[6];

    (void)state;
    for (int r = 0; r < 6; r++)
        if (r != 3 && r != 5)
            pid[r] = start_rank(meet_quickly, r, 6, port, &fd[r]);
    for (int r = 0; r < 6; r++) {
        if (r == 3 || r == 5)
            continue;
        collect(pid[r], fd[r], &o[r]);
        assert_int_equal(o[r].status, ERR_TIMEOUT);
        assert_non_null(strstr(o[r].text, "4 of 6 ranks came within"));
        assert_non_null(strstr(o[r].text, "missing: ranks 3 ("));
        assert_non_null(strstr(o[r].text, "never connected), 5 ("));
    }
    assert_true(clock_ms() - begun < 5000);
}

static void test_no_master(void **state)
{
    struct outcome o[2];

    (void)state;
    run_ranks(meet_quickly, 1, 2, 2, o);
    assert_int_equal(o[1].status, ERR_TIMEOUT);
    assert_non_null(strstr(o[1].text, "rank 0 is missing: 127.0.0.1:"));
}

static int meet_and_leave(int rank, struct err *err)
{
    struct wireup *w;

    if (wireup_open(&w, 20000, err))
        return -1;
    if (rank == 1)
        _Exit(7);
    return wireup_fence(w, "second", 20000, err);
}

/* A rank that dies is named at once, not at the deadline. */
static void test_rank_dies(void **state)
{
    struct outcome o[3];
    int64_t begun = clock_ms();

    (void)state;
    run_ranks(meet_and_leave, 0, 3, 3, o);
    assert_int_equal(o[1].status, 7);
    assert_int_equal(o[0].status, ERR_FAILED);
    assert_non_null(strstr(o[0].text, "rank 1 on "));
    assert_non_null(strstr(o[2].text, "went away"));
    assert_true(clock_ms() - begun < 8000);
}

static int wrong_world(int rank, struct err *err)
{
    if (rank == 1) {
        put_number("WORLD_SIZE", 3);
        put_number("LOCAL_WORLD_SIZE", 3);
    }
    return meet_quickly(rank, err);
}

static void test_wrong_world(void **state)
{
    struct outcome o[2];

    (void)state;
    run_ranks(wrong_world, 0, 2, 2, o);
    assert_int_equal(o[1].status, ERR_USAGE);
    assert_non_null(strstr(o[1].text, "WORLD_SIZE is 3"));
    assert_int_equal(o[0].status, ERR_TIMEOUT);
    assert_non_null(strstr(o[0].text, "missing: rank 1"));
}

static int another_job(int rank, struct err *err)
{
    setenv("MUSTER_JOB_KEY", rank ? "theirs" : "ours", 1);
    return meet_quickly(rank, err);
}

static void test_stranger_refused(void **state)
{
    struct outcome o[2];

    (void)state;
    run_ranks(another_job, 0, 2, 2, o);
    assert_int_equal(o[1].status, ERR_USAGE);
    assert_non_null(strstr(o[1].text, "is not rank 0 of this job"));
    assert_int_equal(o[0].status, ERR_TIMEOUT);
}

static int same_rank(int rank, struct err *err)
{
    if (rank == 2)
        setenv("RANK", "1", 1);
    return meet_quickly(rank, err);
}

static void test_rank_twice(void **state)
{
    struct outcome o[3];

    (void)state;
    run_ranks(same_rank, 0, 3, 3, o);
    assert_true(o[1].status == ERR_USAGE || o[2].status == ERR_USAGE);
    assert_non_null(strstr(o[1].status == ERR_USAGE ? o[1].text : o[2].text,
                           "RANK 1 is taken by a process on"));
}

static void test_bad_environment(void **state)
{
    struct err err = ERR_INIT;
    struct wireup *w;

    (void)state;
    rank_env(0, 4, 1);
    setenv("RANK", "4", 1);
    assert_err(wireup_open(&w, 100, &err), &err, ERR_USAGE, "RANK='4'");
    setenv("RANK", "x", 1);
    assert_err(wireup_open(&w, 100, &err), &err, ERR_USAGE, "RANK='x'");
    setenv("RANK", "0", 1);
    setenv("MASTER_PORT", "99999", 1);
    assert_err(wireup_open(&w, 100, &err), &err, ERR_USAGE, "MASTER_PORT='99999'");
    /* C03: two machines, and the master is loopback */
    rank_env(0, 4, 29999);
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    setenv("LOCAL_RANK", "0", 1);
    assert_err(wireup_open(&w, 100, &err), &err, ERR_USAGE,
               "127.0.0.1 resolves to 127.0.0.1");
}

static void test_port_in_use(void **state)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct err err = ERR_INIT;
    struct wireup *w;

    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 1), 0);
    getsockname(fd, (struct sockaddr *)&at, &len);
    rank_env(0, 2, ntohs(at.sin_port));
    assert_err(wireup_open(&w, 500, &err), &err, ERR_SYSTEM, "cannot listen");
    close(fd);
}

static void test_single(void **state)
{
    struct err err = ERR_INIT;
    struct wireup *w;
    void *got;
    size_t n;

    (void)state;
    empty_env();
    assert_ok(wireup_open(&w, 1000, &err), &err);
    assert_string_equal(wireup_self(w)->method, "single");
    assert_int_equal(wireup_self(w)->world, 1);
    assert_ok(wireup_put(w, "k", "abc", 3, &err), &err);
    assert_ok(wireup_put(w, "k", "abcd", 4, &err), &err);
    assert_ok(wireup_fence(w, "x", 10, &err), &err);
    assert_ok(wireup_get(w, 0, "k", &got, &n, &err), &err);
    assert_int_equal(n, 4);
    assert_string_equal(got, "abcd");
    free(got);
    assert_err(wireup_get(w, 0, "no", &got, &n, &err), &err, ERR_FAILED, "'no'");
    assert_true(strlen(wireup_self(w)->boot_id) > 8);
    wireup_close(w);
    wireup_close(NULL);
}

/* Vectors of the SipHash paper's reference code (key 00..0f, input 00,01,...). */
static void test_siphash(void **state)
{
    const struct kv_key key = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };
    unsigned char in[64];

    (void)state;
    for (int i = 0; i < 64; i++)
        in[i] = (unsigned char)i;
    assert_true(kv_siphash(key, in, 0) == 0x726fdb47dd0e0e31);
    assert_true(kv_siphash(key, in, 8) == 0x93f5f5799a932462);
    assert_true(kv_siphash(key, in, 15) == 0xa129ca6149be45e5);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_four_meet),
        cmocka_unit_test(test_c16_shared_device),
        cmocka_unit_test(test_c20_missing),
        cmocka_unit_test(test_no_master),
        cmocka_unit_test(test_rank_dies),
        cmocka_unit_test(test_wrong_world),
        cmocka_unit_test(test_stranger_refused),
        cmocka_unit_test(test_rank_twice),
        cmocka_unit_test(test_bad_environment),
        cmocka_unit_test(test_port_in_use),
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_siphash),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
