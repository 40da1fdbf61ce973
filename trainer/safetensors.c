#include "trainer/safetensors.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/js.h"
#include "base/mem.h"

enum { PREFIX_BYTES = 8, HEADER_MAX = 100000000 };

static const struct {
    const char *name;
    int bytes;
} types[] = {
    [ST_F32] = { "F32", 4 }, [ST_F64] = { "F64", 8 }, [ST_BF16] = { "BF16", 2 },
    [ST_F16] = { "F16", 2 }, [ST_I64] = { "I64", 8 }, [ST_I32] = { "I32", 4 },
    [ST_U8] = { "U8", 1 },   [ST_I8] = { "I8", 1 },   [ST_BOOL] = { "BOOL", 1 },
    [ST_I16] = { "I16", 2 }, [ST_U16] = { "U16", 2 },
};

struct st_file {
    char *path;
    int fd;
    int64_t data_start, data_bytes;
    struct st_tensor *tensor; /* [n], in the order of the header */
    int n;
    int *by_name; /* [n] indices into tensor */
    struct js *header;
    const struct js *meta; /* inside header, or NULL */
};

int st_type_bytes(enum st_type t)
{
    return types[t].bytes;
}

const char *st_type_name(enum st_type t)
{
    return types[t].name;
}

int64_t st_shape_bytes(enum st_type t, int dims, const int64_t *shape)
{
    int64_t bytes = types[t].bytes;
    int empty = 0;

    for (int i = 0; i < dims; i++) {
        if (shape[i] < 0)
            return -1;
        empty |= shape[i] == 0;
        if (shape[i] > 0 && __builtin_mul_overflow(bytes, shape[i], &bytes))
            return -1;
    }
    return empty ? 0 : bytes;
}

/* --- the header ------------------------------------------------------------- */

/* Messages quote names: what a terminal would obey does not belong in one. */
static int is_printable(const char *word)
{
    for (const unsigned char *c = (const unsigned char *)word; *c; c++)
        if (*c < ' ' || *c == 127)
            return 0;
    return 1;
}

static int parse_type(const char *word, enum st_type *t)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (strcmp(types[i].name, word) == 0) {
            *t = (enum st_type)i;
            return 0;
        }
    return -1;
}

static int parse_shape(const struct st_file *f, struct st_tensor *t,
                       const struct js *shape, struct err *err)
{
    size_t n = js_len(shape);

    if (!js_is_array(shape))
        return err_set(err, ERR_USAGE, "%s: tensor '%s': shape is not a list", f->path,
                       t->name);
    if (n > ST_MAX_DIMS)
        return err_set(err, ERR_USAGE, "%s: tensor '%s': %zu dimensions, at most %d",
                       f->path, t->name, n, ST_MAX_DIMS);
    for (size_t i = 0; i < n; i++) {
        t->shape[i] = js_as_int(js_at(shape, i), -1);
        if (t->shape[i] < 0)
            return err_set(err, ERR_USAGE,
                           "%s: tensor '%s': dimension %zu is not a whole number >= 0",
                           f->path, t->name, i);
    }
    t->dims = (int)n;
    return 0;
}

static int parse_offsets(const struct st_file *f, struct st_tensor *t,
                         const struct js *offsets, struct err *err)
{
    int64_t bytes = st_shape_bytes(t->type, t->dims, t->shape);

    if (!js_is_array(offsets) || js_len(offsets) != 2)
        return err_set(err, ERR_USAGE,
                       "%s: tensor '%s': data_offsets is not [begin, end]", f->path,
                       t->name);
    t->begin = js_as_int(js_at(offsets, 0), -1);
    t->end = js_as_int(js_at(offsets, 1), -1);
    if (t->begin < 0 || t->end < t->begin)
        return err_set(err, ERR_USAGE,
                       "%s: tensor '%s': data_offsets must be whole numbers with 0 <= "
                       "begin <= end",
                       f->path, t->name);
    if (t->end > f->data_bytes)
        return err_set(
            err, ERR_USAGE,
            "%s: tensor '%s' ends at data byte %lld, the file holds %lld: it "
            "was cut short",
            f->path, t->name, (long long)t->end, (long long)f->data_bytes);
    if (bytes < 0)
        return err_set(err, ERR_USAGE,
                       "%s: tensor '%s': its shape overflows a 64-bit size", f->path,
                       t->name);
    if (bytes != t->end - t->begin)
        return err_set(err, ERR_USAGE,
                       "%s: tensor '%s': shape x %s is %lld bytes, data_offsets span "
                       "%lld",
                       f->path, t->name, st_type_name(t->type), (long long)bytes,
                       (long long)(t->end - t->begin));
    return 0;
}

