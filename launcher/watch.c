#include "launcher/watch.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/watch_meet.h"
#include "launcher/watch_place.h"

enum { BLAMED_MS = 2000 };

static const char first_meeting[] = "the first meeting";

struct rank {
    struct watch_plan plan;
    int arrived, connected, finalized, ended, failed;
    int status, signo;
    int missing;       /* the verdict is that it was not there */
    int aborted;       /* called PMIx_Abort */
    double error_time; /* of its "error" event; HUGE_VAL: none */
    int error_code;
    int because_of; /* the rank that its "error" event blames; -1: none */
    int of_peer;    /* its "error" is that some other rank is gone */
    int64_t step;   /* the last it told of; -1: none */
    char *said;     /* text of the abort or error event */
    char *last_words;
    int64_t seen; /* last sign of life */
};

struct watch {
    struct watch_config c;
    struct rank *rank;
    struct meetings *meetings;
    struct places *places;
    int any_exit;         /* new exits since the last judgement */
    int64_t blamed_until; /* wait so long for a blamed rank to fail; 0: for none */
    int judged;
    struct watch_verdict verdict;
};

struct watch *watch_new(const struct watch_config *c, int64_t now)
{
    struct watch *w = xcalloc(1, sizeof(*w));

    w->c = *c;
    w->rank = xcalloc((size_t)c->world, sizeof(*w->rank));
    w->meetings = meetings_new(c->world);
    w->places = places_new(c->world, c->rank);
    for (int r = 0; r < c->world; r++) {
        w->rank[r].plan = c->rank[r];
        w->rank[r].error_time = HUGE_VAL;
        w->rank[r].because_of = -1;
        w->rank[r].step = -1;
        w->rank[r].seen = now;
    }
    if (c->expect_arrival)
        meetings_open(w->meetings, first_meeting, now);
    return w;
}

void watch_free(struct watch *w)
{
    if (!w)
        return;
    for (int r = 0; r < w->c.world; r++) {
        free(w->rank[r].said);
        free(w->rank[r].last_words);
    }
    meetings_free(w->meetings);
    places_free(w->places);
    free(w->rank);
    free(w->verdict.reason);
    free(w);
}

static void arrive(struct watch *w, int rank, const char *stage, int64_t now)
{
    if (w->c.expect_arrival && !w->rank[rank].arrived++)
        meetings_arrive(w->meetings, first_meeting, rank, now);
    meetings_arrive(w->meetings, stage, rank, now);
}

void watch_pmix(struct watch *w, int rank, enum watch_pmix what, int64_t now)
{
    struct rank *r = &w->rank[rank];

    r->seen = now;
    if (what == WATCH_FINALIZED) {
        r->finalized = 1;
        meetings_leave(w->meetings, rank);
        return;
    }
    if (!r->connected)
        meetings_arrive(w->meetings, "PMIx_Init", rank, now);
    r->connected = 1;
    r->finalized = 0;
}

void watch_abort(struct watch *w, int rank, int status, const char *text)
{
    struct rank *r = &w->rank[rank];

    if (r->aborted)
        return;
    r->aborted = r->failed = 1;
    r->status = status > 0 && status < 256 ? status : ERR_FAILED;
    if (!r->said)
        r->said = xstrdup(text);
    w->any_exit = 1;
}

void watch_output(struct watch *w, int rank, int64_t now)
{
    w->rank[rank].seen = now;
}

static void note_error(struct rank *r, const struct js *e)
{
    if (r->error_time < HUGE_VAL)
        return; /* the first one is the cause */
    r->error_time = js_get_real(e, "t", 0);
    r->error_code = (int)js_get_int(e, "code", 0);
    r->because_of = (int)js_get_int(e, "because_of", -1);
    r->of_peer = js_get_bool(e, "of_peer", 0);
    free(r->said);
    r->said = xstrdup(js_str(e, "text", ""));
}

