/* wireup_env.c - RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets
 * them: rank 0 keeps a key-value store (kvserver.h), all are its clients. */
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/kvdial.h"
#include "trainer/kvserver.h"
#include "trainer/kvtable.h"
#include "trainer/wireup_method.h"
#include "trainer/wireup_rules.h"

enum { VERDICT_MS = 2000, LINGER_MS = 5000, SEND_MS = 60000, LAST_WORD_MS = 100 };

struct link {
    int fd, broken;
    int rank, world;
    struct kvdial to;
    struct kvserver *server; /* rank 0's */
    struct kvtable *table;
    struct str in;
};

static int env_int(const char *name, int def, int min, int max, int *out,
                   struct err *err)
{
    const char *text = getenv(name);
    char *end;
    long v;

    if (!text || !*text) {
        if (def >= min)
            return *out = def, 0;
        return err_set(err, ERR_USAGE, "%s is not set: the launcher must set it", name);
    }
    v = strtol(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || v < min || v > max)
        return err_set(err, ERR_USAGE, "%s='%s': not a whole number from %d to %d",
                       name, text, min, max);
    *out = (int)v;
    return 0;
}

static int env_present(void)
{
    const char *world = getenv("WORLD_SIZE");

    return getenv("RANK") && world && strcmp(world, "1") != 0;
}

/* The next frame; it stays valid until the next call.  *used: what to skip. */
static int next_frame(struct link *k, struct kv_frame *f, size_t *used,
                      int64_t deadline_ms, struct err *err)
{
    char buf[65536];
    long n;

    memmove(k->in.text ? k->in.text : buf, k->in.text ? k->in.text + *used : buf,
            k->in.len - *used);
    k->in.len -= *used;
    *used = 0;
    while ((n = kv_parse(k->in.text, k->in.len, f)) == 0) {
        ssize_t got;

        if (kvdial_wait(k->fd, POLLIN, deadline_ms))
            return err_set(err, ERR_TIMEOUT,
                           "the store of rank 0 at %s:%d does not answer", k->to.master,
                           k->to.port);
        got = recv(k->fd, buf, sizeof(buf), 0);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return err_set(err, ERR_FAILED, "rank 0 at %s:%d went away", k->to.master,
                           k->to.port);
        str_add(&k->in, buf, (size_t)got);
    }
    if (n < 0)
        return err_set(err, ERR_FAILED, "rank 0 at %s:%d sent no frame of ours",
                       k->to.master, k->to.port);
    *used = (size_t)n;
    return 0;
}

static void keep(struct link *k, const struct kv_frame *f)
{
    char *key = xstrndup(f->key, f->key_len);

    kvtable_put(k->table, (int)f->rank, key, f->value, f->value_len);
    free(key);
}

/* Take frames until one of type `want`. */
static int await(struct link *k, enum kv_type want, int64_t deadline_ms,
                 struct err *err)
{
    struct kv_frame f;
    size_t used = 0;

    for (;;) {
        if (next_frame(k, &f, &used, deadline_ms, err))
            break;
        if (f.type == KV_FAIL) {
            err_set(err, (enum err_code)f.rank, "%.*s", (int)f.value_len, f.value);
            break;
        }
        if (f.type == KV_DATA)
            keep(k, &f);
        if (f.type == (uint32_t)want) {
            k->in.len -= used;
            memmove(k->in.text, k->in.text + used, k->in.len);
            return 0;
        }
    }
    k->broken = 1;
    return -1;
}

static int say(struct link *k, enum kv_type type, uint32_t rank, const char *key,
               const void *value, size_t n, struct err *err)
{
    struct str s = STR_INIT;
    int rc;

    kv_append(&s, type, rank, key, value, n);
    rc = kvdial_write(k->fd, s.text, s.len, clock_ms() + SEND_MS);
    str_release(&s);
    /* On failure a last word of the store may be waiting to be read. */
    return rc == 0 ? 0 : await(k, KV_FAIL, clock_ms() + LAST_WORD_MS, err);
}

static int join(struct link *k, const struct wireup_self *self, int64_t deadline_ms,
                struct err *err)
{
    char numbers[32];

    snprintf(numbers, sizeof(numbers), "%d %d", k->world, self->node_rank);
    if (say(k, KV_HELLO, (uint32_t)k->rank, self->host, numbers, strlen(numbers), err))
        return -1;
    return await(k, KV_WELCOME, deadline_ms, err);
}