static int parse_tensor(const struct st_file *f, struct st_tensor *t,
                        const struct js *entry, struct err *err)
{
    const char *word = js_str(entry, "dtype", NULL);

    if (!js_is_object(entry))
        return err_set(err, ERR_USAGE, "%s: tensor '%s': its entry is not an object",
                       f->path, t->name);
    if (!word)
        return err_set(err, ERR_USAGE, "%s: tensor '%s': no dtype", f->path, t->name);
    if (parse_type(word, &t->type) != 0)
        return err_set(err, ERR_USAGE, "%s: tensor '%s': dtype '%s' is not supported",
                       f->path, t->name, is_printable(word) ? word : "?");
    if (parse_shape(f, t, js_get(entry, "shape"), err) != 0)
        return -1;
    return parse_offsets(f, t, js_get(entry, "data_offsets"), err);
}

static int meta_is_string(void *arg, const char *key, struct js *v)
{
    const char **bad = arg;

    if (js_is_str(v))
        return 0;
    *bad = key;
    return -1;
}

static int parse_meta(struct st_file *f, const struct js *meta, struct err *err)
{
    const char *bad = NULL;

    if (!js_is_object(meta))
        return err_set(err, ERR_USAGE, "%s: __metadata__ is not an object", f->path);
    if (js_each(meta, meta_is_string, &bad) != 0)
        return err_set(err, ERR_USAGE, "%s: __metadata__ '%s' is not a string", f->path,
                       is_printable(bad) ? bad : "?");
    f->meta = meta;
    return 0;
}

struct walk {
    struct st_file *f;
    struct err *err;
};

static int parse_entry(void *arg, const char *key, struct js *v)
{
    struct walk *w = arg;

    if (!is_printable(key))
        return err_set(w->err, ERR_USAGE,
                       "%s: the name of tensor %d holds control characters", w->f->path,
                       w->f->n);
    if (strcmp(key, "__metadata__") == 0)
        return parse_meta(w->f, v, w->err);
    w->f->tensor[w->f->n].name = xstrdup(key);
    return parse_tensor(w->f, &w->f->tensor[w->f->n++], v, w->err);
}

static int by_begin(const void *a, const void *b, void *arg)
{
    const struct st_tensor *t = arg, *x = &t[*(const int *)a], *y = &t[*(const int *)b];

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b, void *arg)
{
    const struct st_tensor *t = arg;

    return strcmp(t[*(const int *)a].name, t[*(const int *)b].name);
}

/* Sorted by begin, each tensor starts where the last one ended. */
static int check_tiling(const struct st_file *f, const int *order, struct err *err)
{
    int64_t at = 0;
    const char *last = NULL;

    for (int i = 0; i < f->n; i++) {
        const struct st_tensor *t = &f->tensor[order[i]];
        if (t->begin < at)
            return err_set(err, ERR_USAGE,
                           "%s: tensors '%s' and '%s' overlap at data byte %lld",
                           f->path, last, t->name, (long long)t->begin);
        if (t->begin > at)
            return err_set(err, ERR_USAGE,
                           "%s: data bytes %lld to %lld, before '%s', belong to no "
                           "tensor",
                           f->path, (long long)at, (long long)t->begin, t->name);
        at = t->end;
        last = t->name;
    }
    if (at != f->data_bytes)
        return err_set(err, ERR_USAGE,
                       "%s: %lld bytes after the last tensor belong to nothing",
                       f->path, (long long)(f->data_bytes - at));
    return 0;
}

static int parse_header(struct st_file *f, struct err *err)
{
    size_t n = js_len(f->header);
    struct walk w = { f, err };

    f->tensor = xcalloc(n, sizeof(*f->tensor));
    f->by_name = xcalloc(n, sizeof(*f->by_name));
    if (js_each(f->header, parse_entry, &w) != 0)
        return -1;
    for (int i = 0; i < f->n; i++)
        f->by_name[i] = i;
    qsort_r(f->by_name, (size_t)f->n, sizeof(int), by_begin, f->tensor);
    if (check_tiling(f, f->by_name, err) != 0)
        return -1;
    qsort_r(f->by_name, (size_t)f->n, sizeof(int), by_name, f->tensor);
    return 0;
}

