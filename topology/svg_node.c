/* The picture of one node: a panel for each NUMA node, half of them above and half,
 * mirrored, below what joins the GPUs. */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/svg_node.h"

enum {
    GPU_W = 146,
    NIC_W = 112,
    BOX_H = 86,
    GAP = 10,
    STRIP_H = 26,
    BAR_H = 18,
    ROOT_H = 16,
    WIRE_H = 16,
    SWITCH_BAND = 96,
    MESH_BAND = 170
};

/* --- sizes ------------------------------------------------------------------------------- */

static double bars_h(const struct node_view *v)
{
    return v->bars ? BAR_H + WIRE_H : 0;
}

static double roots_h(const struct node_view *v)
{
    return v->roots ? ROOT_H + WIRE_H : 0;
}

static double item_width(const struct item *i)
{
    return i->g ? GPU_W : NIC_W;
}

static void place_group(struct node_view *v, int group, double x)
{
    struct group *g = &v->group[group];

    g->x = x;
    for (int i = 0; i < v->n_items; i++)
        if (v->item[i].group == group) {
            v->item[i].x = x + (x > g->x ? GAP : 0);
            x = v->item[i].x + item_width(&v->item[i]);
        }
    g->w = x - g->x;
}

/* From the root of the tree, so that switches below one switch are neighbours. */
static void place_panel(struct node_view *v, int panel)
{
    struct panel *p = &v->panel[panel];
    double x = p->x + 2 * GAP;

    for (int i = 0; i < v->n_groups; i++) {
        if (v->group[i].panel != panel)
            continue;
        place_group(v, i, x);
        x += v->group[i].w + 2 * GAP;
    }
    p->w = x - p->x > 380 ? x - p->x : 380;
    p->h = STRIP_H + (v->n_groups ? 2 * GAP + WIRE_H + BOX_H : GAP) + bars_h(v) +
           roots_h(v);
}

/* How far below the outer edge of its panel something of height h begins. */
static double down(const struct panel *p, double from_edge, double h)
{
    return p->flipped ? p->y + p->h - from_edge - h : p->y + from_edge;
}

static double box_y(const struct node_view *v, const struct panel *p)
{
    return down(p, STRIP_H + WIRE_H + roots_h(v) + bars_h(v), BOX_H);
}

static double bar_y(const struct node_view *v, const struct panel *p)
{
    return down(p, STRIP_H + WIRE_H + roots_h(v), BAR_H);
}

/* --- NVLink -------------------------------------------------------------------------------- */

enum joint { NOTHING, A_SWITCH, A_MESH };

static enum joint joint_of(const struct node *n)
{
    enum joint j = NOTHING;

    for (int i = 0; i < n->n_gpus; i++)
        for (int k = 0; k < n->gpus[i].n_nvlinks; k++) {
            if (gpu_peer(n, &n->gpus[i].nvlinks[k]))
                return A_MESH;
            j = A_SWITCH;
        }
    return j;
}

/* Where the NVLinks of item i leave its box. */
static double port_y(const struct node_view *v, const struct item *i)
{
    const struct panel *p = &v->panel[v->group[i->group].panel];

    return box_y(v, p) + (p->flipped ? 0 : BOX_H);
}

static double link_width(int count)
{
    return count > 18 ? 6 : 1 + count * 5.0 / 18;
}

static void draw_nvswitch(struct node_view *v, double top)
{
    double first = 1e9, last = 0, y = top + SWITCH_BAND / 2.0 - 17;

    for (int i = 0; i < v->n_items; i++) {
        const struct item *it = &v->item[i];
        double x = it->x + GPU_W / 2.0;
        if (!it->g || it->g->n_nvlinks == 0)
            continue;
        svg_line(v->s, "nvlink", x, port_y(v, it), x, port_y(v, it) < y ? y : y + 34,
                 link_width(gpu_nvlink_count(it->g)));
        first = it->x < first ? it->x : first;
        last = it->x + GPU_W > last ? it->x + GPU_W : last;
    }
    svg_box(v->s, "nvswitch", first, y, last - first, 34, NULL);
    svg_text(v->s, "h", MIDDLE, (first + last) / 2, y + 22, last - first - 8,
             "NVSwitch");
}

