/* What nvidia-smi prints: the matrix of `topo -m`, or a list of GPUs (smi_list.h).
 * Spellings differ by driver and by what a paste left of the tabs (case A03): only the
 * words of a line count, not its blanks. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "recipes/yaml.h"
#include "topology/cpulist.h"
#include "topology/nearest.h"
#include "topology/smi_list.h"
#include "topology/source.h"
#include "topology/topology.h"

enum { MAX_DEVICES = 256, MAX_WORDS = MAX_DEVICES + 16 };

/* How two devices meet, nearest first; NV# has a count. */
enum meet { MEET_SELF, MEET_NVLINK, MEET_PIX, MEET_PXB, MEET_PHB, MEET_NODE, MEET_SYS };

struct cell {
    enum meet meet;
    int links;
};

struct matrix {
    const char *where;
    int n; /* devices: columns, and rows */
    char name[MAX_DEVICES][32];
    int seen[MAX_DEVICES];
    struct cell *cell; /* [n][n] */
    char cpus[MAX_DEVICES][256];
    int numa[MAX_DEVICES];
};

/* --- words --------------------------------------------------------------------- */

/* ESC [ ... letter */
static void strip_escapes(char *text)
{
    char *to = text;

    for (char *from = text; *from;) {
        if (*from != '\033') {
            *to++ = *from++;
            continue;
        }
        from += 1 + (from[1] == '[');
        while (*from && !isalpha((unsigned char)*from))
            from++;
        from += *from != '\0';
    }
    *to = '\0';
}

static int split_words(char *line, char **word)
{
    char *part, *rest = line;
    int n = 0;

    while ((part = strsep(&rest, " \t\r")) && n < MAX_WORDS)
        if (*part)
            word[n++] = part;
    return n;
}

static int numbered(const char *word, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(word, prefix, n) == 0 && isdigit((unsigned char)word[n]);
}

static int is_gpu(const char *name)
{
    return numbered(name, "GPU");
}

/* --- the matrix ------------------------------------------------------------------- */

static int read_cell(const char *word, struct cell *c)
{
    static const struct {
        const char *word;
        enum meet meet;
    } words[] = { { "X", MEET_SELF },  { "PIX", MEET_PIX },   { "PXB", MEET_PXB },
                  { "PHB", MEET_PHB }, { "NODE", MEET_NODE }, { "SYS", MEET_SYS },
                  { "SOC", MEET_SYS } }; /* SOC: drivers before 384 */

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (str_eq(word, words[i].word)) {
            *c = (struct cell){ words[i].meet, 0 };
            return 0;
        }
    if (!numbered(word, "NV") || strlen(word) > 4)
        return -1;
    *c = (struct cell){ MEET_NVLINK, (int)strtol(word + 2, NULL, 10) };
    return c->links > 0 ? 0 : -1;
}

/* The header's devices end where "CPU Affinity" begins, however it is glued. */
static int read_header(struct matrix *m, char **word, int n, int line, struct err *err)
{
    for (int i = 0; i < n && strncmp(word[i], "CPU", 3) != 0; i++) {
        if (m->n == MAX_DEVICES)
            return err_set(err, ERR_USAGE, "%s:%d: more than %d devices", m->where,
                           line, MAX_DEVICES);
        snprintf(m->name[m->n++], sizeof(m->name[0]), "%.31s", word[i]);
    }
    m->cell = xcalloc((size_t)m->n * (size_t)m->n + 1, sizeof(*m->cell));
    return 0;
}

static int device_of(const struct matrix *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (str_eq(m->name[i], name))
            return i;
    return -1;
}

/* What follows the cells: CPU affinity, NUMA affinity, GPU NUMA id; "N/A" unknown. */
static void read_tail(struct matrix *m, int row, char **word, int n)
{
    struct cpulist l;
    char *end;
    long numa;

    m->numa[row] = -1;
    if (n > 0 && cpulist_parse(word[0], &l) == 0)
        snprintf(m->cpus[row], sizeof(m->cpus[0]), "%.255s", word[0]);
    if (n < 2)
        return;
    numa = strtol(word[1], &end, 10);
    if (end != word[1] && !*end && numa >= 0 && numa < 65536)
        m->numa[row] = (int)numa;
}

