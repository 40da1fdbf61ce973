#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/agent_state.h"
#include "launcher/pmix_server.h"

/* ---- from the server to the launcher ---- */

/* Pointers do not go over the stream: what comes back is looked up. */
static uint64_t keep(struct agent *a, void *ticket, int is_fence)
{
    struct agent_ticket *t = xcalloc(1, sizeof(*t));

    *t = (struct agent_ticket){ ++a->n_tickets, ticket, is_fence, a->tickets };
    a->tickets = t;
    return t->id;
}

static void answer(const struct agent_ticket *t, int status, const char *blob, size_t n)
{
    if (t->is_fence)
        pmixd_fence_done(t->ticket, status, blob, n);
    else
        pmixd_modex_done(t->ticket, status, blob, n);
}

static int put_fence(struct agent *a, const struct pmixd_event *e, struct err *err)
{
    frame_begin(&a->to, FRAME_FENCE);
    frame_add_u64(&a->to, keep(a, e->ticket, 1));
    frame_add_u32(&a->to, (uint32_t)e->n_ranks);
    for (int i = 0; i < e->n_ranks; i++)
        frame_add_u32(&a->to, (uint32_t)e->ranks[i]);
    frame_add_piece(&a->to, e->blob, e->blob_len);
    return frame_end(&a->to, err);
}

static int put_modex(struct agent *a, const struct pmixd_event *e, struct err *err)
{
    frame_begin(&a->to, FRAME_MODEX);
    frame_add_u64(&a->to, keep(a, e->ticket, 0));
    frame_add_u32(&a->to, (uint32_t)e->rank);
    return frame_end(&a->to, err);
}

static int put_fetched(struct agent *a, const struct pmixd_event *e, struct err *err)
{
    uint64_t *route = e->ticket;

    frame_begin(&a->to, FRAME_FETCHED);
    frame_add_u64(&a->to, *route);
    frame_add_u32(&a->to, (uint32_t)e->status);
    frame_add_piece(&a->to, e->blob, e->blob_len);
    free(route);
    return frame_end(&a->to, err);
}

static int put_other(struct agent *a, const struct pmixd_event *e, struct err *err)
{
    frame_begin(&a->to, FRAME_PMIX);
    frame_add_u32(&a->to, (uint32_t)e->what);
    frame_add_u32(&a->to, (uint32_t)e->rank);
    frame_add_u32(&a->to, (uint32_t)e->status);
    frame_add_text(&a->to, e->text);
    return frame_end(&a->to, err);
}

static int put_event(struct agent *a, const struct pmixd_event *e, struct err *err)
{
    switch (e->what) {
    case PMIXD_FENCE:
        return put_fence(a, e, err);
    case PMIXD_MODEX:
        return put_modex(a, e, err);
    case PMIXD_FETCHED:
        return put_fetched(a, e, err);
    default:
        return put_other(a, e, err);
    }
}

void agent_pmix_events(struct agent *a)
{
    struct err err = ERR_INIT;
    struct pmixd_event *e;

    while (a->server && (e = pmixd_next(a->server))) {
        if (put_event(a, e, &err) < 0)
            agent_failed(a, &err, -1);
        err_release(&err);
        pmixd_event_free(e);
    }
}

/* ---- from the launcher to the server ---- */

void agent_pmix_answer(struct agent *a, struct frame *f)
{
    struct agent_ticket **at = &a->tickets, *t;
    uint64_t id = frame_u64(f);
    int status = (int)frame_u32(f), is_fence = f->type == FRAME_FENCE_DONE;
    size_t n;
    const char *blob = frame_piece(f, &n);

    if (f->bad)
        return;
    while (*at && !((*at)->id == id && (*at)->is_fence == is_fence))
        at = &(*at)->next;
    t = *at;
    if (!t) {
        f->bad = 1;
        return;
    }
    *at = t->next;
    answer(t, status, blob, n);
    free(t);
}

static void put_not_found(struct agent *a, uint64_t route)
{
    frame_begin(&a->to, FRAME_FETCHED);
    frame_add_u64(&a->to, route);
    frame_add_u32(&a->to, (uint32_t)pmixd_not_found);
    frame_add_piece(&a->to, NULL, 0);
    frame_end(&a->to, NULL);
}

int agent_pmix_fetch(struct agent *a, struct frame *f, struct err *err)
{
    uint64_t *route = xcalloc(1, sizeof(*route));
    uint32_t rank;

    *route = frame_u64(f);
    rank = frame_u32(f);
    if (frame_done(f, err) < 0) {
        free(route);
        return -1;
    }
    if (rank < (uint32_t)a->job.world && a->job.node_of[rank] == a->job.node &&
        pmixd_fetch(a->server, (int)rank, route, NULL) == 0)
        return 0;
    put_not_found(a, *route);
    free(route);
    return 0;
}

void agent_pmix_forget(struct agent *a)
{
    while (a->tickets) {
        struct agent_ticket *t = a->tickets;
        a->tickets = t->next;
        answer(t, pmixd_not_found, NULL, 0);
        free(t);
    }
}
