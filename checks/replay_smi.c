#include "checks/replay_smi.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/topology.h"

enum { MAX_COLUMNS = 64 };

/* --- values ------------------------------------------------------------------------ */

/* "5", "0x40", "97 %", "Yes", "Enabled"; NaN for "N/A" and what is no value. */
static double value_of(const char *text)
{
    static const char *const yes[] = { "yes", "enabled", "on" };
    static const char *const no[] = { "no", "disabled", "off" };
    char *end;
    double v;

    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        if (strcasecmp(text, yes[i]) == 0)
            return 1;
        if (strcasecmp(text, no[i]) == 0)
            return 0;
    }
    v = strncasecmp(text, "0x", 2) == 0 ? (double)strtoull(text, &end, 16)
                                        : strtod(text, &end);
    return end == text || !isfinite(v) ? NAN : v;
}

static void set_fact(struct smi *s, int gpu, enum gpu_fact f, double v)
{
    s->gpu[gpu].fact[f] = v;
    s->asked[gpu] |= GPU_ASKED(f);
}

static int new_gpu(struct smi *s)
{
    size_t n = (size_t)s->n + 1;

    s->gpu = xrealloc(s->gpu, n, sizeof(*s->gpu));
    s->asked = xrealloc(s->asked, n, sizeof(*s->asked));
    gpu_state_init(&s->gpu[s->n]);
    s->gpu[s->n].index = s->n;
    s->asked[s->n] = 0;
    return s->n++;
}

static int gpu_of_index(struct smi *s, int index)
{
    int at;

    for (int i = 0; i < s->n; i++)
        if (s->gpu[i].index == index)
            return i;
    at = new_gpu(s);
    s->gpu[at].index = index;
    return at;
}

static int gpu_of_busid(struct smi *s, const char *busid)
{
    char normal[20];
    int at;

    busid_normalise(busid, normal);
    for (int i = 0; i < s->n; i++)
        if (str_eq(s->gpu[i].busid, normal))
            return i;
    at = new_gpu(s);
    snprintf(s->gpu[at].busid, sizeof(s->gpu[at].busid), "%s", normal);
    return at;
}

/* --- --query-gpu ------------------------------------------------------------------- */

static const struct {
    const char *column;
    int fact; /* -1: no fact */
    double scale;
} columns[] = {
    { "index", -1, 1 },
    { "name", -1, 1 },
    { "pci.bus_id", -1, 1 },
    { "GPU busy?", GPU_BUSY, 100 },
    { "utilization.gpu", GPU_BUSY, 1 },
    { "clocks_event_reasons.active", GPU_THROTTLE, 1 },
    { "clocks_throttle_reasons.active", GPU_THROTTLE, 1 },
    { "pcie.link.gen.current", GPU_PCIE_GEN, 1 },
    { "pcie.link.gen.max", GPU_PCIE_GEN_MAX, 1 },
    { "pcie.link.gen.gpumax", GPU_PCIE_GEN_CARD, 1 },
    { "pcie.link.width.current", GPU_PCIE_WIDTH, 1 },
    { "pcie.link.width.max", GPU_PCIE_WIDTH_MAX, 1 },
    { "mig.mode.current", GPU_MIG, 1 },
    { "mig.mode.pending", GPU_MIG_PENDING, 1 },
    { "ecc.mode.current", GPU_ECC, 1 },
    { "ecc.mode.pending", GPU_ECC_PENDING, 1 },
    { "ecc.errors.uncorrected.volatile.total", GPU_ECC_UNCORRECTED, 1 },
    { "remapped_rows.correctable", GPU_REMAP_CORRECTABLE, 1 },
    { "remapped_rows.uncorrectable", GPU_REMAP_UNCORRECTABLE, 1 },
    { "remapped_rows.pending", GPU_REMAP_PENDING, 1 },
    { "remapped_rows.failure", GPU_REMAP_FAILED, 1 },
    { "persistence_mode", GPU_PERSISTENCE, 1 },
    { "power.limit", GPU_POWER_LIMIT, 1 },
    { "power.default_limit", GPU_POWER_DEFAULT, 1 },
    { "temperature.gpu", GPU_TEMPERATURE, 1 },
    { "clocks.sm", GPU_CLOCK, 1 },
    { "clocks.max.sm", GPU_CLOCK_MAX, 1 },
    { "memory.used", GPU_MEMORY_USED, 1 << 20 },
};

/* Cells of a line, without blanks around them; the line is cut up. */
static int split(char *line, char separator, char *cell[MAX_COLUMNS])
{
    int n = 0;

    for (char *at = line; at && n < MAX_COLUMNS; n++) {
        char *end = strchr(at, separator), *last;

        if (end)
            *end = '\0';
        at += strspn(at, " #");
        cell[n] = at;
        last = at + strlen(at);
        while (last > at && isspace((unsigned char)last[-1]))
            *--last = '\0';
        at = end ? end + 1 : NULL;
    }
    return n;
}