static const struct item *item_of(const struct node_view *v, const struct gpu *g)
{
    for (int i = 0; i < v->n_items; i++)
        if (v->item[i].g == g)
            return &v->item[i];
    return NULL;
}

static void draw_mesh(struct node_view *v, double top)
{
    for (int i = 0; i < v->n_items; i++)
        for (int k = 0; v->item[i].g && k < v->item[i].g->n_nvlinks; k++) {
            const struct item *a = &v->item[i];
            const struct nvlink *l = &a->g->nvlinks[k];
            const struct item *b = item_of(v, gpu_peer(v->n, l));
            double x1 = a->x + GPU_W / 2.0, y1 = port_y(v, a), x2, y2, far;
            if (!b || b <= a)
                continue;
            x2 = b->x + GPU_W / 2.0;
            y2 = port_y(v, b);
            far = 40 + (x2 > x1 ? x2 - x1 : x1 - x2) / 9;
            far = far > MESH_BAND - 14 ? MESH_BAND - 14 : far;
            svg_bow(v->s, "nvlink", (double[]){ x1, y1, x2, y2 },
                    y1 != y2   ? top + MESH_BAND / 2.0
                    : y1 < top ? top + far
                               : top + MESH_BAND - far,
                    link_width(l->count) / 2 + 0.5);
        }
}

/* --- boxes ------------------------------------------------------------------------------------ */

/* "0000:18:00.0" is 18:00.0. */
static const char *short_busid(const char *busid)
{
    return strncmp(busid, "0000:", 5) == 0 ? busid + 5 : busid;
}

static void draw_gpu(struct node_view *v, const struct item *i, double y)
{
    const struct gpu *g = i->g;
    double rate = gpu_nvlink_gbytes_per_s(g), x = i->x + 8, room = GPU_W - 16;
    const char *name = strncmp(g->name, "NVIDIA ", 7) == 0 ? g->name + 7 : g->name;
    char object[96];

    svg_box(v->s, "gpu", i->x, y, GPU_W, BOX_H, g->uuid[0] ? g->uuid : NULL);
    svg_text(v->s, "b", LEFT, x, y + 16, room, "GPU %d", g->index);
    svg_text(v->s, "n soft", RIGHT, i->x + GPU_W - 8, y + 16, room - 50, "%s",
             short_busid(g->busid));
    svg_text(v->s, "l", LEFT, x, y + 33, room, "%s", *name ? name : "name unknown");
    if (g->memory_bytes > 0)
        svg_text(v->s, "l", LEFT, x, y + 48, room, "%.0f GiB%s",
                 (double)g->memory_bytes / (double)(1LL << 30),
                 g->mig == 1 ? ", MIG on" : "");
    if (g->n_nvlinks && rate > 0)
        svg_text(v->s, "l", LEFT, x, y + 63, room, "NVLink %d\xc3\x97%.3g GB/s",
                 gpu_nvlink_count(g), rate / gpu_nvlink_count(g));
    else if (g->n_nvlinks)
        svg_text(v->s, "l", LEFT, x, y + 63, room, "NVLink %d", gpu_nvlink_count(g));
    if (g->pcie_gbytes_per_s > 0)
        svg_text(v->s, "l", LEFT, x, y + 78, room, "PCIe %.0f GB/s",
                 g->pcie_gbytes_per_s);
    snprintf(object, sizeof(object), "%.60s gpu %d", v->n->name, g->index);
    svg_mark(v->s, svg_finding(v->t, object, 0), i->x, y, GPU_W, BOX_H);
}

static const char *nic_class(const struct nic *c)
{
    return c->kind == NIC_STORAGE      ? "store"
           : c->kind == NIC_MANAGEMENT ? "manage"
                                       : svg_rail(c->rail);
}

