/* safetensors.h - read and write safetensors files.
 *
 * Format: uint64 LE header length N, N bytes of JSON, data; entries hold dtype,
 * shape and data_offsets [begin, end) relative to the data.  Refused, each with
 * its own words: N over 100 MB or past the end, not JSON, duplicate names,
 * unknown dtype, negative or overflowing shape, offsets that overlap, leave a
 * hole, run past the end or disagree with shape x size, trailing bytes.
 * Only the header is held in memory; data is read by range. */
#ifndef TRAINER_SAFETENSORS_H
#define TRAINER_SAFETENSORS_H

#include <stdint.h>

struct err;
struct js;

enum st_type {
    ST_F32,
    ST_F64,
    ST_BF16,
    ST_F16,
    ST_I64,
    ST_I32,
    ST_U8,
    ST_I8,
    ST_BOOL,
    ST_I16,
    ST_U16
};
enum { ST_MAX_DIMS = 8 };

struct st_tensor {
    char *name; /* owned by the file */
    enum st_type type;
    int dims;
    int64_t shape[ST_MAX_DIMS];
    int64_t begin, end; /* bytes, relative to the data */
};

struct st_file;

int st_open(const char *path, struct st_file **out, struct err *err);
void st_close(struct st_file *f); /* NULL is fine */
int st_count(const struct st_file *f);
const struct st_tensor *st_at(const struct st_file *f, int i);
const struct st_tensor *st_find(const struct st_file *f,
                                const char *name);             /* or NULL */
const char *st_meta(const struct st_file *f, const char *key); /* or NULL */
/* Read bytes [from, from + n) of a tensor. */
int st_read(struct st_file *f, const struct st_tensor *t, int64_t from, void *out,
            int64_t n, struct err *err);

/* Writing: declare all tensors (name, type, dims, shape; the writer lays them
 * out itself), then write any range of any, then commit (fsync, rename from
 * PATH.tmp).  Commit refuses while fewer bytes were written than declared.
 * Abandon removes the temporary file; NULL is fine.  `meta`: an object of
 * strings or NULL, borrowed.  Names and tensors are copied. */
struct st_writer;
int st_create(const char *path, const struct st_tensor *tensors, int n,
              const struct js *meta, struct st_writer **out, struct err *err);
int st_write(struct st_writer *w, int i, int64_t from, const void *bytes, int64_t n,
             struct err *err);
int st_commit(struct st_writer *w, struct err *err); /* frees w either way */
void st_abandon(struct st_writer *w);

int st_type_bytes(enum st_type t);
/* Bytes of a shape; -1 when a dimension is negative or the product overflows. */
int64_t st_shape_bytes(enum st_type t, int dims, const int64_t *shape);
const char *st_type_name(enum st_type t); /* "F32" */

#endif