/* "utilization.gpu [%]" is "utilization.gpu". */
static int find_column(const char *name)
{
    size_t n = strcspn(name, "[");

    while (n > 0 && name[n - 1] == ' ')
        n--;
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        if (strlen(columns[i].column) == n && strncmp(columns[i].column, name, n) == 0)
            return (int)i;
    return -1;
}

struct query {
    int column[MAX_COLUMNS]; /* of columns[]; -1 not known */
    int n, known, row;
    char separator;
};

/* A recorded header may spell its tabs "<TAB>". */
static void read_header(struct query *q, char *line)
{
    char *cell[MAX_COLUMNS];

    for (char *at; (at = strstr(line, "<TAB>")) != NULL;) {
        *at = '\t';
        memmove(at + 1, at + 5, strlen(at + 5) + 1);
    }
    q->separator = strchr(line, '\t') ? '\t' : ',';
    q->n = split(line, q->separator, cell);
    for (int i = 0; i < q->n; i++) {
        q->column[i] = find_column(cell[i]);
        q->known += q->column[i] >= 0 && columns[q->column[i]].fact >= 0;
    }
}

static void take_cell(struct smi *s, int gpu, int column, const char *text)
{
    double v = value_of(text);

    if (columns[column].fact >= 0)
        set_fact(s, gpu, (enum gpu_fact)columns[column].fact,
                 columns[column].scale * v);
    else if (str_eq(columns[column].column, "name"))
        snprintf(s->gpu[gpu].name, sizeof(s->gpu[gpu].name), "%.63s", text);
    else if (str_eq(columns[column].column, "pci.bus_id"))
        busid_normalise(text, s->gpu[gpu].busid);
}

static int add_row(struct smi *s, struct query *q, char *line, const char *where,
                   int number, struct err *err)
{
    char *cell[MAX_COLUMNS];
    int n = split(line, q->separator, cell), index = q->row++;

    if (n != q->n)
        return err_set(err, ERR_USAGE, "%s:%d: %d cells under %d columns", where,
                       number, n, q->n);
    for (int i = 0; i < n; i++)
        if (q->column[i] >= 0 && str_eq(columns[q->column[i]].column, "index") &&
            value_of(cell[i]) >= 0 && value_of(cell[i]) < 1024)
            index = (int)value_of(cell[i]);
    index = gpu_of_index(s, index);
    for (int i = 0; i < n; i++)
        if (q->column[i] >= 0)
            take_cell(s, index, q->column[i], cell[i]);
    return 0;
}

/* --- -L --------------------------------------------------------------------------------- */

/* 0 of "GPU 0: ..."; -1 for another line. */
static int listed_index(const char *line)
{
    char *end;
    long index;

    if (strncmp(line, "GPU ", 4) != 0)
        return -1;
    index = strtol(line + 4, &end, 10);
    return end > line + 4 && *end == ':' && index >= 0 && index < 1024 ? (int)index
                                                                       : -1;
}

/* "GPU 0: NVIDIA H100 (UUID: ...)", and below it "  MIG 3g.40gb ..." */
static int add_listed(struct smi *s, const char *line, int *now)
{
    const char *name = strchr(line, ':'), *end = strstr(line, " (UUID");
    int index = listed_index(line);

    if (index >= 0 && name) {
        *now = gpu_of_index(s, index);
        name += 1 + strspn(name + 1, " ");
        snprintf(s->gpu[*now].name, sizeof(s->gpu[*now].name), "%.*s",
                 end > name ? (int)(end - name) : (int)strlen(name), name);
        s->gpu[*now].fact[GPU_MIG_INSTANCES] = 0;
        s->asked[*now] |= GPU_ASKED(GPU_MIG);
        return 1;
    }
    if (*now < 0 || strncmp(line + strspn(line, " "), "MIG ", 4) != 0)
        return 0;
    s->gpu[*now].fact[GPU_MIG_INSTANCES]++;
    return 1;
}

/* --- -q ----------------------------------------------------------------------------------- */

static const struct {
    const char *section, *key;
    enum gpu_fact fact;
} keys[] = {
    { "Remapped Rows", "Correctable Error", GPU_REMAP_CORRECTABLE },
    { "Remapped Rows", "Uncorrectable Error", GPU_REMAP_UNCORRECTABLE },
    { "Remapped Rows", "Pending", GPU_REMAP_PENDING },
    { "Remapped Rows", "Remapping Failure Occurred", GPU_REMAP_FAILED },
    { "", "Remapped Rows", GPU_REMAP_FAILED },
    { "MIG Mode", "Current", GPU_MIG },
    { "MIG Mode", "Pending", GPU_MIG_PENDING },
    { "", "MIG Mode", GPU_MIG },
    { "ECC Mode", "Current", GPU_ECC },
    { "ECC Mode", "Pending", GPU_ECC_PENDING },
    { "", "ECC Mode", GPU_ECC },
    { "", "Persistence Mode", GPU_PERSISTENCE },
};

