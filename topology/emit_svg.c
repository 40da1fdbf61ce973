/* The picture of a topology: title, fabric, one node of each kind, findings, legend. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/emit.h"
#include "topology/svg_topo.h"

enum { LEFT_EDGE = 24, KINDS_MAX = 3, FINDINGS_MAX = 16, LINE_H = 18 };

/* Is `object` what a finding is about?  "n1 gpu 2, gpu 3" is about two. */
static int is_about(const char *about, const char *object, int whole)
{
    size_t n = strlen(object);
    const char *part = strchr(object, ' '), *more = strstr(about, ", ");

    if (strncmp(about, object, n) == 0 &&
        (!about[n] || about[n] == ',' || (whole && about[n] == ' ')))
        return 1;
    return part && more && str_eq(more + 2, part + 1) &&
           strncmp(about, object, (size_t)(part - object) + 1) == 0;
}

int svg_finding(const struct topology *t, const char *object, int whole)
{
    int worst = -1;

    for (int i = 0; i < t->n_findings; i++)
        if (is_about(t->findings[i].object, object, whole) &&
            (int)t->findings[i].severity > worst)
            worst = (int)t->findings[i].severity;
    return worst;
}

void svg_mark(struct svg *s, int severity, double x, double y, double w, double h)
{
    if (severity < SEVERITY_WARN)
        return;
    svg_box(s, severity_name((enum severity)severity), x, y, w, h, NULL);
    svg_dot(s, severity == SEVERITY_FAIL ? "dotfail" : "dotwarn", x + w - 2, y + 2,
            5.5);
}

/* --- kinds of nodes --------------------------------------------------------------------- */

/* What makes nodes look alike in the picture. */
static char *kind_of(const struct node *n)
{
    struct str s = STR_INIT;

    str_addf(&s, "%d %d", n->n_numas, n->n_pcis);
    for (int i = 0; i < n->n_gpus; i++)
        str_addf(&s, "|%s %d %d", n->gpus[i].name, gpu_nvlink_count(&n->gpus[i]),
                 n->gpus[i].numa);
    for (int i = 0; i < n->n_nics; i++)
        str_addf(&s, "|%d %.0f %d", (int)n->nics[i].kind, n->nics[i].gbits_per_s,
                 n->nics[i].numa);
    return str_take(&s);
}

struct kind {
    char *text;
    int first, n; /* the first such node, and how many */
};

/* The kinds by how many nodes they have, at most KINDS_MAX; free the texts. */
static int find_kinds(const struct topology *t, struct kind *kind)
{
    int n = 0;

    for (int i = 0; i < t->n_nodes; i++) {
        char *text = kind_of(&t->nodes[i]);
        int k = 0;
        while (k < n && !str_eq(kind[k].text, text))
            k++;
        if (k < n || n == KINDS_MAX)
            free(text);
        else
            kind[n++] = (struct kind){ text, i, 0 };
        if (k < n)
            kind[k].n++;
    }
    return n;
}

static void draw_kinds(struct svg *s, const struct topology *t)
{
    struct kind kind[KINDS_MAX] = { { NULL, 0, 0 } };
    int n = find_kinds(t, kind);

    for (int k = 0; k < n; free(kind[k++].text)) {
        const struct node *node = &t->nodes[kind[k].first];
        double y = s->h + 34;
        if (node->n_numas + node->n_gpus + node->n_nics == 0)
            continue; /* nothing is known but its name */
        if (t->n_nodes == 1)
            y = s->h;
        else if (kind[k].n == 1)
            svg_text(s, "h", LEFT, LEFT_EDGE, y, -1, "%s", node->name);
        else
            svg_text(s, "h", LEFT, LEFT_EDGE, y, -1, "%s and %d more like it",
                     node->name, kind[k].n - 1);
        svg_node(s, t, node, LEFT_EDGE, y + 14);
    }
}

