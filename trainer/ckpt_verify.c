#include "trainer/ckpt_verify.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/ckpt.h"
#include "trainer/safetensors.h"

/* --- which ---------------------------------------------------------------------- */

static int is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int has_file(const char *dir, const char *name)
{
    char *path = xasprintf("%s/%s", dir, name);
    int there = access(path, F_OK) == 0;

    free(path);
    return there;
}

static int is_checkpoint(const char *dir)
{
    const char *name = strrchr(dir, '/');

    name = name ? name + 1 : dir;
    return strncmp(name, "step-", 5) == 0 || has_file(dir, "index.json") ||
           ckpt_dir_complete(dir);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_steps(const char *folder, struct strlist *out)
{
    DIR *d = opendir(folder);
    int first = out->n;

    for (const struct dirent *e; d && (e = readdir(d));) { /* NOLINT: one thread */
        char *dir = xasprintf("%s/%s", folder, e->d_name);
        if (strncmp(e->d_name, "step-", 5) == 0 && is_folder(dir))
            strlist_add(out, dir);
        free(dir);
    }
    if (d)
        closedir(d);
    if (out->n > first)
        qsort((void *)(out->item + first), (size_t)(out->n - first), sizeof(char *),
              by_text);
}

int ckpt_find(const char *path, struct strlist *out, struct err *err)
{
    char *clean = xstrdup(path);
    int before = out->n, rc = 0;

    for (size_t n = strlen(clean); n > 1 && clean[n - 1] == '/'; n--)
        clean[n - 1] = '\0';
    if (!is_folder(clean))
        rc = err_set(err, access(clean, F_OK) == 0 ? ERR_USAGE : ERR_MISSING,
                     "%s: there is no such folder", clean);
    else if (is_checkpoint(clean))
        strlist_add(out, clean);
    else
        list_steps(clean, out);
    if (rc == 0 && out->n == before)
        rc = err_set(err, ERR_MISSING, "%s: no checkpoint (step-N) in this folder",
                     clean);
    free(clean);
    return rc;
}

/* --- index.json ------------------------------------------------------------------- */

static int64_t unit_number(const struct ckpt_summary *s, const char *unit,
                           const char *key)
{
    return js_get_int(js_get(js_get(s->index, "units"), unit), key, -1);
}

/* Elements of the part of one unit that one shard holds; -1 when the index lies. */
static int64_t part_of(const struct ckpt_summary *s, const char *unit)
{
    int64_t padded = unit_number(s, unit, "padded");
    int64_t count = unit_number(s, unit, "count");

    return count > 0 && padded >= count && padded % s->shard == 0 ? padded / s->shard
                                                                  : -1;
}

static int read_numbers(struct ckpt_summary *s)
{
    int64_t world = js_get_int(s->index, "world", -1);
    int64_t shard = js_get_int(s->index, "shard", -1);

    s->step = js_get_int(s->index, "step", -1);
    s->tokens = js_get_int(s->index, "tokens", -1);
    s->layers = js_get_int(js_get(s->index, "model"), "layers", -1);
    if (s->step < 0 || s->tokens < 0 || s->layers < 1 || s->layers > 1000000 ||
        shard < 1 || shard > 65536 || world < shard || world > INT32_MAX)
        return -1;
    s->world = (int)world;
    s->shard = (int)shard;
    if (part_of(s, "embed") < 0 || part_of(s, "layer") < 0 || part_of(s, "head") < 0)
        return -1;
    return __builtin_mul_overflow(unit_number(s, "layer", "count"), s->layers,
                                  &s->scalars) ||
                   __builtin_add_overflow(s->scalars, unit_number(s, "embed", "count"),
                                          &s->scalars) ||
                   __builtin_add_overflow(s->scalars, unit_number(s, "head", "count"),
                                          &s->scalars)
               ? -1
               : 0;
}

static void add_bytes(const char *dir, struct ckpt_summary *s)
{
    struct stat st;

    for (int i = 0; i < s->shard; i++) {
        char *path = ckpt_shard_path(dir, i, s->shard);
        if (stat(path, &st) == 0)
            s->bytes += st.st_size;
        free(path);
    }
}

int ckpt_inspect(const char *dir, struct ckpt_summary *out, struct err *err)
{
    struct ckpt_summary s = { 0 };
    char *path = xasprintf("%s/index.json", dir);
    int rc = -1;

    if (!ckpt_dir_complete(dir)) {
        err_set(err, ERR_USAGE,
                "%s: not complete (no file \"complete\" in it): it was cut off while "
                "being written, or is being written now",
                dir);
        goto out;
    }
    if (ckpt_index_load(dir, &s.index, err) != 0)
        goto out;
    if (read_numbers(&s) != 0) {
        err_set(err, ERR_USAGE, "%s: not the index of a checkpoint", path);
        js_free(s.index);
        goto out;
    }
    add_bytes(dir, &s);
    *out = s;
    rc = 0;
out:
    free(path);
    return rc;
}

void ckpt_summary_release(struct ckpt_summary *s)
{
    js_free(s->index);
    *s = (struct ckpt_summary){ 0 };
}

/* --- shards ------------------------------------------------------------------------ */

struct check {
    const struct ckpt_summary *s;
    const char *path;
    struct st_file *f;
    float *block;  /* [CKPT_BLOCK] */
    int64_t *sums; /* [n_sums] of the file */
    int64_t n_sums, next;
};

static int check_tensor(struct check *c, const char *name, int64_t part,
                        struct err *err)
{
    const struct st_tensor *t = st_find(c->f, name);

    if (!t || t->type != ST_F32 || t->dims != 1 || t->shape[0] != part)
        return err_set(err, ERR_USAGE, "%s: no %s of %lld elements in it", c->path,
                       name, (long long)part);
    for (int64_t at = 0; at < part; at += CKPT_BLOCK) {
        int64_t n = part - at < CKPT_BLOCK ? part - at : CKPT_BLOCK;
        if (st_read(c->f, t, at * 4, c->block, n * 4, err) != 0)
            return -1;
        if (c->next >= c->n_sums ||
            ckpt_checksum(c->block, n * 4) != c->sums[c->next++])
            return err_set(err, ERR_USAGE,
                           "%s: %s is damaged: the checksum of block %lld does not "
                           "match",
                           c->path, name, (long long)(at / CKPT_BLOCK));
    }
    return 0;
}

static int check_unit(struct check *c, const char *unit, const char *prefix,
                      struct err *err)
{
    int rc = 0;

    for (int kind = 0; kind < CKPT_KINDS && rc == 0; kind++) {
        char *name = xasprintf("%s.%s", prefix, ckpt_kind_name(kind));
        rc = check_tensor(c, name, part_of(c->s, unit), err);
        free(name);
    }
    return rc;
}

static int check_units(struct check *c, struct err *err)
{
    if (check_unit(c, "embed", "embed", err) != 0)
        return -1;
    for (int64_t l = 0; l < c->s->layers; l++) {
        char *prefix = xasprintf("layers.%lld", (long long)l);
        int rc = check_unit(c, "layer", prefix, err);
        free(prefix);
        if (rc != 0)
            return -1;
    }
    if (check_unit(c, "head", "head", err) != 0)
        return -1;
    if (c->next != c->n_sums)
        return err_set(err, ERR_USAGE, "%s: %lld checksums, expected %lld", c->path,
                       (long long)c->n_sums, (long long)c->next);
    return 0;
}

static int read_sums(struct check *c, struct err *err)
{
    const struct st_tensor *t = st_find(c->f, "checksums");
    int64_t bytes;

    if (!t || t->type != ST_I64 || t->dims != 1)
        return err_set(err, ERR_USAGE, "%s: no checksums in it", c->path);
    bytes = t->end - t->begin;
    c->n_sums = t->shape[0];
    c->sums = malloc((size_t)bytes + 1);
    if (!c->sums)
        return err_set(err, ERR_SYSTEM, "%s: no memory for %lld checksums", c->path,
                       (long long)c->n_sums);
    return st_read(c->f, t, 0, c->sums, bytes, err);
}

static int check_shard(struct check *c, struct err *err)
{
    int rc = -1;

    if (st_open(c->path, &c->f, err) == 0 && read_sums(c, err) == 0)
        rc = check_units(c, err);
    st_close(c->f);
    free(c->sums);
    return rc;
}

int ckpt_verify(const char *dir, const struct ckpt_summary *s, struct err *err)
{
    float *block = xcalloc(CKPT_BLOCK, sizeof(*block));
    int rc = 0;

    for (int i = 0; i < s->shard; i++) {
        struct err why = ERR_INIT;
        char *path = ckpt_shard_path(dir, i, s->shard);
        struct check c = { .s = s, .path = path, .block = block };
        if (check_shard(&c, &why) != 0)
            rc = err_more(err, why.code, "%s", err_text(&why));
        err_release(&why);
        free(path);
    }
    free(block);
    return rc;
}
