#include "launcher/task_reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "launcher/task_wire.h"
#include "trainer/kvdial.h"

enum { REACH_MS = 60000, ONE_ADDRESS_MS = 5000 };

/* HOST:PORT; 0 or -1. */
static int parse_address(const char *text, size_t n, struct kvdial *k)
{
    char one[sizeof(k->master)], *colon;

    if (n >= sizeof(one))
        return -1;
    snprintf(one, sizeof(one), "%.*s", (int)n, text);
    colon = strrchr(one, ':');
    if (!colon)
        return -1;
    *colon = '\0';
    snprintf(k->master, sizeof(k->master), "%s", one);
    k->port = (int)strtol(colon + 1, NULL, 10);
    return k->port > 0 && k->port < 65536 ? 0 : -1;
}

int task_reach(struct err *err)
{
    const char *at = getenv(TASK_AT), *key = getenv("MUSTER_JOB_KEY");
    int64_t deadline = clock_ms() + REACH_MS, until;
    struct kvdial k = { .port = 0 };
    int fd = -1;

    if (!at || !key)
        return err_set(err, ERR_USAGE,
                       "no launcher is named: muster starts this by itself");
    k.key = kv_key_of(key);
    while (fd < 0 && clock_ms() < deadline) {
        for (const char *p = at; *p && fd < 0; p += strcspn(p, " "), p += *p == ' ') {
            if (parse_address(p, strcspn(p, " "), &k) < 0)
                continue;
            err_release(err);
            until = clock_ms() + ONE_ADDRESS_MS;
            fd = kvdial_reach(&k, until < deadline ? until : deadline, err);
        }
    }
    if (fd < 0)
        return err_set(err, ERR_TIMEOUT,
                       "the launcher is not reached at any of %s: is there a firewall "
                       "between this node and the one where muster launch runs?",
                       at);
    err_release(err);
    task_keep_alive(fd);
    return fd;
}
