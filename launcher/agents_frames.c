/* agents_frames.c - what the agents of a run say, and what the hub answers. */
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/js.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/agents_state.h"
#include "launcher/hub.h"
#include "launcher/node.h"
#include "launcher/pmix_server.h"
#include "launcher/run_state.h"

/* What the hub says. */
void agents_answer(void *arg, const struct hub_answer *h)
{
    static const enum frame_type type_of[] = { [HUB_FENCE_DONE] = FRAME_FENCE_DONE,
                                               [HUB_FETCH] = FRAME_FETCH,
                                               [HUB_MODEX_DONE] = FRAME_MODEX_DONE };
    struct run *run = arg;
    const struct agents *a = run->backend_data;
    struct frame_out *to = &a->member[h->node].link->to;
    struct err err = ERR_INIT;

    frame_begin(to, type_of[h->kind]);
    frame_add_u64(to, h->ticket);
    frame_add_u32(to, (uint32_t)(h->kind == HUB_FETCH ? h->rank : h->status));
    if (h->kind != HUB_FETCH)
        frame_add_piece(to, h->blob, h->len);
    if (frame_end(to, &err) < 0)
        run_end(run, (int)err.code, "node", -1, err_text(&err));
    err_release(&err);
}

/* ---- what agents say ---- */

static int rank_of(const struct run *run, int n, struct frame *f)
{
    const struct agents *a = run->backend_data;
    uint32_t rank = frame_u32(f);

    if (rank < (uint32_t)run->world && a->node_of[rank] == n)
        return (int)rank;
    f->bad = 1;
    return 0;
}

/* The working folder is one on every node when its inode is, and the time at which that
 * changed last; file systems over a network may be late with the time by a minute. */
static int is_shared(const struct member *m, const struct stat *here)
{
    int64_t now = (int64_t)time(NULL), late = 120;

    return m->folder == here->st_ino &&
           (m->folder_ctime == here->st_ctim.tv_sec || m->folder_ctime > now - late ||
            here->st_ctim.tv_sec > now - late);
}

static void say_unshared(const struct agents *a)
{
    struct str names = STR_INIT;
    char *folder = getcwd(NULL, 0);
    struct stat here;

    if (folder && stat(".", &here) == 0)
        for (int i = 0; i < a->n; i++)
            if (!is_shared(&a->member[i], &here))
                str_addf(&names, "%s%s", names.len ? ", " : "",
                         a->member[i].link->name);
    if (names.len)
        log_warn(
            "the working folder %s is not the one of this machine on %s: what ranks "
            "read and write there by relative paths is that node's own (start from a "
            "folder on a file system that all share)",
            folder, names.text);
    str_release(&names);
    free(folder);
}

static int take_ready(struct run *run, int n, struct frame *f, struct err *err)
{
    struct agents *a = run->backend_data;
    int port = (int)(frame_u32(f) & 0xffff), all = 1;
    struct member *m = &a->member[n];

    m->folder = frame_u64(f);
    m->folder_ctime = (int64_t)frame_u64(f);
    if (frame_done(f, err) < 0)
        return -1;
    m->ready = port ? port : 1;
    for (int i = 0; i < a->n; i++)
        all &= a->member[i].ready != 0;
    if (!all || a->went || run->phase != RUN_GOING)
        return 0;
    a->went = run->result->begun = 1;
    say_unshared(a);
    port = a->member[a->node_of[0]].ready;
    agents_tell(run, FRAME_GO, port);
    agents_stdin_begin(run);
    return 0;
}

static int take_started(struct run *run, int n, struct frame *f, struct err *err)
{
    struct agents *a = run->backend_data;

    a->member[n].started = 1;
    return frame_done(f, err);
}

/* The agent is well, its job is not. */
static int take_failed(struct run *run, int n, struct frame *f, struct err *err)
{
    const struct agents *a = run->backend_data;
    uint32_t code = frame_u32(f), rank = frame_u32(f);
    const char *why = frame_text(f);
    char *text;
    int known = rank < (uint32_t)run->world && a->node_of[rank] == n;

    if (frame_done(f, err) < 0)
        return -1;
    text =
        known ? xasprintf("rank %d on %s: %s", (int)rank, run_host(run, (int)rank), why)
              : xasprintf("node %s: %s", a->member[n].link->name, why);
    a->member[n].failed = 1;
    if (run->phase == RUN_GOING)
        agents_blame(run, n);
    run_end(run, code >= 1 && code <= 5 ? (int)code : ERR_SYSTEM, "start",
            known ? (int)rank : -1, text);
    free(text);
    agents_call_off(run);
    return 0;
}

static int take_bytes(struct run *run, int n, struct frame *f, struct err *err)
{
    enum run_source source = f->type == FRAME_OUT   ? RUN_OUT
                             : f->type == FRAME_ERR ? RUN_ERR
                                                    : RUN_EVENTS;
    int rank = rank_of(run, n, f);
    size_t len;
    const char *bytes = frame_piece(f, &len);

    if (frame_done(f, err) < 0)
        return -1;
    run_rank_bytes(run, rank, source, bytes, len);
    return 0;
}