static int read_row(struct matrix *m, int row, char **word, int n, int line,
                    struct err *err)
{
    if (m->seen[row]++)
        return err_set(err, ERR_USAGE, "%s:%d: a second row %s", m->where, line,
                       m->name[row]);
    if (n - 1 < m->n)
        return err_set(err, ERR_USAGE,
                       "%s:%d: row %s has %d cells, the header has %d devices",
                       m->where, line, m->name[row], n - 1, m->n);
    for (int i = 0; i < m->n; i++) {
        if (read_cell(word[1 + i], &m->cell[row * m->n + i]) < 0)
            return err_set(err, ERR_USAGE, "%s:%d: row %s: '%s' is no connection",
                           m->where, line, m->name[row], word[1 + i]);
        if ((m->cell[row * m->n + i].meet == MEET_SELF) != (i == row))
            return err_set(err, ERR_USAGE, "%s:%d: row %s: X stands under %s", m->where,
                           line, m->name[row], m->name[i]);
    }
    read_tail(m, row, word + 1 + m->n, n - 1 - m->n);
    return 0;
}

/* "NIC0: mlx5_0" of the legend. */
static void read_legend(struct matrix *m, char **word, int n)
{
    size_t len = n == 2 ? strlen(word[0]) : 0;
    int i;

    if (len < 2 || word[0][len - 1] != ':')
        return;
    word[0][len - 1] = '\0';
    i = device_of(m, word[0]);
    if (i >= 0 && !is_gpu(m->name[i]))
        snprintf(m->name[i], sizeof(m->name[0]), "%.31s", word[1]);
}

static int read_line(struct matrix *m, char *text, int line, struct err *err)
{
    char *word[MAX_WORDS];
    int n = split_words(text, word), row;

    if (n == 0)
        return 0;
    if (m->n == 0)
        return is_gpu(word[0]) ? read_header(m, word, n, line, err) : 0;
    row = device_of(m, word[0]);
    if (row >= 0)
        return read_row(m, row, word, n, line, err);
    if (is_gpu(word[0]) || numbered(word[0], "NIC")) {
        if (n > 2)
            return err_set(err, ERR_USAGE, "%s:%d: row %s is not in the header",
                           m->where, line, word[0]);
        read_legend(m, word, n);
    }
    return 0;
}

static int read_matrix(struct matrix *m, char *text, struct err *err)
{
    char *line, *rest = text;
    int number = 0;

    while ((line = strsep(&rest, "\n")))
        if (read_line(m, line, ++number, err) < 0)
            return -1;
    if (m->n == 0)
        return err_set(err, ERR_USAGE,
                       "%s: neither `nvidia-smi topo -m` nor `nvidia-smi nvlink "
                       "--status`: no line begins with GPU0 or GPU 0:",
                       m->where);
    for (int i = 0; i < m->n; i++)
        if (!m->seen[i])
            return err_set(err, ERR_USAGE, "%s: the row of %s is missing: it is cut",
                           m->where, m->name[i]);
    for (int i = 0; i < m->n * m->n; i++) {
        const struct cell *a = &m->cell[i], *b = &m->cell[i % m->n * m->n + i / m->n];
        if (a->meet != b->meet || a->links != b->links)
            return err_set(err, ERR_USAGE, "%s: %s and %s do not agree how they meet",
                           m->where, m->name[i / m->n], m->name[i % m->n]);
    }
    return 0;
}

/* --- the model ---------------------------------------------------------------- */

enum { MOST_LINKS = 18 }; /* of one GPU, up to NVLink 5 */

/* Every pair shows all links: they go to switches, and the matrix counts them for
 * each partner.  Two GPUs alone may be bridged: that is what the matrix says. */
static int all_to_all(const struct matrix *m, int gpus, int row)
{
    int links = 0, pairs = 0;

    for (int i = 0; i < m->n; i++) {
        const struct cell *c = &m->cell[row * m->n + i];
        if (!is_gpu(m->name[i]) || i == row)
            continue;
        if (c->meet != MEET_NVLINK || (links && c->links != links))
            return 0;
        links = c->links;
        pairs++;
    }
    return pairs == gpus - 1 && pairs > 1 && links * pairs > MOST_LINKS ? links : 0;
}

