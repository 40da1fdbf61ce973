#include "trainer/data_source.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/data.h"
#include "trainer/shard.h"

static int is_in(const struct strlist *real_paths, const char *file)
{
    char *real = realpath(file, NULL);
    int yes = 0;

    for (int i = 0; real_paths && i < real_paths->n && !yes; i++)
        yes = str_eq(real_paths->item[i], real);
    free(real);
    return yes;
}

static int open_files(struct source *s, const struct strlist *files,
                      const struct strlist *except, struct err *err)
{
    s->shard = xcalloc((size_t)files->n, sizeof(struct shard *));
    s->start = xcalloc((size_t)files->n + 1, sizeof(int64_t));
    for (int i = 0; i < files->n; i++) {
        const struct shard_info *info;
        if (is_in(except, files->item[i]))
            continue;
        if (shard_open(files->item[i], &s->shard[s->n], err) != 0)
            return -1;
        info = shard_info(s->shard[s->n]);
        s->marked |= info->documents >= 0;
        s->start[s->n + 1] = s->start[s->n] + info->tokens;
        s->n++;
    }
    s->tokens = s->start[s->n];
    if (s->n == 0)
        return err_set(err, ERR_USAGE,
                       "data.path '%s': every file of it is validation data", s->entry);
    return 0;
}

int source_open(struct source *s, const char *entry, const struct strlist *except,
                struct err *err)
{
    struct strlist files = { 0 };
    int rc;

    *s = (struct source){ .entry = xstrdup(entry) };
    rc = data_files(entry, &files, err);
    if (rc == 0)
        rc = open_files(s, &files, except, err);
    strlist_release(&files);
    if (rc != 0)
        source_release(s);
    return rc;
}

void source_release(struct source *s)
{
    for (int i = 0; i < s->n; i++)
        shard_close(s->shard[i]);
    free((void *)s->shard);
    free(s->start);
    free(s->entry);
    *s = (struct source){ 0 };
}

/* The shard that holds token `at`. */
static int shard_of(const struct source *s, int64_t at)
{
    int low = 0, high = s->n;

    while (high - low > 1) {
        int mid = low + (high - low) / 2;
        if (s->start[mid] <= at)
            low = mid;
        else
            high = mid;
    }
    return low;
}

int source_read(const struct source *s, int64_t from, int64_t n, int64_t vocab,
                int32_t *out, struct err *err)
{
    for (int i = shard_of(s, from); n > 0; i++) {
        int64_t at = from - s->start[i], now = s->start[i + 1] - from;
        if (now > n)
            now = n;
        if (shard_read(s->shard[i], at, now, out, err) != 0 ||
            shard_check(s->shard[i], at, now, out, vocab, err) != 0)
            return -1;
        from += now;
        out += now;
        n -= now;
    }
    return 0;
}

int source_mark(const struct source *s, int64_t from, int64_t n, int32_t *mark,
                struct err *err)
{
    int64_t at = from, begin, end;

    for (int i = shard_of(s, from); at < from + n; i++) {
        while (at < s->start[i + 1] && at < from + n) {
            if (shard_document(s->shard[i], at - s->start[i], &begin, &end, err) != 0)
                return -1;
            if (at > from)
                mark[at - from] = 1;
            at = s->start[i] + end;
        }
    }
    return 0;
}