/* --- the method ----------------------------------------------------------------- */

static int read_environment(struct link *k, struct wireup_self *self, struct err *err)
{
    if (env_int("WORLD_SIZE", -1, 2, 1 << 24, &k->world, err) ||
        env_int("RANK", -1, 0, k->world - 1, &k->rank, err) ||
        env_int("MASTER_PORT", 29500, 1, 65535, &k->to.port, err) ||
        wireup_master(k->to.master, sizeof(k->to.master), err))
        return -1;
    self->rank = k->rank;
    self->world = k->world;
    self->local_rank = self->local_world = self->node_rank = -1;
    if ((getenv("LOCAL_WORLD_SIZE") &&
         env_int("LOCAL_WORLD_SIZE", -1, 1, k->world, &self->local_world, err)) ||
        (getenv("LOCAL_RANK") &&
         env_int("LOCAL_RANK", -1, 0, k->world - 1, &self->local_rank, err)) ||
        (getenv("NODE_RANK") &&
         env_int("NODE_RANK", -1, 0, k->world - 1, &self->node_rank, err)))
        return -1;
    return 0;
}

static int check_address(const struct link *k, const struct wireup_self *self,
                         struct err *err)
{
    int machines = self->local_world > 0
                       ? (k->world + self->local_world - 1) / self->local_world
                       : 1;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    char text[64] = "";

    if (getaddrinfo(k->to.master, NULL, &hints, &list) != 0)
        return 0; /* the name may come up yet: reach() reports it */
    getnameinfo(list->ai_addr, list->ai_addrlen, text, sizeof(text), NULL, 0,
                NI_NUMERICHOST);
    freeaddrinfo(list);
    return wireup_check_master(k->to.master, text, machines, "/etc/hosts", err);
}

static void env_close(void *link)
{
    struct link *k = link;
    struct err ignored = ERR_INIT;

    if (k->fd >= 0) {
        if (!k->broken)
            say(k, KV_BYE, 0, "", NULL, 0, &ignored);
        close(k->fd);
    }
    kvserver_stop(k->server, LINGER_MS);
    err_release(&ignored);
    kvtable_free(k->table);
    str_release(&k->in);
    free(k);
}

static int env_open(void **link, struct wireup_self *self, int timeout_ms,
                    struct err *err)
{
    struct link *k = xcalloc(1, sizeof(*k));
    int64_t deadline_ms = clock_ms() + timeout_ms;

    k->fd = -1;
    k->table = kvtable_new();
    if (read_environment(k, self, err) || check_address(k, self, err))
        goto fail;
    k->to.key = kv_job_key(k->to.port);
    k->to.spread = k->rank % 16;
    if (k->rank == 0 &&
        kvserver_start(&k->server, &k->to, k->world, self->local_world, err))
        goto fail;
    k->fd = kvdial_reach(&k->to, deadline_ms, err);
    if (k->fd < 0 || join(k, self, deadline_ms + VERDICT_MS, err))
        goto fail;
    *link = k;
    return 0;
fail:
    env_close(k);
    return -1;
}

static int env_put(void *link, const char *key, const void *bytes, size_t n,
                   struct err *err)
{
    if (strlen(key) > KV_MAX_KEY || n > KV_MAX_VALUE)
        return err_set(err, ERR_FAILED, "'%s': %zu bytes are too many to publish", key,
                       n);
    return say(link, KV_PUT, 0, key, bytes, n, err);
}

static int env_get(void *link, int rank, const char *key, void **out, size_t *n,
                   struct err *err)
{
    struct link *k = link;

    return kvtable_get(k->table, rank, key, out, n, err);
}

static int env_fence(void *link, const char *what, int timeout_ms, struct err *err)
{
    struct link *k = link;

    if (k->broken)
        return err_set(err, ERR_FAILED, "%s: the ranks have lost each other before",
                       what);
    if (say(k, KV_FENCE, (uint32_t)timeout_ms, what, NULL, 0, err))
        return -1;
    /* The store tells who is missing: leave it the time to do so. */
    return await(k, KV_MET, clock_ms() + timeout_ms + VERDICT_MS, err);
}

const struct wireup_method wireup_env = {
    .name = "env",
    .present = env_present,
    .open = env_open,
    .put = env_put,
    .get = env_get,
    .fence = env_fence,
    .close = env_close,
};
