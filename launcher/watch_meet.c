#include "launcher/watch_meet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

enum { MAX_STAGES = 32 };

struct stage {
    char name[64];
    int *arrived;   /* [world] times */
    int round;      /* meetings complete */
    int64_t opened; /* -1: no meeting is open */
};

struct meetings {
    int world, n;
    int *ended; /* [world] */
    struct stage stage[MAX_STAGES];
};

struct meetings *meetings_new(int world)
{
    struct meetings *m = xcalloc(1, sizeof(*m));

    m->world = world;
    m->ended = xcalloc((size_t)world, sizeof(*m->ended));
    return m;
}

void meetings_free(struct meetings *m)
{
    for (int i = 0; i < m->n; i++)
        free(m->stage[i].arrived);
    free(m->ended);
    free(m);
}

static struct stage *find(const struct meetings *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (strncmp(m->stage[i].name, name, sizeof(m->stage[i].name) - 1) == 0)
            return (struct stage *)&m->stage[i];
    return NULL;
}

static struct stage *stage_of(struct meetings *m, const char *name)
{
    struct stage *s = find(m, name);

    if (s || m->n == MAX_STAGES)
        return s;
    s = &m->stage[m->n++];
    snprintf(s->name, sizeof(s->name), "%s", name);
    s->arrived = xcalloc((size_t)m->world, sizeof(*s->arrived));
    s->opened = -1;
    return s;
}

void meetings_open(struct meetings *m, const char *stage, int64_t now)
{
    struct stage *s = stage_of(m, stage);

    if (s && s->opened < 0)
        s->opened = now;
}

/* Close every round that all have reached; a later one may be open already. */
static void settle(const struct meetings *m, struct stage *s, int64_t now)
{
    int least = s->arrived[0], most = s->arrived[0];

    for (int r = 1; r < m->world; r++) {
        least = s->arrived[r] < least ? s->arrived[r] : least;
        most = s->arrived[r] > most ? s->arrived[r] : most;
    }
    if (least > s->round) {
        s->round = least;
        s->opened = -1;
    }
    if (most > s->round && s->opened < 0)
        s->opened = now;
}

void meetings_arrive(struct meetings *m, const char *stage, int rank, int64_t now)
{
    struct stage *s = stage_of(m, stage);

    if (!s)
        return;
    s->arrived[rank]++;
    settle(m, s, now);
}

/* Did somebody arrive who is still there, or may all still come? */
static int is_waited_in(const struct meetings *m, const struct stage *s)
{
    int arrived = 0, left = 0;

    for (int r = 0; r < m->world; r++) {
        arrived += s->arrived[r] > s->round;
        left += s->arrived[r] > s->round ? m->ended[r] : 0;
    }
    return arrived == 0 || left < arrived;
}

void meetings_leave(struct meetings *m, int rank)
{
    m->ended[rank] = 1;
    for (int i = 0; i < m->n; i++)
        if (m->stage[i].opened >= 0 && !is_waited_in(m, &m->stage[i]))
            m->stage[i].opened = -1;
}

void meetings_shift(struct meetings *m, int64_t ms)
{
    for (int i = 0; i < m->n; i++)
        if (m->stage[i].opened >= 0)
            m->stage[i].opened += ms;
}

const char *meetings_late(const struct meetings *m, int64_t before)
{
    for (int i = 0; i < m->n; i++)
        if (m->stage[i].opened >= 0 && m->stage[i].opened <= before)
            return m->stage[i].name;
    return NULL;
}

int meetings_misses(const struct meetings *m, const char *stage, int rank)
{
    const struct stage *s = find(m, stage);

    return s && s->arrived[rank] <= s->round;
}

int64_t meetings_oldest(const struct meetings *m)
{
    int64_t oldest = -1;

    for (int i = 0; i < m->n; i++)
        if (m->stage[i].opened >= 0 && (oldest < 0 || m->stage[i].opened < oldest))
            oldest = m->stage[i].opened;
    return oldest;
}
