#include "trainer/kvmeet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

void kvmeet_init(struct kvmeet *m, int world, int local_world)
{
    memset(m, 0, sizeof(*m));
    m->world = world;
    m->local_world = local_world;
    m->member = xcalloc((size_t)world, sizeof(*m->member));
}

void kvmeet_release(struct kvmeet *m)
{
    free(m->member);
    err_release(&m->failure);
}

int kvmeet_join(struct kvmeet *m, int64_t rank, long world, long node_rank,
                const char *host, struct err *err)
{
    struct kvmember *who;

    if (world != m->world)
        return err_set(
            err, ERR_USAGE,
            "WORLD_SIZE is %ld on %s and %d at rank 0: it must be one number", world,
            host, m->world);
    if (rank < 0 || rank >= m->world)
        return err_set(err, ERR_USAGE, "RANK %ld is not below WORLD_SIZE %d",
                       (long)rank, m->world);
    who = &m->member[rank];
    if (who->here)
        return err_set(err, ERR_USAGE, "RANK %ld is taken by a process on %s",
                       (long)rank, who->host);
    who->here = 1;
    who->node_rank = (int)node_rank;
    snprintf(who->host, sizeof(who->host), "%s", host);
    return 0;
}

int kvmeet_bye(struct kvmeet *m, int rank)
{
    m->left = rank + 1;
    return m->arrived > 0 ? kvmeet_lost(m, rank) : 0;
}

int kvmeet_arrive(struct kvmeet *m, int rank, const char *what, int64_t timeout_ms,
                  int64_t now_ms)
{
    if (m->arrived == 0) {
        snprintf(m->what, sizeof(m->what), "%s", what);
        m->begun_ms = now_ms;
        m->deadline_ms = now_ms + timeout_ms;
    }
    m->arrived += !m->member[rank].fenced;
    m->member[rank].fenced = 1;
    return m->arrived == m->world;
}

void kvmeet_next(struct kvmeet *m)
{
    for (int r = 0; r < m->world; r++)
        m->member[r].fenced = 0;
    m->arrived = 0;
}

static int node_of(const struct kvmeet *m, int rank)
{
    if (m->member[rank].here && m->member[rank].node_rank >= 0)
        return m->member[rank].node_rank;
    return m->local_world > 0 ? rank / m->local_world : -1;
}

/* The host of a node, from any rank of it that came. */
static const char *host_of_node(const struct kvmeet *m, int node)
{
    for (int r = 0; r < m->world; r++)
        if (m->member[r].here && node_of(m, r) == node)
            return m->member[r].host;
    return NULL;
}

static void add_missing(const struct kvmeet *m, int r, struct str *text)
{
    int node = node_of(m, r);
    const char *host = node >= 0 ? host_of_node(m, node) : NULL;

    str_addf(text, "%s%d", text->len ? ", " : "", r);
    if (m->member[r].here)
        str_addf(text, " (%s)", m->member[r].host);
    else if (host)
        str_addf(text, " (%s, never connected)", host);
    else if (node >= 0)
        str_addf(text, " (node %d, never connected)", node);
    else
        str_adds(text, " (never connected)");
}

int kvmeet_late(struct kvmeet *m, int64_t now_ms)
{
    struct str who = STR_INIT;
    int missing = m->world - m->arrived;

    if (m->failure.code || m->arrived == 0 || now_ms < m->deadline_ms)
        return 0;
    str_adds(&who, "");
    for (int r = 0; r < m->world; r++)
        if (!m->member[r].fenced)
            add_missing(m, r, &who);
    err_set(&m->failure, ERR_TIMEOUT,
            "%s: %d of %d ranks came within %.1f s; missing: rank%s %s", m->what,
            m->arrived, m->world, (double)(now_ms - m->begun_ms) / 1000,
            missing == 1 ? "" : "s", who.text);
    str_release(&who);
    return 1;
}

int kvmeet_lost(struct kvmeet *m, int rank)
{
    if (m->failure.code)
        return 0;
    err_set(&m->failure, ERR_FAILED,
            "rank %d on %s went away while the others wait for it", rank,
            m->member[rank].host);
    return 1;
}