static void add_nvlinks(const struct matrix *m, int gpus, int row, struct gpu *g)
{
    int links = all_to_all(m, gpus, row);
    struct nvlink *l;

    if (links) {
        l = topology_add_nvlink(g);
        snprintf(l->peer, sizeof(l->peer), "switch");
        l->count = links;
        return;
    }
    for (int i = 0; i < m->n; i++) {
        const struct cell *c = &m->cell[row * m->n + i];
        if (c->meet != MEET_NVLINK)
            continue;
        l = topology_add_nvlink(g);
        snprintf(l->peer, sizeof(l->peer), "gpu:%d",
                 (int)strtol(m->name[i] + 3, NULL, 10));
        l->count = c->links;
    }
}

static void add_numa(struct node *n, int id, const char *cpus)
{
    struct numa *m;

    for (int i = 0; i < n->n_numas; i++)
        if (n->numas[i].id == id)
            return;
    if (id < 0)
        return;
    m = topology_add_numa(n);
    m->id = id;
    snprintf(m->cpus, sizeof(m->cpus), "%s", cpus);
}

static const char *meet_word(enum meet m)
{
    static const char *const words[] = { "", "", "PIX", "PXB", "PHB", "NODE", "SYS" };

    return words[m];
}

/* All NICs of the matrix, then each GPU with its links and nearest NIC.  A NIC across
 * the NUMA boundary (SYS) is not near. */
static void build_devices(const struct matrix *m, struct node *n)
{
    int nic_column[MAX_DEVICES] = { 0 }, near[MAX_DEVICES], gpus = 0;

    for (int i = 0; i < m->n; i++) {
        gpus += is_gpu(m->name[i]);
        if (is_gpu(m->name[i]))
            continue;
        nic_column[n->n_nics] = i;
        snprintf(topology_add_nic(n)->name, sizeof(n->nics[0].name), "%s", m->name[i]);
    }
    for (int i = 0; i < m->n; i++) {
        struct gpu *g;
        if (!is_gpu(m->name[i]))
            continue;
        g = topology_add_gpu(n);
        g->index = (int)strtol(m->name[i] + 3, NULL, 10);
        g->numa = m->numa[i];
        add_numa(n, m->numa[i], m->cpus[i]);
        add_nvlinks(m, gpus, i, g);
        for (int k = 0; k < n->n_nics; k++)
            near[k] = MEET_SYS - (int)m->cell[i * m->n + nic_column[k]].meet;
        g->nic = nearest_pick(n, near);
        if (g->nic >= 0)
            snprintf(g->nic_path, sizeof(g->nic_path), "%s",
                     meet_word(m->cell[i * m->n + nic_column[g->nic]].meet));
    }
}

/* --- the file ------------------------------------------------------------------- */

static int read_text(char *text, const char *where, struct topology *t, struct err *err)
{
    struct matrix *m;
    int rc;

    if (smi_list_read(text, t))
        return 0;
    m = xcalloc(1, sizeof(*m));
    m->where = where;
    rc = read_matrix(m, text, err);
    if (rc == 0)
        build_devices(m, &t->nodes[0]);
    free(m->cell);
    free(m);
    return rc;
}

int topology_from_smi_text(const char *text, size_t len, const char *where,
                           struct topology **out, struct err *err)
{
    struct topology *t;
    char *copy;
    int rc, matrix;

    if (memchr(text, '\0', len))
        return err_set(err, ERR_USAGE, "%s: holds NUL bytes, so it is no text", where);
    copy = xstrndup(text, len);
    strip_escapes(copy);
    t = topology_new("smi", 1);
    snprintf(t->nodes[0].name, sizeof(t->nodes[0].name), TOPOLOGY_UNNAMED);
    matrix = !smi_list_is(copy);
    rc = read_text(copy, where, t, err);
    free(copy);
    if (rc == 0 && topology_validate(t, err) < 0)
        rc = err_wrap(err, "%s", where);
    if (rc < 0) {
        topology_free(t);
        return -1;
    }
    topology_inspect(t);
    if (matrix)
        topology_inspect_affinity(t);
    *out = t;
    return 0;
}

int topology_from_smi(const char *path, struct topology **out, struct err *err)
{
    char *text;
    size_t len;
    int rc;

    if (yaml_read_file(path, YAML_MAX_BYTES, &text, &len, err) < 0)
        return -1;
    rc = topology_from_smi_text(text, len, path, out, err);
    free(text);
    return rc;
}
