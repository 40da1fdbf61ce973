/* js.h - the only door to jansson: build, print, read JSON.
 *
 * Building:  struct js *o = js_object();  js_put_int(o, "world", 8);
 *            js_put(o, "groups", js_array());      the child is taken over
 *            js_print(o, stdout); js_free(o);
 * Every object muster prints starts with js_document(), whose first key is
 * "schema".  Keys keep their order.
 *
 * Reading:   js_parse() and the getters, which return a default when the key
 * is absent or of another type.  Borrowed values live as long as their root. */
#ifndef BASE_JS_H
#define BASE_JS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct err;
struct js;

struct js *js_object(void);
struct js *js_array(void);
struct js *js_document(const char *schema); /* {"schema": "muster/<schema>/1"} */
struct js *js_string(const char *text);     /* NULL gives null; bad UTF-8 is replaced */
struct js *js_int(int64_t v);
struct js *js_real(double v); /* not finite: null */
struct js *js_bool(int v);
struct js *js_ref(struct js *v); /* another owner of v */
void js_free(struct js *v);      /* NULL is fine */

/* Take over `child`. */
void js_put(struct js *object, const char *key, struct js *child);
void js_push(struct js *array, struct js *child);

void js_put_str(struct js *object, const char *key, const char *text);
void js_put_int(struct js *object, const char *key, int64_t v);
void js_put_real(struct js *object, const char *key, double v);
void js_put_bool(struct js *object, const char *key, int v);

/* Borrowed; NULL when absent. */
struct js *js_get(const struct js *object, const char *key);
struct js *js_at(const struct js *array, size_t i);
size_t js_len(const struct js *v); /* array or object; else 0 */
const char *js_str(const struct js *object, const char *key, const char *def);
int64_t js_get_int(const struct js *object, const char *key, int64_t def);
double js_get_real(const struct js *object, const char *key, double def);
int js_get_bool(const struct js *object, const char *key, int def);
const char *js_as_str(const struct js *v, const char *def);
int64_t js_as_int(const struct js *v, int64_t def);
double js_as_real(const struct js *v, double def);

/* Walk an object: for (i = 0; js_pair(o, i, &key, &v); i++).  0 at the end. */
int js_pair(const struct js *object, size_t i, const char **key, struct js **v);
/* The same in one pass, for objects of any size: fn of every pair in order,
 * until one returns non-zero; that value, or 0. */
int js_each(const struct js *object,
            int (*fn)(void *arg, const char *key, struct js *v), void *arg);

int js_is_object(const struct js *v); /* NULL is none of these */
int js_is_array(const struct js *v);
int js_is_str(const struct js *v);
int js_is_int(const struct js *v);

/* Parse text (one value, no trailing bytes, no duplicate keys, depth and size
 * bounded by jansson).  `where` names it in the message.  *parsed is the caller's. */
int js_parse(const char *text, size_t len, const char *where, struct js **parsed,
             struct err *err);
int js_load(const char *path, struct js **parsed, struct err *err);

/* Indented, with a newline at the end. */
void js_print(const struct js *v, FILE *fp);
/* One line, no newline; the caller's to free(). */
char *js_line(const struct js *v);

#endif
