#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/js.h"
#include "base/mem.h"
#include "trainer/safetensors.h"

enum { PREFIX_BYTES = 8, HEADER_MAX = 100000000, ALIGN = 8 };

struct st_writer {
    struct file_beside file;
    struct st_tensor *tensor; /* [n], in the caller's order */
    int64_t *written;         /* [n] bytes so far */
    int n;
    int64_t data_start, data_bytes;
};

/* Widest elements first, so that every tensor is aligned to its element when the
 * data is; the same order the reference implementation writes. */
static int lay_out(struct st_writer *w, const char *path, struct err *err)
{
    int64_t at = 0;

    for (int width = ALIGN; width >= 1; width /= 2)
        for (int i = 0; i < w->n; i++) {
            struct st_tensor *t = &w->tensor[i];
            int64_t bytes;
            if (st_type_bytes(t->type) != width)
                continue;
            bytes = st_shape_bytes(t->type, t->dims, t->shape);
            if (bytes < 0 || __builtin_add_overflow(at, bytes, &t->end))
                return err_set(err, ERR_USAGE,
                               "%s: tensor '%s': its shape is negative or overflows",
                               path, t->name);
            t->begin = at;
            at = t->end;
        }
    w->data_bytes = at;
    return 0;
}

static struct js *tensor_entry(const struct st_tensor *t)
{
    struct js *o = js_object(), *shape = js_array(), *offsets = js_array();

    for (int i = 0; i < t->dims; i++)
        js_push(shape, js_int(t->shape[i]));
    js_push(offsets, js_int(t->begin));
    js_push(offsets, js_int(t->end));
    js_put_str(o, "dtype", st_type_name(t->type));
    js_put(o, "shape", shape);
    js_put(o, "data_offsets", offsets);
    return o;
}

static int is_utf8(const char *name)
{
    struct js *s = js_string(name); /* which replaces what is not */
    int same = strcmp(js_as_str(s, ""), name) == 0;

    js_free(s);
    return same;
}

static int put_tensor(struct js *header, const char *path, const struct st_tensor *t,
                      struct err *err)
{
    if (t->dims < 0 || t->dims > ST_MAX_DIMS)
        return err_set(err, ERR_USAGE, "%s: tensor '%s': %d dimensions, at most %d",
                       path, t->name, t->dims, ST_MAX_DIMS);
    if (strcmp(t->name, "__metadata__") == 0 || !is_utf8(t->name))
        return err_set(err, ERR_USAGE, "%s: '%s' cannot be the name of a tensor", path,
                       t->name);
    if (js_get(header, t->name))
        return err_set(err, ERR_USAGE, "%s: two tensors are called '%s'", path,
                       t->name);
    js_put(header, t->name, tensor_entry(t));
    return 0;
}

static int meta_is_string(void *arg, const char *key, struct js *v)
{
    *(const char **)arg = key;
    return js_is_str(v) ? 0 : -1;
}

/* The JSON text padded with blanks, so that the data starts aligned. */
static char *header_text(const struct st_writer *w, const char *path,
                         const struct js *meta, size_t *len, struct err *err)
{
    struct js *header = js_object();
    const char *bad = NULL;
    char *text = NULL, *padded;

    if (meta && js_each(meta, meta_is_string, &bad) != 0) {
        err_set(err, ERR_USAGE, "%s: metadata '%s' is not a string", path, bad);
        goto out;
    }
    if (meta)
        js_put(header, "__metadata__", js_ref((struct js *)meta));
    for (int i = 0; i < w->n; i++)
        if (put_tensor(header, path, &w->tensor[i], err) != 0)
            goto out;
    text = js_line(header);
    *len = (strlen(text) + ALIGN - 1) / ALIGN * ALIGN;
    if (*len > HEADER_MAX) {
        err_set(err, ERR_USAGE, "%s: %d tensors need a header of %zu bytes, over %d",
                path, w->n, *len, HEADER_MAX);
        free(text);
        text = NULL;
        goto out;
    }
    padded = xasprintf("%-*s", (int)*len, text);
    free(text);
    text = padded;
out:
    js_free(header);
    return text;
}

/* Take the space now: a full disk should be found before hours of writing. */
static int reserve(const struct st_writer *w, struct err *err)
{
    int64_t bytes = w->data_start + w->data_bytes;

    if (w->data_bytes == 0 || fallocate(w->file.fd, 0, 0, bytes) == 0)
        return 0;
    if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINTR)
        return 0; /* writing will grow the file instead */
    return err_set(err, ERR_SYSTEM, "%s: cannot take %lld bytes: %m", w->file.tmp,
                   (long long)bytes);
}

static int write_header(struct st_writer *w, const char *text, size_t len,
                        struct err *err)
{
    uint64_t n = htole64(len);

    w->data_start = PREFIX_BYTES + (int64_t)len;
    if (reserve(w, err) != 0 ||
        file_write(w->file.fd, w->file.tmp, &n, sizeof(n), 0, err) != 0)
        return -1;
    return file_write(w->file.fd, w->file.tmp, text, len, PREFIX_BYTES, err);
}

int st_create(const char *path, const struct st_tensor *tensors, int n,
              const struct js *meta, struct st_writer **out, struct err *err)
{
    struct st_writer *w = xcalloc(1, sizeof(*w));
    char *text = NULL;
    size_t len;
    int rc = -1;

    w->file.fd = -1;
    w->tensor = xcalloc((size_t)n, sizeof(*w->tensor));
    w->written = xcalloc((size_t)n, sizeof(*w->written));
    for (; w->n < n; w->n++) {
        w->tensor[w->n] = tensors[w->n];
        w->tensor[w->n].name = xstrdup(tensors[w->n].name);
    }
    if (lay_out(w, path, err) != 0 || !(text = header_text(w, path, meta, &len, err)) ||
        file_beside_open(&w->file, path, err) != 0 ||
        write_header(w, text, len, err) != 0)
        goto out;
    *out = w;
    rc = 0;
out:
    free(text);
    if (rc != 0)
        st_abandon(w);
    return rc;
}

int st_write(struct st_writer *w, int i, int64_t from, const void *bytes, int64_t n,
             struct err *err)
{
    const struct st_tensor *t = &w->tensor[i];
    int64_t size = t->end - t->begin;

    if (from < 0 || n < 0 || from > size || n > size - from)
        return err_set(err, ERR_USAGE,
                       "%s: tensor '%s': bytes %lld to %lld+%lld lie outside its %lld",
                       w->file.path, t->name, (long long)from, (long long)from,
                       (long long)n, (long long)size);
    if (file_write(w->file.fd, w->file.tmp, bytes, (size_t)n,
                   w->data_start + t->begin + from, err) != 0)
        return -1;
    w->written[i] += n;
    return 0;
}

static void release(struct st_writer *w)
{
    for (int i = 0; i < w->n; i++)
        free(w->tensor[i].name);
    free(w->tensor);
    free(w->written);
    free(w);
}

int st_commit(struct st_writer *w, struct err *err)
{
    int rc;

    for (int i = 0; i < w->n; i++) {
        const struct st_tensor *t = &w->tensor[i];
        if (w->written[i] >= t->end - t->begin)
            continue;
        err_set(err, ERR_FAILED,
                "%s: tensor '%s': only %lld of %lld bytes were written", w->file.path,
                t->name, (long long)w->written[i], (long long)(t->end - t->begin));
        st_abandon(w);
        return -1;
    }
    rc = file_beside_commit(&w->file, err);
    release(w);
    return rc;
}

void st_abandon(struct st_writer *w)
{
    if (!w)
        return;
    file_beside_abandon(&w->file);
    release(w);
}