/* --- words ------------------------------------------------------------------------------- */

static void draw_title(struct svg *s, const struct topology *t)
{
    int gpus = 0, nics = 0, levels[8] = { 0 };
    struct str text = STR_INIT;

    for (int i = 0; i < t->n_nodes; i++) {
        gpus += t->nodes[i].n_gpus;
        for (int k = 0; k < t->nodes[i].n_nics; k++)
            nics += t->nodes[i].nics[k].kind == NIC_COMPUTE;
    }
    for (int i = 0; i < t->n_switches; i++)
        levels[t->switches[i].level < 7 ? t->switches[i].level : 7]++;
    str_addf(&text, "%d GPU%s, %d compute NIC%s", gpus, gpus == 1 ? "" : "s", nics,
             nics == 1 ? "" : "s");
    if (levels[0])
        str_addf(&text, ", %d leaf switch%s", levels[0], levels[0] == 1 ? "" : "es");
    if (t->n_switches > levels[0])
        str_addf(&text, ", %d above", t->n_switches - levels[0]);
    str_addf(&text, "; from %s", t->source);
    if (t->n_nodes == 1)
        svg_text(s, "t", LEFT, LEFT_EDGE, 40, -1, "%s", t->nodes[0].name);
    else
        svg_text(s, "t", LEFT, LEFT_EDGE, 40, -1, "%d nodes", t->n_nodes);
    svg_text(s, "l soft", LEFT, LEFT_EDGE, 60, -1, "%s", text.text);
    if (t->simulated)
        svg_text(s, "l warned", LEFT, LEFT_EDGE, 76, -1,
                 "simulated: described, not looked at");
    str_release(&text);
}

/* Where to break a line of at most `fit` bytes: behind a blank, else inside a word. */
static size_t line_end(const char *text, size_t fit)
{
    size_t n = fit;

    if (strlen(text) <= fit)
        return strlen(text);
    while (n > fit / 2 && text[n] != ' ')
        n--;
    return n > fit / 2 ? n : fit;
}

static double draw_finding(struct svg *s, const struct finding *f, double y)
{
    static const char *const dots[] = { "dotnote", "dotwarn", "dotfail" };
    size_t fit = (size_t)((s->w > 700 ? s->w - 80 : 620) / svg_width("l", "m"));
    char *text = xasprintf("%s: %s", f->object, f->text);

    svg_dot(s, dots[f->severity], LEFT_EDGE + 6, y - 4, 5);
    for (const char *p = text; *p;) {
        size_t n = line_end(p, fit);
        svg_text(s, "l", LEFT, LEFT_EDGE + 20, y, -1, "%.*s", (int)n, p);
        y += LINE_H - 3;
        p += n + (p[n] == ' ');
    }
    free(text);
    return y + 4;
}

/* The worst first. */
static void draw_findings(struct svg *s, const struct topology *t)
{
    double y = s->h + 34;
    int said = 0;

    if (t->n_findings == 0)
        return;
    svg_text(s, "h", LEFT, LEFT_EDGE, y, -1, "Findings");
    y += LINE_H + 4;
    for (int level = SEVERITY_FAIL; level >= SEVERITY_NOTE; level--)
        for (int i = 0; i < t->n_findings; i++)
            if ((int)t->findings[i].severity == level && said++ < FINDINGS_MAX)
                y = draw_finding(s, &t->findings[i], y);
    if (said > FINDINGS_MAX)
        svg_text(s, "l soft", LEFT, LEFT_EDGE + 20, y, -1,
                 "and %d more: muster topo lists them", said - FINDINGS_MAX);
}

/* --- legend ------------------------------------------------------------------------------- */

struct legend {
    struct svg *s;
    double x, y, room;
};