void watch_event(struct watch *w, int rank, const struct js *e, int64_t now)
{
    const char *name = js_str(e, "event", "");
    struct rank *r = &w->rank[rank];

    r->seen = now;
    r->step = js_get_int(e, "step", r->step);
    if (str_eq(name, "arrive"))
        arrive(w, rank, js_str(e, "stage", "?"), now);
    else if (str_eq(name, "place"))
        places_report(w->places, rank, e);
    else if (str_eq(name, "task"))
        places_bound(w->places, rank, e);
    else if (str_eq(name, "error"))
        note_error(r, e);
}

void watch_exit(struct watch *w, int rank, int status, int signo,
                const char *last_words)
{
    struct rank *r = &w->rank[rank];

    r->ended = 1;
    r->signo = signo;
    w->any_exit = 1;
    if (!r->aborted)
        r->status = status;
    r->failed |= status != 0 || (r->connected && !r->finalized);
    free(r->last_words);
    r->last_words = xstrdup(last_words);
    meetings_leave(w->meetings, rank);
}

void watch_shift(struct watch *w, int64_t ms)
{
    for (int r = 0; r < w->c.world; r++)
        w->rank[r].seen += ms;
    meetings_shift(w->meetings, ms);
}

/* ---- judging ---- */

/* Of two failed ranks, did `a` fail before `b`, as far as one can tell? */
static int came_first(const struct rank *a, const struct rank *b)
{
    if (a->of_peer != b->of_peer)
        return b->of_peer;
    if (a->error_time < HUGE_VAL || b->error_time < HUGE_VAL)
        return a->error_time < b->error_time;
    if (a->aborted != b->aborted)
        return a->aborted;
    return a->signo && !b->signo;
}

static void describe_failure(const struct rank *r, int rank, struct str *s)
{
    str_addf(s, "rank %d on %s ", rank, r->plan.host);
    if (r->aborted)
        str_addf(s, "aborted with status %d", r->status);
    else if (r->signo)
        str_addf(s, "died of signal %d (%s%s)", r->signo, strsignal(r->signo),
                 r->signo == SIGKILL ? ", not by muster: out of memory?" : "");
    else if (r->status == 0)
        str_adds(s, "ended without PMIx_Finalize (MPI_Finalize), so others would wait "
                    "for it");
    else
        str_addf(s, "ended with status %d", r->status);
    if (r->said && *r->said)
        str_addf(s, ": %s", r->said);
    else if (r->last_words && *r->last_words)
        str_addf(s, "; its last words: %s", r->last_words);
}

static const struct watch_verdict *say(struct watch *w, int status, const char *cause,
                                       int culprit, struct str *reason)
{
    w->judged = 1;
    w->verdict = (struct watch_verdict){ status, cause, culprit, str_take(reason) };
    return &w->verdict;
}

static int first_failed(const struct watch *w)
{
    int first = -1;

    for (int r = 0; r < w->c.world; r++)
        if (w->rank[r].failed &&
            (first < 0 || came_first(&w->rank[r], &w->rank[first])))
            first = r;
    return first;
}

/* The failed rank that `first` blames, else `first`; -1: another is to fail soon. */
static int root_of(struct watch *w, int first, int64_t now)
{
    int root = w->rank[first].because_of, known = root >= 0 && root < w->c.world;

    if (!known && !w->rank[first].of_peer)
        return first;
    if (known && w->rank[root].failed)
        return root;
    if (!w->blamed_until)
        w->blamed_until = now + BLAMED_MS;
    return now < w->blamed_until ? -1 : first;
}