/* The length field, checked against the cap and the file before it is used. */
static int read_length(struct st_file *f, int64_t file_bytes, uint64_t *length,
                       struct err *err)
{
    uint64_t n;

    if (file_bytes < PREFIX_BYTES)
        return err_set(err, ERR_USAGE,
                       "%s: %lld bytes, too short for a safetensors header", f->path,
                       (long long)file_bytes);
    if (file_read(f->fd, f->path, &n, sizeof(n), 0, err) != 0)
        return -1;
    n = le64toh(n);
    if (n > HEADER_MAX)
        return err_set(err, ERR_USAGE,
                       "%s: header length %llu is over the limit of %d bytes: not a "
                       "safetensors file, or damaged",
                       f->path, (unsigned long long)n, HEADER_MAX);
    if ((int64_t)n > file_bytes - PREFIX_BYTES)
        return err_set(err, ERR_USAGE,
                       "%s: header of %llu bytes, but only %lld follow: the file was "
                       "cut short",
                       f->path, (unsigned long long)n,
                       (long long)(file_bytes - PREFIX_BYTES));
    *length = n;
    return 0;
}

static int read_header(struct st_file *f, int64_t file_bytes, struct err *err)
{
    uint64_t n;
    char *text;
    int rc = -1;

    if (read_length(f, file_bytes, &n, err) != 0)
        return -1;
    text = malloc(n + 1);
    if (!text)
        return err_set(err, ERR_SYSTEM, "%s: no memory for a header of %llu bytes",
                       f->path, (unsigned long long)n);
    if (file_read(f->fd, f->path, text, n, PREFIX_BYTES, err) != 0)
        goto out;
    if (n == 0 || text[0] != '{') {
        err_set(err, ERR_USAGE, "%s: the header is not a JSON object", f->path);
        goto out;
    }
    if (js_parse(text, n, f->path, &f->header, err) != 0)
        goto out;
    f->data_start = PREFIX_BYTES + (int64_t)n;
    f->data_bytes = file_bytes - f->data_start;
    rc = 0;
out:
    free(text);
    return rc;
}

/* --- the file ----------------------------------------------------------------- */

int st_open(const char *path, struct st_file **out, struct err *err)
{
    struct st_file *f = xcalloc(1, sizeof(*f));
    int64_t bytes;

    f->path = xstrdup(path);
    f->fd = -1;
    if (file_open(path, &f->fd, &bytes, err) != 0 || read_header(f, bytes, err) != 0 ||
        parse_header(f, err) != 0) {
        st_close(f);
        return -1;
    }
    *out = f;
    return 0;
}

void st_close(struct st_file *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    for (int i = 0; i < f->n; i++)
        free(f->tensor[i].name);
    free(f->tensor);
    free(f->by_name);
    js_free(f->header);
    free(f->path);
    free(f);
}

int st_count(const struct st_file *f)
{
    return f->n;
}

const struct st_tensor *st_at(const struct st_file *f, int i)
{
    return &f->tensor[i];
}

const struct st_tensor *st_find(const struct st_file *f, const char *name)
{
    int low = 0, high = f->n;

    while (low < high) {
        int mid = low + (high - low) / 2;
        int order = strcmp(f->tensor[f->by_name[mid]].name, name);
        if (order == 0)
            return &f->tensor[f->by_name[mid]];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

const char *st_meta(const struct st_file *f, const char *key)
{
    return f->meta ? js_str(f->meta, key, NULL) : NULL;
}

int st_read(struct st_file *f, const struct st_tensor *t, int64_t from, void *out,
            int64_t n, struct err *err)
{
    int64_t bytes = t->end - t->begin;

    if (from < 0 || n < 0 || from > bytes || n > bytes - from)
        return err_set(err, ERR_USAGE,
                       "%s: tensor '%s': bytes %lld to %lld+%lld lie outside its %lld",
                       f->path, t->name, (long long)from, (long long)from, (long long)n,
                       (long long)bytes);
    return file_read(f->fd, f->path, out, (size_t)n, f->data_start + t->begin + from,
                     err);
}
