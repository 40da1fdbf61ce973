#include "launcher/agent_wire.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/frame.h"

/* ---- the build ---- */

uint64_t agent_hash_file(uint64_t h, const char *path)
{
    uint64_t words[8192];
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    while (fd >= 0 && (n = read(fd, words, sizeof(words))) > 0) {
        memset((char *)words + n, 0, sizeof(words) - (size_t)n);
        for (ssize_t i = 0; i < (n + 7) / 8; i++)
            h = (h ^ words[i]) * 0x100000001b3;
    }
    if (fd >= 0)
        close(fd);
    return h;
}

const char *agent_build(void)
{
    static char text[17];

    if (!*text)
        snprintf(
            text, sizeof(text), "%016llx",
            (unsigned long long)agent_hash_file(0xcbf29ce484222325, "/proc/self/exe"));
    return text;
}

/* ---- who the agent is ---- */

static char **hello_text(struct agent_hello *h, int i)
{
    char **text[] = { &h->version, &h->build,     &h->host,    &h->machine,
                      &h->address, &h->interface, &h->network, &h->nccl,
                      &h->gloo,    &h->mpi,       &h->topology };

    return i < (int)ARRAY_LEN(text) ? text[i] : NULL;
}

void agent_hello_put(struct frame_out *o, const struct agent_hello *h)
{
    struct agent_hello all = *h;

    frame_begin(o, FRAME_HELLO);
    frame_add_u32(o, h->protocol);
    for (int i = 0; hello_text(&all, i); i++)
        frame_add_text(o, *hello_text(&all, i));
    frame_end(o, NULL);
}

int agent_hello_take(struct frame *f, struct agent_hello *h, struct err *err)
{
    struct agent_hello got = { .protocol = frame_u32(f) };

    /* Another protocol may go on differently: its number and version are enough. */
    for (int i = 0; hello_text(&got, i); i++) {
        *hello_text(&got, i) = xstrdup(frame_text(f));
        if (i == 0 && got.protocol != FRAME_PROTOCOL && !f->bad)
            f->left = 0;
        if (got.protocol != FRAME_PROTOCOL && i == 0)
            break;
    }
    if (frame_done(f, err) < 0) {
        agent_hello_release(&got);
        return -1;
    }
    *h = got;
    return 0;
}

void agent_hello_release(struct agent_hello *h)
{
    for (int i = 0; hello_text(h, i); i++)
        free(*hello_text(h, i));
    *h = (struct agent_hello){ 0 };
}

/* ---- the job ---- */

static void put_list(struct frame_out *o, char *const *item, int n)
{
    frame_add_u32(o, (uint32_t)n);
    for (int i = 0; i < n; i++)
        frame_add_text(o, item[i]);
}

int agent_job_put(struct frame_out *o, const struct agent_job *j, struct err *err)
{
    frame_begin(o, FRAME_JOB);
    frame_add_text(o, j->run);
    frame_add_text(o, j->cwd);
    frame_add_text(o, j->dir);
    frame_add_text(o, j->program);
    frame_add_text(o, j->job_key);
    frame_add_text(o, j->file);
    frame_add_text(o, j->text);
    put_list(o, j->needs.item, j->needs.n);
    for (int i = 0; i < j->needs.n; i++)
        frame_add_u64(o, (uint64_t)j->need_bytes[i]);
    put_list(o, j->argv.item, j->argv.n);
    frame_add_u32(o, (uint32_t)j->stdin_rank);
    frame_add_u32(o, (uint32_t)j->grace_ms);
    frame_add_u32(o, (uint32_t)j->node);
    put_list(o, j->nodes.item, j->n_nodes);
    frame_add_u32(o, (uint32_t)j->world);
    for (int r = 0; r < j->world; r++)
        frame_add_u32(o, (uint32_t)j->node_of[r]);
    frame_add_u32(o, (uint32_t)j->n_ranks);
    for (int i = 0; i < j->n_ranks; i++) {
        frame_add_u32(o, (uint32_t)j->ranks[i].rank);
        frame_add_text(o, j->ranks[i].cpus);
        put_list(o, j->ranks[i].env.item, j->ranks[i].env.n);
    }
    return frame_end(o, err);
}