/* Room for a sample of 26 px and its words; what does not fit goes to the next line. */
static double sample(struct legend *l, const char *words)
{
    double w = 34 + svg_width("l", words) + 18, x;

    if (l->x + w > l->room) {
        l->x = LEFT_EDGE;
        l->y += 24;
    }
    x = l->x;
    svg_text(l->s, "l", LEFT, x + 34, l->y, -1, "%s", words);
    l->x += w;
    return x;
}

static void line_sample(struct legend *l, const char *class, double width,
                        const char *words)
{
    double x = sample(l, words);

    svg_line(l->s, class, x + 2, l->y - 4, x + 26, l->y - 4, width);
}

static void box_sample(struct legend *l, const char *class, const char *words)
{
    svg_box(l->s, class, sample(l, words) + 4, l->y - 12, 22, 15, NULL);
}

/* What is in the picture: rails used, kinds of NIC, findings. */
struct seen {
    int rails, gpus, nics, nvlinks, pcis, store, manage, trunks, fail, warn;
};

static void look(const struct topology *t, struct seen *is)
{
    for (int i = 0; i < t->n_nodes; i++) {
        const struct node *n = &t->nodes[i];
        is->gpus |= n->n_gpus > 0;
        is->nics |= n->n_nics > 0;
        is->pcis |= n->n_pcis > 0;
        for (int k = 0; k < n->n_gpus; k++)
            is->nvlinks |= n->gpus[k].n_nvlinks > 0;
        for (int k = 0; k < n->n_nics; k++) {
            const struct nic *c = &n->nics[k];
            is->store |= c->kind == NIC_STORAGE;
            is->manage |= c->kind == NIC_MANAGEMENT;
            if (c->kind == NIC_COMPUTE && c->rail >= is->rails)
                is->rails = c->rail + 1;
        }
    }
    is->trunks = t->n_links > 0;
    for (int i = 0; i < t->n_findings; i++) {
        is->fail |= t->findings[i].severity == SEVERITY_FAIL;
        is->warn |= t->findings[i].severity == SEVERITY_WARN;
    }
}

static void draw_legend(struct svg *s, const struct topology *t)
{
    struct legend l = { s, LEFT_EDGE, s->h + 36, s->w > 700 ? s->w : 700 };
    struct seen is = { 0 };

    look(t, &is);
    if (is.gpus)
        box_sample(&l, "gpu", "GPU");
    if (is.nvlinks)
        line_sample(&l, "nvlink", 4, "NVLink, wider with more links");
    if (is.gpus || is.nics)
        line_sample(&l, "wire", 2, is.pcis ? "PCIe" : "PCIe, path unknown");
    for (int r = 0; r < is.rails && r < 8; r++) {
        char words[40];
        snprintf(words, sizeof(words), is.rails > 8 ? "rail %d, %d ..." : "rail %d", r,
                 r + 8);
        line_sample(&l, svg_rail(r), 5, words);
    }
    if (is.store)
        line_sample(&l, "store", 5, "storage NIC");
    if (is.manage)
        line_sample(&l, "manage", 5, "management NIC");
    if (is.trunks)
        line_sample(&l, "trunk", 4, "trunk, wider with more cables");
    if (svg_fabric_thin(t))
        line_sample(&l, "thin", 4, "trunk below its like");
    if (is.fail)
        box_sample(&l, "fail", "failing");
    if (is.warn)
        box_sample(&l, "warn", "warning");
    s->h = l.y > s->h ? l.y : s->h;
}

int topology_emit_svg(const struct topology *t, FILE *fp, struct err *err)
{
    struct svg s = { STR_INIT, 0, 0 };
    char *title = xasprintf("Topology from %s", t->source);

    (void)err;
    draw_title(&s, t);
    s.h = s.h > 76 ? s.h : 76;
    svg_fabric(&s, t, LEFT_EDGE, s.h + 14);
    draw_kinds(&s, t);
    draw_findings(&s, t);
    draw_legend(&s, t);
    svg_finish(&s, title, fp);
    free(title);
    return 0;
}
