#include "base/js.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/mem.h"

/* struct js is json_t under our own name. */
static json_t *in(const struct js *v)
{
    return (json_t *)v;
}

static struct js *out(json_t *v)
{
    if (!v)
        abort(); /* jansson fails to build a value only when memory is gone */
    return (struct js *)v;
}

/* jansson reads /dev/urandom else: three calls where one does. */
static void seed_once(void)
{
    static int done;
    size_t seed;

    if (!done && getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == sizeof(seed) && seed)
        json_object_seed(seed);
    done = 1;
}

struct js *js_object(void)
{
    seed_once();
    return out(json_object());
}

struct js *js_array(void)
{
    return out(json_array());
}

struct js *js_document(const char *schema)
{
    struct js *o = js_object();
    char *text = xasprintf("muster/%s/1", schema);

    js_put_str(o, "schema", text);
    free(text);
    return o;
}

/* json_string() refuses what is not UTF-8: keep the text, replace the bytes. */
static struct js *string_replacing(const char *text)
{
    char *copy = xstrdup(text);
    json_t *v;

    for (char *c = copy; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    v = json_string(copy);
    free(copy);
    return out(v);
}

struct js *js_string(const char *text)
{
    json_t *v;

    if (!text)
        return out(json_null());
    v = json_string(text);
    return v ? out(v) : string_replacing(text);
}

struct js *js_int(int64_t v)
{
    return out(json_integer(v));
}

struct js *js_real(double v)
{
    return out(isfinite(v) ? json_real(v) : json_null());
}

struct js *js_bool(int v)
{
    return out(json_boolean(v));
}

struct js *js_ref(struct js *v)
{
    json_incref(in(v));
    return v;
}

void js_free(struct js *v)
{
    json_decref(in(v));
}

void js_put(struct js *object, const char *key, struct js *child)
{
    if (json_object_set_new(in(object), key, in(child)) < 0)
        abort();
}

void js_push(struct js *array, struct js *child)
{
    if (json_array_append_new(in(array), in(child)) < 0)
        abort();
}

void js_put_str(struct js *object, const char *key, const char *text)
{
    js_put(object, key, js_string(text));
}

void js_put_int(struct js *object, const char *key, int64_t v)
{
    js_put(object, key, js_int(v));
}

void js_put_real(struct js *object, const char *key, double v)
{
    js_put(object, key, js_real(v));
}

void js_put_bool(struct js *object, const char *key, int v)
{
    js_put(object, key, js_bool(v));
}

struct js *js_get(const struct js *object, const char *key)
{
    return (struct js *)json_object_get(in(object), key);
}

struct js *js_at(const struct js *array, size_t i)
{
    return (struct js *)json_array_get(in(array), i);
}

size_t js_len(const struct js *v)
{
    return json_is_array(in(v)) ? json_array_size(in(v)) : json_object_size(in(v));
}

const char *js_as_str(const struct js *v, const char *def)
{
    return json_is_string(in(v)) ? json_string_value(in(v)) : def;
}

int64_t js_as_int(const struct js *v, int64_t def)
{
    return json_is_integer(in(v)) ? json_integer_value(in(v)) : def;
}

double js_as_real(const struct js *v, double def)
{
    return json_is_number(in(v)) ? json_number_value(in(v)) : def;
}

const char *js_str(const struct js *object, const char *key, const char *def)
{
    return js_as_str(js_get(object, key), def);
}

int64_t js_get_int(const struct js *object, const char *key, int64_t def)
{
    return js_as_int(js_get(object, key), def);
}

double js_get_real(const struct js *object, const char *key, double def)
{
    return js_as_real(js_get(object, key), def);
}

int js_get_bool(const struct js *object, const char *key, int def)
{
    struct js *v = js_get(object, key);

    return json_is_boolean(in(v)) ? json_is_true(in(v)) : def;
}

int js_pair(const struct js *object, size_t i, const char **key, struct js **v)
{
    void *iter = json_object_iter(in(object));

    while (iter && i--)
        iter = json_object_iter_next(in(object), iter);
    if (!iter)
        return 0;
    *key = json_object_iter_key(iter);
    *v = (struct js *)json_object_iter_value(iter);
    return 1;
}

int js_each(const struct js *object,
            int (*fn)(void *arg, const char *key, struct js *v), void *arg)
{
    json_t *o = in(object);
    int rc = 0;

    for (void *i = json_object_iter(o); i && rc == 0; i = json_object_iter_next(o, i))
        rc = fn(arg, json_object_iter_key(i), (struct js *)json_object_iter_value(i));
    return rc;
}

int js_is_object(const struct js *v)
{
    return json_is_object(in(v));
}

int js_is_array(const struct js *v)
{
    return json_is_array(in(v));
}

int js_is_str(const struct js *v)
{
    return json_is_string(in(v));
}

int js_is_int(const struct js *v)
{
    return json_is_integer(in(v));
}

/* The message quotes the text around the fault, whatever bytes those are. */
static const char *printable(json_error_t *e)
{
    for (char *c = e->text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    return e->text;
}

int js_parse(const char *text, size_t len, const char *where, struct js **parsed,
             struct err *err)
{
    json_error_t e;
    json_t *v = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);

    if (!v)
        return err_set(err, ERR_USAGE, "%s:%d: not valid JSON: %s", where, e.line,
                       printable(&e));
    *parsed = out(v);
    return 0;
}

int js_load(const char *path, struct js **parsed, struct err *err)
{
    json_error_t e;
    FILE *fp = fopen(path, "re");
    json_t *v;

    if (!fp)
        return err_set(err, ERR_MISSING, "%s: %m", path);
    v = json_loadf(fp, JSON_REJECT_DUPLICATES, &e);
    fclose(fp);
    if (!v)
        return err_set(err, ERR_USAGE, "%s:%d: not valid JSON: %s", path, e.line,
                       printable(&e));
    *parsed = out(v);
    return 0;
}

void js_print(const struct js *v, FILE *fp)
{
    json_dumpf(in(v), fp, JSON_INDENT(2) | JSON_REAL_PRECISION(15) | JSON_ENCODE_ANY);
    fputc('\n', fp);
}

char *js_line(const struct js *v)
{
    char *text =
        json_dumps(in(v), JSON_COMPACT | JSON_REAL_PRECISION(17) | JSON_ENCODE_ANY);

    if (!text)
        abort();
    return text;
}