static const struct watch_verdict *judge_exits(struct watch *w, int64_t now)
{
    struct str s = STR_INIT;
    const struct rank *f;
    int first = first_failed(w);
    const char *cause;

    w->any_exit = 0;
    if (first >= 0)
        first = root_of(w, first, now);
    if (first < 0)
        return NULL;
    f = &w->rank[first];
    describe_failure(f, first, &s);
    cause = f->aborted                                                 ? "rank"
            : f->signo                                                 ? "signal"
            : f->error_code == ERR_TIMEOUT && f->status == ERR_TIMEOUT ? "timeout"
                                                                       : "rank";
    return say(w, f->status ? f->status : ERR_FAILED, cause, first, &s);
}

static void add_who(struct watch *w, int rank, int n, struct str *s)
{
    struct rank *r = &w->rank[rank];

    r->missing = 1;
    str_addf(s, "%srank %d on %s", n ? ", " : "", rank, r->plan.host);
    if (r->ended)
        str_addf(s, " (ended with status %d)", r->status);
    else if (r->step >= 0)
        str_addf(s, " (last step %lld)", (long long)r->step);
}

static const struct watch_verdict *judge_meeting(struct watch *w, int64_t now)
{
    const char *stage = meetings_late(w->meetings, now - w->c.meet_timeout_ms);
    struct str who = STR_INIT, s = STR_INIT;
    int n = 0, one = -1;

    if (!stage)
        return NULL;
    str_adds(&who, "");
    for (int r = 0; r < w->c.world; r++)
        if (meetings_misses(w->meetings, stage, r)) {
            add_who(w, r, n++, &who);
            one = r;
        }
    str_addf(&s, "%d of %d ranks did not arrive at %s within %.3g s: %s", n, w->c.world,
             stage, (double)w->c.meet_timeout_ms / 1e3, who.text);
    str_release(&who);
    return say(w, ERR_TIMEOUT, "timeout", n == 1 ? one : -1, &s);
}

static const struct watch_verdict *judge_silence(struct watch *w, int64_t now)
{
    struct str who = STR_INIT, s = STR_INIT;
    int n = 0, one = -1;

    for (int r = 0; r < w->c.world; r++)
        if (!w->rank[r].ended && now - w->rank[r].seen >= w->c.silence_timeout_ms) {
            add_who(w, r, n++, &who);
            one = r;
        }
    if (!n)
        return NULL;
    str_addf(&s, "no sign of life for %.3g s: %s",
             (double)w->c.silence_timeout_ms / 1e3, who.text);
    str_release(&who);
    return say(w, ERR_TIMEOUT, "timeout", n == 1 ? one : -1, &s);
}

static const struct watch_verdict *judge_places(struct watch *w)
{
    struct str s = STR_INIT;
    int culprit = -1;

    if (!places_wrong(w->places, &s, &culprit))
        return NULL;
    return say(w, ERR_FAILED, "start", culprit, &s);
}

const struct watch_verdict *watch_judge(struct watch *w, int64_t now)
{
    const struct watch_verdict *v = NULL;

    if (w->judged)
        return &w->verdict;
    if (w->any_exit || (w->blamed_until && now >= w->blamed_until))
        v = judge_exits(w, now);
    if (!v)
        v = judge_places(w);
    if (!v && w->c.meet_timeout_ms > 0)
        v = judge_meeting(w, now);
    if (!v && w->c.silence_timeout_ms > 0)
        v = judge_silence(w, now);
    return v;
}

int watch_misses(const struct watch *w, int rank)
{
    return w->rank[rank].missing;
}

int64_t watch_next(const struct watch *w)
{
    int64_t next = -1, opened = meetings_oldest(w->meetings);

    if (w->judged)
        return -1;
    if (w->c.meet_timeout_ms > 0 && opened >= 0)
        next = opened + w->c.meet_timeout_ms;
    if (w->blamed_until && (next < 0 || w->blamed_until < next))
        next = w->blamed_until;
    for (int r = 0; w->c.silence_timeout_ms > 0 && r < w->c.world; r++) {
        int64_t t = w->rank[r].seen + w->c.silence_timeout_ms;
        if (!w->rank[r].ended && (next < 0 || t < next))
            next = t;
    }
    return next;
}
