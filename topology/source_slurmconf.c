/* topology.conf of Slurm (tree, block, ring), what `scontrol show topology` prints, and
 * by its first character or name topology.yaml. */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "recipes/yaml.h"
#include "topology/slurm_fabric.h"
#include "topology/source.h"
#include "topology/topology.h"

enum { CONF_MAX_BYTES = 8 << 20 };

enum key {
    KEY_SWITCH,
    KEY_BLOCK,
    KEY_RING,
    KEY_AGGREGATED,
    KEY_NODES,
    KEY_SWITCHES,
    KEY_SPEED,
    KEY_SIZES,
    KEY_SIZE,
    KEY_LEVEL,
    KEY_INDEX,
    KEYS
};

/* In any case; BlockIndex, BlockSize, AggregatedBlock and Level are scontrol's. */
static const char *const key_names[KEYS] = {
    [KEY_SWITCH] = "SwitchName", [KEY_BLOCK] = "BlockName",
    [KEY_RING] = "RingName",     [KEY_AGGREGATED] = "AggregatedBlock",
    [KEY_NODES] = "Nodes",       [KEY_SWITCHES] = "Switches",
    [KEY_SPEED] = "LinkSpeed",   [KEY_SIZES] = "BlockSizes",
    [KEY_SIZE] = "BlockSize",    [KEY_LEVEL] = "Level",
    [KEY_INDEX] = "BlockIndex",
};

struct reader {
    const char *where;
    int line;
    struct slurm_fabric *f;
    struct err problems;
    int n_problems;
};

static void __attribute__((format(printf, 2, 3)))
wrong(struct reader *r, const char *fmt, ...)
{
    va_list ap;
    char *text;

    if (r->n_problems++ >= 20)
        return;
    va_start(ap, fmt);
    text = xvasprintf(fmt, ap);
    va_end(ap);
    err_more(&r->problems, ERR_USAGE, "%s:%d: %s", r->where, r->line, text);
    free(text);
}

static int find_key(const char *word)
{
    for (int k = 0; k < KEYS; k++)
        if (strcasecmp(word, key_names[k]) == 0)
            return k;
    return -1;
}