static int take_pmix(struct run *run, int n, struct frame *f, struct err *err)
{
    uint32_t what = frame_u32(f);
    int rank = rank_of(run, n, f), status = (int)frame_u32(f);
    const char *text = frame_text(f);
    struct js *o;

    if (frame_done(f, err) < 0)
        return -1;
    if (what == PMIXD_ABORTED) {
        o = js_object();
        js_put_int(o, "status", status);
        js_put_str(o, "text", text);
        run_event_note(run, rank, "abort", o);
        watch_abort(run->watch, rank, status, text);
        return 0;
    }
    if (what != PMIXD_CONNECTED && what != PMIXD_FINALIZED)
        return err_set(err, ERR_FAILED, "a PMIX message of kind %u", what);
    watch_pmix(run->watch, rank,
               what == PMIXD_CONNECTED ? WATCH_CONNECTED : WATCH_FINALIZED, clock_ms());
    run_event_note(run, rank, what == PMIXD_CONNECTED ? "connected" : "finalized",
                   NULL);
    return 0;
}

static int take_fence(struct run *run, int n, struct frame *f, struct err *err)
{
    const struct agents *a = run->backend_data;
    struct hub_fence fence = { .ticket = frame_u64(f) };
    uint32_t ranks = frame_u32(f);
    int rc = -1, *list;

    if (ranks > (uint32_t)run->world)
        f->bad = 1;
    list = xcalloc(f->bad ? 1 : ranks + 1, sizeof(*list));
    for (uint32_t i = 0; i < ranks && !f->bad; i++)
        list[i] = (int)frame_u32(f);
    fence.ranks = list;
    fence.n_ranks = (int)ranks;
    fence.blob = frame_piece(f, &fence.len);
    if (frame_done(f, err) == 0)
        rc = hub_fence(a->hub, n, &fence, err);
    free(list);
    return rc;
}

static int take_modex(struct run *run, int n, struct frame *f, struct err *err)
{
    const struct agents *a = run->backend_data;
    uint64_t ticket = frame_u64(f);
    int rank = (int)frame_u32(f);

    return frame_done(f, err) < 0 ? -1 : hub_modex(a->hub, n, ticket, rank, err);
}

static int take_fetched(struct run *run, int n, struct frame *f, struct err *err)
{
    const struct agents *a = run->backend_data;
    uint64_t route = frame_u64(f);
    int status = (int)frame_u32(f);
    size_t len;
    const char *blob = frame_piece(f, &len);

    return frame_done(f, err) < 0
               ? -1
               : hub_fetched(a->hub, n, route, status, blob, len, err);
}

static int take_exit(struct run *run, int n, struct frame *f, struct err *err)
{
    const struct agents *a = run->backend_data;
    int rank = rank_of(run, n, f), status = (int)frame_u32(f);

    if (frame_done(f, err) < 0)
        return -1;
    if (!a->went || a->over[rank])
        return err_set(err, ERR_FAILED, "rank %d ended, and does not run", rank);
    a->over[rank] = 1;
    run_rank_ended(run, rank, status);
    return 0;
}

static int take_empty(struct run *run, int n, struct frame *f, struct err *err)
{
    struct agents *a = run->backend_data;

    a->member[n].left = (int)(frame_u32(f) & INT32_MAX);
    return frame_done(f, err);
}

static int take_closed(struct run *run, int n, struct frame *f, struct err *err)
{
    struct agents *a = run->backend_data;

    a->member[n].closed = 1;
    return frame_done(f, err);
}

static int take_taken(struct run *run, int n, struct frame *f, struct err *err)
{
    uint32_t bytes = frame_u32(f);

    (void)n;
    if (frame_done(f, err) < 0)
        return -1;
    agents_stdin_taken(run, bytes);
    return 0;
}

static int take_warn(struct run *run, int n, struct frame *f, struct err *err)
{
    const char *name = ((struct agents *)run->backend_data)->member[n].link->name;
    const char *text = frame_text(f);
    struct js *o;

    if (frame_done(f, err) < 0)
        return -1;
    log_warn("node %s: %s", name, text);
    o = js_object();
    js_put_str(o, "node", name);
    js_put_str(o, "text", text);
    run_event_note(run, -1, "warning", o);
    return 0;
}

static int take_alive(struct run *run, int n, struct frame *f, struct err *err)
{
    (void)run, (void)n;
    return frame_done(f, err);
}

static int (*const takes[FRAME_TYPES])(struct run *, int, struct frame *,
                                       struct err *) = {
    [FRAME_READY] = take_ready,   [FRAME_STARTED] = take_started,
    [FRAME_FAILED] = take_failed, [FRAME_OUT] = take_bytes,
    [FRAME_ERR] = take_bytes,     [FRAME_EVENTS] = take_bytes,
    [FRAME_PMIX] = take_pmix,     [FRAME_FENCE] = take_fence,
    [FRAME_MODEX] = take_modex,   [FRAME_FETCHED] = take_fetched,
    [FRAME_EXIT] = take_exit,     [FRAME_EMPTY] = take_empty,
    [FRAME_CLOSED] = take_closed, [FRAME_ALIVE] = take_alive,
    [FRAME_WARN] = take_warn,     [FRAME_TAKEN] = take_taken,
};

int agents_take(struct run *run, int n, struct frame *f, struct err *err)
{
    if (takes[f->type])
        return takes[f->type](run, n, f, err);
    return err_set(err, ERR_FAILED, "its agent sent %s", frame_name(f->type));
}
