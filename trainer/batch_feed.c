#include "trainer/batch_feed.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "recipes/recipe.h"
#include "trainer/data.h"
#include "trainer/memplan.h"

enum { TOKENS, TARGETS, POS, DOC };

void batch_feed_init(struct batch_feed *f, const struct ops *ops, struct dev *dev,
                     const struct recipe *r, int rank, int world, void *base)
{
    int B = r->training.local_batch_size, S = r->training.seq_len;
    size_t T = (size_t)B * (size_t)S;

    *f = (struct batch_feed){ .ops = ops,
                              .dev = dev,
                              .B = B,
                              .S = S,
                              .rank = rank,
                              .world = world,
                              .document_mask = r->data.document_mask,
                              .eod_token = r->data.eod_token };
    f->row = xcalloc((size_t)S + 1, sizeof(*f->row));
    for (size_t i = 0; i < 4; i++) {
        f->host[i] = xcalloc(T, sizeof(int32_t));
        f->place[i] = (int32_t *)((char *)base + i * (size_t)mem_align((int64_t)T * 4));
    }
}

void batch_feed_release(struct batch_feed *f)
{
    free(f->row);
    for (int i = 0; i < 4; i++)
        free(f->host[i]);
    *f = (struct batch_feed){ 0 };
}

/* Row b of the host batch from the S + 1 tokens of its sample. */
static int64_t spread(struct batch_feed *f, int b)
{
    int64_t counted = 0;

    for (int i = 0; i < f->S; i++) {
        int at = b * f->S + i;
        int next_starts = i + 1 < f->S && f->host[DOC][at + 1] == i + 1;
        int ends = f->document_mask && (next_starts || f->row[i] == f->eod_token);

        f->host[TOKENS][at] = f->row[i];
        f->host[TARGETS][at] = ends ? -1 : f->row[i + 1];
        counted += !ends;
    }
    return counted;
}

int batch_feed_load(struct batch_feed *f, const struct dataset *d, int64_t step,
                    int micro, struct batch *out, int64_t *counted, struct err *err)
{
    int64_t first = (int64_t)micro * f->world * f->B + (int64_t)f->rank * f->B;
    size_t bytes = (size_t)f->B * (size_t)f->S * sizeof(int32_t);
    int64_t n = 0;

    for (int b = 0; b < f->B; b++) {
        int at = b * f->S;

        if (dataset_sample(d, step, first + b, f->row, f->host[DOC] + at,
                           f->host[POS] + at, err))
            return err_wrap(err, "step %lld, sample %lld", (long long)step,
                            (long long)(first + b));
        n += spread(f, b);
    }
    for (int i = 0; i < 4; i++)
        f->ops->upload(f->dev, f->place[i], f->host[i], bytes);
    *out = (struct batch){ .B = f->B,
                           .S = f->S,
                           .T = f->B * f->S,
                           .tokens = f->place[TOKENS],
                           .targets = f->place[TARGETS],
                           .pos = f->place[POS],
                           .doc_start = f->document_mask ? f->place[DOC] : NULL };
    *counted = n;
    return 0;
}
