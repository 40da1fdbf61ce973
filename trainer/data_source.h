/* data_source.h - the shards of one source as a single stream of tokens. */
#ifndef TRAINER_DATA_SOURCE_H
#define TRAINER_DATA_SOURCE_H

#include <stdint.h>

struct err;
struct shard;
struct strlist;

struct source {
    char *entry; /* of data.path, for messages */
    struct shard **shard;
    int64_t *start; /* [n + 1] first token of each shard in the stream */
    int n;
    int marked;     /* some shard has document marks */
    int64_t tokens; /* of all shards */
};

/* Opens the files of `entry` (data_files()) but those whose real path is in
 * `except` (or NULL). */
int source_open(struct source *s, const char *entry, const struct strlist *except,
                struct err *err);
void source_release(struct source *s);

/* Tokens [from, from + n) of the stream, which the caller guarantees to exist;
 * each is checked against vocab. */
int source_read(const struct source *s, int64_t from, int64_t n, int64_t vocab,
                int32_t *out, struct err *err);

/* Set mark[i] to 1 where a file or a marked document starts at token from + i,
 * 0 < i < n; other entries are left alone. */
int source_mark(const struct source *s, int64_t from, int64_t n, int32_t *mark,
                struct err *err);

#endif