static void unknown_key(struct reader *r, const char *word)
{
    char lower[32];
    const char *near;
    char names[KEYS][32];
    const char *list[KEYS];

    for (int k = 0; k < KEYS; k++) {
        size_t n = strlen(key_names[k]);
        for (size_t i = 0; i <= n; i++)
            names[k][i] = (char)tolower((unsigned char)key_names[k][i]);
        list[k] = names[k];
    }
    snprintf(lower, sizeof(lower), "%.31s", word);
    for (char *c = lower; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    near = str_nearest(lower, list, KEYS);
    wrong(r, "'%.40s' is no key of topology.conf%s%s%s", word,
          near ? " (did you mean " : "", near ? key_names[find_key(near)] : "",
          near ? "?)" : "");
}

/* "400": LinkSpeed has no unit, and Slurm does not use it. */
static int read_speed(struct reader *r, const char *text)
{
    char *end;
    long v = strtol(text, &end, 10);

    if (end == text || *end || v < 0 || v > 100000000) {
        wrong(r, "LinkSpeed '%.40s' is no whole number", text);
        return 0;
    }
    return (int)v;
}

/* The values of a line; NULL where the key is not there. */
struct values {
    char *of[KEYS];
};

static void add_entry(struct reader *r, enum slurm_kind kind, const char *name,
                      const struct values *v)
{
    struct slurm_entry *e = slurm_fabric_add(r->f, kind, r->line);
    int union_of_nodes = v->of[KEY_LEVEL] && !str_eq(v->of[KEY_LEVEL], "0");

    if (!e) {
        wrong(r, "more than %d definitions", SLURM_ENTRIES_MAX);
        return;
    }
    e->name = xstrdup(name);
    if (v->of[KEY_NODES] && !union_of_nodes)
        e->nodes = xstrdup(v->of[KEY_NODES]);
    if (v->of[KEY_SWITCHES] && kind == SLURM_SWITCH)
        e->below = xstrdup(v->of[KEY_SWITCHES]);
    if (v->of[KEY_SPEED] && !v->of[KEY_LEVEL]) /* scontrol shows 1 where none was */
        e->speed = read_speed(r, v->of[KEY_SPEED]);
    if (v->of[KEY_SWITCHES] && kind != SLURM_SWITCH)
        wrong(r, "Switches= belongs to a SwitchName=");
}

/* BlockSize= of scontrol, one a line: blocks have the base, aggregates multiples. */
static void add_size(struct reader *r, const char *text)
{
    char list[16 * SLURM_SIZES_MAX], one[16];
    size_t n = 0;

    for (int i = 0; i < r->f->n_sizes; i++) {
        snprintf(one, sizeof(one), "%d", r->f->size[i]);
        if (str_eq(one, text))
            return;
        n += (size_t)snprintf(list + n, sizeof(list) - n, "%s,", one);
    }
    snprintf(list + n, sizeof(list) - n, "%.12s", text);
    if (slurm_fabric_sizes(r->f, list) < 0)
        wrong(r, "BlockSize '%.40s' is no size, or no multiple of the ones before",
              text);
}

static void take_line(struct reader *r, const struct values *v)
{
    static const struct {
        enum key key;
        enum slurm_kind kind;
    } names[] = { { KEY_SWITCH, SLURM_SWITCH },
                  { KEY_BLOCK, SLURM_BLOCK },
                  { KEY_RING, SLURM_RING } };
    int named = 0;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (v->of[names[i].key]) {
            add_entry(r, names[i].kind, v->of[names[i].key], v);
            named++;
        }
    if (v->of[KEY_SIZES] && slurm_fabric_sizes(r->f, v->of[KEY_SIZES]) < 0)
        wrong(r,
              "BlockSizes '%.60s': sizes like 18,36, each later one the first times a "
              "power of two",
              v->of[KEY_SIZES]);
    if (v->of[KEY_SIZE])
        add_size(r, v->of[KEY_SIZE]);
    if (named > 1)
        wrong(r, "two names on one line");
    if (!named && !v->of[KEY_SIZES] && !v->of[KEY_AGGREGATED])
        wrong(r, "no SwitchName=, BlockName=, RingName= or BlockSizes=");
}

/* The next KEY=VALUE of *at, cut out; 0 at the end. */
static int next_pair(struct reader *r, char **at, char **key, char **value)
{
    char *p = *at + strspn(*at, " \t\r"), *end;

    if (!*p)
        return 0;
    *key = p;
    p += strcspn(p, "= \t\r");
    if (*p != '=') {
        wrong(r, "'%.40s' is no KEY=VALUE", *key);
        return 0;
    }
    *p++ = '\0';
    if (*p == '"') {
        *value = ++p;
        end = strchr(p, '"');
        if (!end) {
            wrong(r, "a quote is not closed");
            return 0;
        }
    } else {
        *value = p;
        end = p + strcspn(p, " \t\r");
    }
    *at = *end ? end + 1 : end;
    *end = '\0';
    return 1;
}

static void read_line(struct reader *r, char *line)
{
    struct values v = { { NULL } };
    char *key, *value;
    int before = r->n_problems, any = 0;

    while (next_pair(r, &line, &key, &value)) {
        int k = find_key(key);
        any = 1;
        if (k < 0)
            unknown_key(r, key);
        else if (v.of[k])
            wrong(r, "%s= stands twice on the line", key_names[k]);
        else if (*value == '\0')
            wrong(r, "%s= is empty", key_names[k]);
        else
            v.of[k] = value;
    }
    if (any && r->n_problems == before)
        take_line(r, &v);
}

/* Cut a comment off; a # behind a backslash is none. */
static void cut_comment(char *line)
{
    for (char *c = line; *c; c++)
        if (*c == '#' && (c == line || c[-1] != '\\')) {
            *c = '\0';
            return;
        }
}

/* Lines that end in a backslash go on on the next one. */
static void read_lines(struct reader *r, char *text)
{
    struct str joined = STR_INIT;
    int line = 0;

    for (char *next; text && r->n_problems < 20; text = next) {
        size_t n;
        next = strchr(text, '\n');
        if (next)
            *next++ = '\0';
        line++;
        r->line = joined.len ? r->line : line;
        cut_comment(text);
        n = strlen(text);
        while (n && (text[n - 1] == '\r' || text[n - 1] == ' '))
            n--;
        if (n && text[n - 1] == '\\' && next) {
            str_add(&joined, text, n - 1);
            str_adds(&joined, " ");
            continue;
        }
        str_add(&joined, text, n);
        read_line(r, joined.text);
        str_clear(&joined);
    }
    str_release(&joined);
}

/* Is it YAML?  A list of topologies begins with '-'. */
static int is_yaml(const char *text, const char *where)
{
    size_t n = strlen(where);

    while (*text == '#' || isspace((unsigned char)*text))
        text += *text == '#' ? strcspn(text, "\n") : 1;
    return *text == '-' || (n > 5 && str_eq(where + n - 5, ".yaml")) ||
           (n > 4 && str_eq(where + n - 4, ".yml"));
}

int topology_from_slurmconf_text(const char *text, size_t len, const char *where,
                                 struct topology **out, struct err *err)
{
    struct slurm_fabric f = { 0 };
    struct reader r = { .where = where, .f = &f };
    const char *slash = strrchr(where, '/');
    char source[64], *copy;
    int rc;

    if (memchr(text, '\0', len))
        return err_set(err, ERR_USAGE, "%s: holds a NUL byte", where);
    copy = xstrndup(text, len);
    if (is_yaml(copy, where)) {
        free(copy);
        return topology_from_slurmyaml_text(text, len, where, out, err);
    }
    read_lines(&r, copy);
    free(copy);
    snprintf(source, sizeof(source), "slurmconf:%.50s", slash ? slash + 1 : where);
    rc = r.n_problems ? err_set(err, ERR_USAGE, "%s", err_text(&r.problems))
                      : slurm_fabric_build(&f, source, where, out, err);
    err_release(&r.problems);
    slurm_fabric_release(&f);
    return rc;
}

int topology_from_slurmconf(const char *path, struct topology **out, struct err *err)
{
    char *text;
    size_t len;
    int rc;

    if (yaml_read_file(path, CONF_MAX_BYTES, &text, &len, err) < 0)
        return -1;
    rc = topology_from_slurmconf_text(text, len, path, out, err);
    free(text);
    return rc;
}
