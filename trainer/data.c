#include "trainer/data.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "recipes/recipe.h"
#include "trainer/data_source.h"
#include "trainer/order.h"

struct dataset {
    int64_t T, global_batch, vocab, eod;
    int mask;
    int n;
    struct source *source; /* [n] */
    int64_t *first, *last; /* [n] the tokens in use of each: [first, last) */
    int64_t tokens;        /* in use, of all */
    struct order order;
};

/* One descriptor a shard (two with an index): sets of a thousand shards are
 * common and so is a soft limit of 1024. */
static void allow_open_files(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

/* --- what belongs to which set ------------------------------------------------ */

/* Real paths of the validation files: a glob of training data often holds them
 * too, and training must not see them. */
static int validation_files(const struct recipe *r, struct strlist *out,
                            struct err *err)
{
    struct strlist files = { 0 };
    int rc = 0;

    for (int i = 0; rc == 0 && i < r->data.validation_path.n; i++)
        rc = data_files(r->data.validation_path.item[i], &files, err);
    for (int i = 0; i < files.n; i++) {
        char *real = realpath(files.item[i], NULL);
        strlist_add(out, real ? real : files.item[i]);
        free(real);
    }
    strlist_release(&files);
    return rc == 0 ? 0 : err_wrap(err, "data.validation_path");
}

static int open_sources(struct dataset *d, const struct recipe *r,
                        const struct strlist *entries, int validation, struct err *err)
{
    struct strlist except = { 0 };
    int rc = validation ? 0 : validation_files(r, &except, err);

    d->source = xcalloc((size_t)entries->n, sizeof(*d->source));
    d->first = xcalloc((size_t)entries->n, sizeof(*d->first));
    d->last = xcalloc((size_t)entries->n, sizeof(*d->last));
    for (; rc == 0 && d->n < entries->n; d->n++) {
        rc = source_open(&d->source[d->n], entries->item[d->n], &except, err);
        if (rc != 0)
            break;
    }
    strlist_release(&except);
    return rc;
}

/* The tail of a source that validation_fraction holds out: at least a sample. */
static int64_t held_out(const struct recipe *r, int64_t tokens, int64_t T)
{
    int64_t n;

    if (r->data.validation_path.n > 0 || r->data.validation_fraction <= 0)
        return 0;
    n = (int64_t)((double)tokens * r->data.validation_fraction);
    if (n < T + 1)
        n = T + 1;
    return n < tokens ? n : tokens;
}

static void divide(struct dataset *d, const struct recipe *r, int validation)
{
    for (int i = 0; i < d->n; i++) {
        int64_t tokens = d->source[i].tokens, cut = tokens - held_out(r, tokens, d->T);
        int tail = validation && r->data.validation_path.n == 0;
        d->first[i] = tail ? cut : 0;
        d->last[i] = tail || validation ? tokens : cut;
        d->tokens += d->last[i] - d->first[i];
    }
}

/* --- can it be used? ---------------------------------------------------------- */

static int check_amount(const struct dataset *d, const struct recipe *r, int world,
                        int validation, struct err *err)
{
    int64_t all = 0, B = r->training.local_batch_size, need = world * B * d->T + 1;

    for (int i = 0; i < d->n; i++)
        all += d->source[i].tokens;
    if (!validation && d->tokens < need)
        return err_set(
            err, ERR_USAGE,
            "data.path: need world*B*T+1 = %d*%lld*%lld+1 = %lld tokens, "
            "have %lld%s",
            world, (long long)B, (long long)d->T, (long long)need, (long long)d->tokens,
            all > d->tokens ? " after data.validation_fraction is held out" : "");
    for (int i = 0; i < d->n; i++)
        if (d->last[i] - d->first[i] < d->T + 1)
            return err_set(
                err, ERR_USAGE,
                "%s: need training.seq_len+1 = %lld tokens for one %s sample, "
                "have %lld",
                d->source[i].entry, (long long)d->T + 1,
                validation ? "validation" : "training",
                (long long)(d->last[i] - d->first[i]));
    return 0;
}

static int check_weights(const struct dataset *d, const struct recipe *r,
                         struct err *err)
{
    const struct reallist *w = &r->data.weights;
    double sum = 0;

    if (w->n == 0)
        return 0;
    if (w->n != d->n)
        return err_set(err, ERR_USAGE,
                       "data.weights: %d weights for %d entries of data.path: give one "
                       "each, or none",
                       w->n, d->n);
    for (int i = 0; i < w->n; i++) {
        if (!(w->item[i] >= 0 && w->item[i] <= 1e12))
            return err_set(err, ERR_USAGE, "data.weights: %g is not a weight >= 0",
                           w->item[i]);
        sum += w->item[i];
    }
    return sum > 0 ? 0 : err_set(err, ERR_USAGE, "data.weights: all are 0");
}

static int check_marks(const struct dataset *d, struct err *err)
{
    for (int i = 0; d->mask && d->eod < 0 && i < d->n; i++)
        if (!d->source[i].marked)
            return err_set(err, ERR_USAGE,
                           "data.document_mask: %s does not mark documents: set "
                           "data.eod_token (256 in shards of `muster data pack`)",
                           d->source[i].entry);
    return 0;
}

/* Validation is ordered by its own key and token counts, so that its loss can be
 * compared between runs with other seeds and mixtures. */
static void set_order(struct dataset *d, const struct recipe *r, int validation)
{
    int64_t *samples = xcalloc((size_t)d->n, sizeof(*samples));
    int weighted = !validation && r->data.weights.n > 0;

    for (int i = 0; i < d->n; i++)
        samples[i] = (d->last[i] - d->first[i] - 1) / d->T;
    order_init(&d->order, validation ? 0 : (uint64_t)r->training.seed, d->n, samples,
               weighted ? r->data.weights.item : NULL);
    free(samples);
}

static int open_set(struct dataset *d, const struct recipe *r, int world,
                    int validation, struct err *err)
{
    const struct strlist *entries = validation && r->data.validation_path.n > 0
                                        ? &r->data.validation_path
                                        : &r->data.path;

    if (entries->n == 0)
        return err_set(err, ERR_USAGE, "data.path: no training data is named");
    if (validation && r->data.validation_path.n == 0 &&
        r->data.validation_fraction <= 0)
        return err_set(err, ERR_USAGE,
                       "data: neither validation_path nor validation_fraction is set");
    if (open_sources(d, r, entries, validation, err) != 0)
        return -1;
    divide(d, r, validation);
    if (check_amount(d, r, world, validation, err) != 0 ||
        (!validation && check_weights(d, r, err) != 0) || check_marks(d, err) != 0)
        return -1;
    set_order(d, r, validation);
    return 0;
}

int dataset_open(const struct recipe *r, int world, int validation,
                 struct dataset **out, struct err *err)
{
    struct dataset *d = xcalloc(1, sizeof(*d));

    d->T = r->training.seq_len;
    d->vocab = r->model.vocab;
    d->eod = r->data.eod_token;
    d->mask = r->data.document_mask;
    d->global_batch = r->training.global_batch_size;
    if (d->global_batch < 0)
        d->global_batch = (int64_t)r->training.local_batch_size * world;
    allow_open_files();
    if (open_set(d, r, world, validation, err) != 0) {
        dataset_close(d);
        return -1;
    }
    *out = d;
    return 0;
}

void dataset_close(struct dataset *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->n; i++)
        source_release(&d->source[i]);
    free(d->source);
    free(d->first);
    free(d->last);
    order_release(&d->order);
    free(d);
}