static void draw_nic_words(struct node_view *v, const struct nic *c, double x, double y)
{
    static const char *const layers[] = { "", " IB", " Eth" };
    double room = NIC_W - 20;

    svg_text(v->s, "b", LEFT, x, y + 16, room, "%s", c->name);
    if (c->gbits_per_s > 0)
        svg_text(v->s, "l", LEFT, x, y + 33, room, "%.0f Gb/s%s", c->gbits_per_s,
                 layers[c->layer]);
    if (c->kind == NIC_COMPUTE && c->rail >= 0)
        svg_text(v->s, "l", LEFT, x, y + 48, room, "rail %d", c->rail);
    else if (c->kind != NIC_COMPUTE)
        svg_text(v->s, "l soft", LEFT, x, y + 48, room, "%s",
                 c->kind == NIC_UNKNOWN ? "use unknown" : nic_kind_name(c->kind));
    if (c->up == 0)
        svg_text(v->s, "l failed", LEFT, x, y + 63, room, "port down");
    else if (c->leaf >= 0)
        svg_text(v->s, "l", LEFT, x, y + 63, room, "\xe2\x86\x92 %s",
                 v->t->switches[c->leaf].name);
    if (c->busid[0])
        svg_text(v->s, "n soft", LEFT, x, y + 78, room, "%s", short_busid(c->busid));
}

static void draw_nic(struct node_view *v, const struct item *i, double y)
{
    char object[96];

    svg_box(v->s, "nic", i->x, y, NIC_W, BOX_H,
            i->c->why[0]    ? i->c->why
            : i->c->guid[0] ? i->c->guid
                            : NULL);
    svg_line(v->s, nic_class(i->c), i->x + 4, y + 5, i->x + 4, y + BOX_H - 5, 5);
    draw_nic_words(v, i->c, i->x + 13, y);
    snprintf(object, sizeof(object), "%.60s %.31s", v->n->name, i->c->name);
    svg_mark(v->s, svg_finding(v->t, object, 0), i->x, y, NIC_W, BOX_H);
}

/* --- PCIe ------------------------------------------------------------------------------------- */

static void draw_bar(struct node_view *v, const struct group *g)
{
    const struct panel *p = &v->panel[g->panel];
    const struct pci *d = &v->n->pcis[g->pci];
    double y = bar_y(v, p), rate = pcie_gbytes_per_s(d->link_speed, d->link_width);

    svg_box(v->s, "pcie", g->x, y, g->w, BAR_H, d->link_speed);
    if (rate > 0)
        svg_text(v->s, "n", MIDDLE, g->x + g->w / 2, y + 13, g->w - 6,
                 "PCIe switch %s, %.0f GB/s up", short_busid(d->busid), rate);
    else
        svg_text(v->s, "n", MIDDLE, g->x + g->w / 2, y + 13, g->w - 6, "PCIe switch %s",
                 short_busid(d->busid));
}

/* A switch above the switches of some groups: from the first to the last of them. */
static void draw_root(struct node_view *v, const struct group *g)
{
    const struct panel *p = &v->panel[g->panel];
    int root = v->n->pcis[g->pci].above;
    double y = down(p, STRIP_H + WIRE_H, ROOT_H), first = g->x, last = g->x + g->w;

    for (int i = 0; root >= 0 && i < v->n_groups; i++) {
        const struct group *o = &v->group[i];
        if (o->panel != g->panel || o->pci < 0 || v->n->pcis[o->pci].above != root)
            continue;
        if (o < g)
            return; /* drawn already */
        last = o->x + o->w;
    }
    if (root < 0)
        return;
    svg_box(v->s, "pcie", first, y, last - first, ROOT_H, NULL);
    svg_text(v->s, "n", MIDDLE, (first + last) / 2, y + 12, last - first - 6,
             "PCIe switch %s", short_busid(v->n->pcis[root].busid));
}