struct block {
    int gpu; /* -1 before the first */
    char section[64];
    int indent; /* of the section's title */
};

static void take_fabric(struct gpu_state *g, const char *key, const char *value)
{
    if (str_eq(key, "State")) {
        snprintf(g->fabric, sizeof(g->fabric), "%.15s",
                 strcasecmp(value, "N/A") == 0 ? "none" : value);
        for (char *c = g->fabric; *c; c++)
            *c = (char)tolower((unsigned char)*c);
    } else if (str_eq(key, "Status") && str_eq(g->fabric, "completed") &&
               strcasecmp(value, "Success") != 0) {
        snprintf(g->fabric, sizeof(g->fabric), "failed");
    }
}

static void take_pair(struct smi *s, const struct block *b, const char *key,
                      const char *value)
{
    struct gpu_state *g = &s->gpu[b->gpu];

    if (str_eq(b->section, "Fabric")) {
        take_fabric(g, key, value);
        set_fact(s, b->gpu, GPU_FABRIC, 1);
    } else if (str_eq(key, "Product Name")) {
        snprintf(g->name, sizeof(g->name), "%.63s", value);
    }
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (str_eq(b->section, keys[i].section) && str_eq(key, keys[i].key))
            set_fact(s, b->gpu, keys[i].fact, value_of(value));
}

/* One line of -q; what is not known is passed over, as a log holds hundreds of keys. */
static void add_queried(struct smi *s, struct block *b, char *line)
{
    int indent = (int)strspn(line, " ");
    char *key = line + indent, *colon = strstr(key, " : "), *end;

    if (indent == 0 && strncmp(key, "GPU 0", 5) == 0) {
        b->gpu = gpu_of_busid(s, key + 4);
        b->section[0] = '\0';
        return;
    }
    if (b->gpu < 0 || *key == '\0')
        return;
    if (indent <= b->indent)
        b->section[0] = '\0';
    if (!colon) {
        snprintf(b->section, sizeof(b->section), "%.63s", key);
        b->indent = indent;
        return;
    }
    for (end = colon; end > key && end[-1] == ' '; end--)
        ;
    *end = '\0';
    take_pair(s, b, key, colon + 3);
}

/* --- all ------------------------------------------------------------------------------------ */

enum form { FORM_NONE, FORM_QUERY, FORM_LIST, FORM_BLOCKS };

static char *first_line(const char *text)
{
    while (*text == '\n' || *text == '\r')
        text++;
    return xstrndup(text, strcspn(text, "\r\n"));
}

static enum form form_of(const char *text)
{
    char *line = first_line(text);
    struct query q = { .n = 0 };
    enum form form = FORM_NONE;

    if (listed_index(line) >= 0 && strstr(line, "(UUID"))
        form = FORM_LIST;
    else if (strstr(text, "\nGPU 0000") || strncmp(text, "GPU 0000", 8) == 0)
        form = FORM_BLOCKS;
    read_header(&q, line);
    if (form == FORM_NONE && q.known > 0)
        form = FORM_QUERY;
    free(line);
    return form;
}

int smi_fits(const char *text)
{
    return form_of(text) != FORM_NONE;
}

int smi_read(struct smi *s, const char *text, const char *where, struct err *err)
{
    enum form form = form_of(text);
    struct query q = { .n = 0 };
    struct block b = { .gpu = -1 };
    int now = -1, number = 0, rc = 0;

    for (const char *at = text; rc == 0 && *at;
         at += strcspn(at, "\n"), at += *at == '\n') {
        char *line = xstrndup(at, strcspn(at, "\r\n"));

        number++;
        if (line[strspn(line, " \t")] == '\0')
            ;
        else if (form == FORM_BLOCKS)
            add_queried(s, &b, line);
        else if (form == FORM_QUERY && q.n == 0)
            read_header(&q, line);
        else if (form == FORM_QUERY && *line != '#')
            rc = add_row(s, &q, line, where, number, err);
        else if (form == FORM_LIST && !add_listed(s, line, &now))
            rc = err_set(err, ERR_USAGE, "%s:%d: not a line of nvidia-smi -L: '%s'",
                         where, number, line);
        free(line);
    }
    return rc;
}

void smi_measure(const struct smi *s, struct measures *out)
{
    for (int i = 0; i < s->n; i++) {
        gpu_measure_rest(&s->gpu[i], s->asked[i], "", out);
        gpu_measure_load(&s->gpu[i], s->asked[i], "", out);
    }
}

void smi_release(struct smi *s)
{
    free(s->gpu);
    free(s->asked);
    memset(s, 0, sizeof(*s));
}