int64_t dataset_tokens(const struct dataset *d)
{
    return d->tokens;
}

int64_t dataset_samples(const struct dataset *d)
{
    int64_t n = 0;

    for (int i = 0; i < d->n; i++)
        n += d->order.samples[i];
    return n;
}

/* --- samples -------------------------------------------------------------------- */

/* mark[p] = 1 where a document starts inside the sample. */
static int mark_documents(const struct dataset *d, const struct source *s, int64_t from,
                          const int32_t *tokens, int32_t *mark, struct err *err)
{
    memset(mark, 0, (size_t)d->T * sizeof(*mark));
    if (!d->mask)
        return 0;
    for (int64_t p = 1; d->eod >= 0 && p < d->T; p++)
        mark[p] = tokens[p - 1] == d->eod;
    return source_mark(s, from, d->T, mark, err);
}

static int place_documents(const struct dataset *d, const struct source *s,
                           int64_t from, const int32_t *tokens, int32_t *doc_start,
                           int32_t *pos, struct err *err)
{
    int32_t *mark = pos ? pos : doc_start, begin = 0;

    if (!mark)
        return 0;
    if (mark_documents(d, s, from, tokens, mark, err) != 0)
        return -1;
    for (int32_t p = 0; p < d->T; p++) {
        if (mark[p])
            begin = p;
        if (pos)
            pos[p] = p - begin;
        if (doc_start)
            doc_start[p] = begin;
    }
    return 0;
}

int dataset_sample(const struct dataset *d, int64_t step, int64_t g, int32_t *tokens,
                   int32_t *doc_start, int32_t *pos, struct err *err)
{
    int64_t k, sample, from;
    const struct source *s;
    int i;

    if (step < 0 || g < 0 || g >= d->global_batch ||
        __builtin_mul_overflow(step, d->global_batch, &k) || k > INT64_MAX / 2)
        return err_set(err, ERR_USAGE,
                       "data: no sample %lld in step %lld of %lld a step", (long long)g,
                       (long long)step, (long long)d->global_batch);
    order_at(&d->order, k + g, &i, &sample);
    s = &d->source[i];
    from = d->first[i] + sample * d->T;
    if (source_read(s, from, d->T + 1, d->vocab, tokens, err) != 0)
        return -1;
    return place_documents(d, s, from, tokens, doc_start, pos, err);
}