/* A count of things that take at least `least` bytes each: never more than the frame
 * could hold. */
static int take_count(struct frame *f, size_t least)
{
    uint32_t n = frame_u32(f);

    if (n <= f->left / least)
        return (int)n;
    f->bad = 1;
    return 0;
}

static void take_list(struct frame *f, struct strlist *l)
{
    int n = take_count(f, 5);

    for (int i = 0; i < n && !f->bad; i++)
        strlist_add(l, frame_text(f));
    l->item = xrealloc(l->item, (size_t)l->n + 1, sizeof(*l->item));
    l->item[l->n] = NULL;
}

static void take_env(struct frame *f, struct env *e)
{
    int n = take_count(f, 5);

    e->item = xcalloc((size_t)n + 1, sizeof(*e->item));
    while (e->n < n && !f->bad)
        e->item[e->n++] = xstrdup(frame_text(f));
}

static void take_map(struct frame *f, struct agent_job *j)
{
    j->world = take_count(f, 4);
    j->node_of = xcalloc((size_t)j->world + 1, sizeof(*j->node_of));
    for (int r = 0; r < j->world; r++) {
        uint32_t node = frame_u32(f);
        f->bad |= node >= (uint32_t)j->n_nodes;
        j->node_of[r] = f->bad ? 0 : (int)node;
    }
}

static void take_ranks(struct frame *f, struct agent_job *j)
{
    int n = take_count(f, 13), last = -1, mine = 0;

    for (int r = 0; r < j->world; r++)
        mine += j->node_of[r] == j->node;
    f->bad |= n != mine;
    j->ranks = xcalloc((size_t)n + 1, sizeof(*j->ranks));
    for (; j->n_ranks < n && !f->bad; j->n_ranks++) {
        struct agent_rank *a = &j->ranks[j->n_ranks];
        uint32_t rank = frame_u32(f);
        a->cpus = xstrdup(frame_text(f));
        take_env(f, &a->env);
        f->bad |= rank >= (uint32_t)j->world || (int)rank <= last ||
                  j->node_of[rank] != j->node;
        a->rank = last = f->bad ? 0 : (int)rank;
    }
}

int agent_job_take(struct frame *f, struct agent_job *j, struct err *err)
{
    struct agent_job got = { .run = xstrdup(frame_text(f)) };

    got.cwd = xstrdup(frame_text(f));
    got.dir = xstrdup(frame_text(f));
    got.program = xstrdup(frame_text(f));
    got.job_key = xstrdup(frame_text(f));
    got.file = xstrdup(frame_text(f));
    got.text = xstrdup(frame_text(f));
    take_list(f, &got.needs);
    got.need_bytes = xcalloc((size_t)got.needs.n + 1, sizeof(*got.need_bytes));
    for (int i = 0; i < got.needs.n; i++)
        got.need_bytes[i] = (int64_t)frame_u64(f);
    take_list(f, &got.argv);
    got.stdin_rank = (int)frame_u32(f);
    got.grace_ms = (int)(frame_u32(f) & INT32_MAX);
    got.node = (int)(frame_u32(f) & INT32_MAX);
    take_list(f, &got.nodes);
    got.n_nodes = got.nodes.n;
    f->bad |= got.node >= got.n_nodes || got.argv.n == 0;
    take_map(f, &got);
    take_ranks(f, &got);
    if (frame_done(f, err) < 0) {
        agent_job_release(&got);
        return -1;
    }
    *j = got;
    return 0;
}

void agent_job_release(struct agent_job *j)
{
    for (int i = 0; j->ranks && i < j->n_ranks; i++) {
        free(j->ranks[i].cpus);
        env_release(&j->ranks[i].env);
    }
    free(j->ranks);
    free(j->node_of);
    strlist_release(&j->needs);
    free(j->need_bytes);
    strlist_release(&j->argv);
    strlist_release(&j->nodes);
    free(j->file);
    free(j->text);
    free(j->run);
    free(j->cwd);
    free(j->dir);
    free(j->program);
    free(j->job_key);
    *j = (struct agent_job){ 0 };
}