static void draw_wires(struct node_view *v, const struct panel *p)
{
    double cpu = p->flipped ? p->y + p->h - STRIP_H : p->y + STRIP_H;
    double bar = bar_y(v, p), box = box_y(v, p) + (p->flipped ? BOX_H : 0);

    for (int i = 0; i < v->n_items; i++) {
        const struct group *g = &v->group[v->item[i].group];
        double x = v->item[i].x + item_width(&v->item[i]) / 2;
        if (&v->panel[g->panel] == p)
            svg_line(v->s, "wire", x, box, x, g->pci >= 0 ? bar + BAR_H / 2.0 : cpu,
                     g->pci >= 0 ? 2 : 1.2);
    }
    for (int i = 0; i < v->n_groups; i++) {
        const struct group *g = &v->group[i];
        double x = g->x + g->w / 2;
        if (&v->panel[g->panel] == p && g->pci >= 0)
            svg_line(v->s, "wire", x, bar + BAR_H / 2.0, x, cpu, 2);
    }
}

static const struct numa *numa_of(const struct node *n, int id)
{
    for (int i = 0; i < n->n_numas; i++)
        if (n->numas[i].id == id)
            return &n->numas[i];
    return NULL;
}

static void draw_strip(struct node_view *v, const struct panel *p)
{
    const struct numa *m = numa_of(v->n, p->numa);
    struct str text = STR_INIT;
    double y = down(p, 0, STRIP_H);

    if (p->numa < 0)
        str_adds(&text, "NUMA node unknown");
    else
        str_addf(&text, "NUMA %d", p->numa);
    if (m && m->cpus[0])
        str_addf(&text, " \xc2\xb7 CPUs %s", m->cpus);
    if (m && m->memory_bytes > 0)
        str_addf(&text, " \xc2\xb7 %.0f GiB",
                 (double)m->memory_bytes / (double)(1LL << 30));
    svg_box(v->s, "strip", p->x, y, p->w, STRIP_H, NULL);
    svg_text(v->s, "b", LEFT, p->x + 10, y + 17, p->w - 20, "%s", text.text);
    str_release(&text);
}

static void draw_ground(struct node_view *v, int panel)
{
    const struct panel *p = &v->panel[panel];

    svg_box(v->s, "panel", p->x, p->y, p->w, p->h, NULL);
    draw_wires(v, p);
    draw_strip(v, p);
    for (int i = 0; i < v->n_groups; i++)
        if (v->group[i].panel == panel && v->group[i].pci >= 0) {
            draw_bar(v, &v->group[i]);
            draw_root(v, &v->group[i]);
        }
}

static void draw_boxes(struct node_view *v)
{
    for (int i = 0; i < v->n_items; i++) {
        double y = box_y(v, &v->panel[v->group[v->item[i].group].panel]);
        if (v->item[i].g)
            draw_gpu(v, &v->item[i], y);
        else
            draw_nic(v, &v->item[i], y);
    }
}

/* --- whole ---------------------------------------------------------------------------------- */

static void draw(struct node_view *v, double x, double y)
{
    static const double bands[] = { 2 * GAP, SWITCH_BAND, MESH_BAND };
    enum joint joint = joint_of(v->n);
    int above_band = (v->n_panels + 1) / 2;
    double left = x, top, h = 0;

    for (int i = 0; i < v->n_panels; i++) {
        struct panel *p = &v->panel[i];
        p->flipped = i >= above_band;
        p->x = x = i == above_band ? left : x;
        place_panel(v, i);
        h = p->h;
        x += p->w + 2 * GAP;
    }
    top = y + h;
    for (int i = 0; i < v->n_panels; i++)
        v->panel[i].y = v->panel[i].flipped ? top + bands[joint] : y;
    for (int i = 0; i < v->n_panels; i++)
        draw_ground(v, i);
    if (joint == A_MESH)
        draw_mesh(v, top);
    else if (joint == A_SWITCH)
        draw_nvswitch(v, top);
    v->s->h = v->s->h > top + bands[joint] ? v->s->h : top + bands[joint];
    draw_boxes(v);
}

void svg_node(struct svg *s, const struct topology *t, const struct node *n, double x,
              double y)
{
    struct node_view v;

    node_view_init(&v, s, t, n);
    draw(&v, x, y);
    node_view_release(&v);
}
