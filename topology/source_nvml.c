/* GPUs as the driver shows them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "topology/nvml.h"
#include "topology/source.h"
#include "topology/topology.h"

/* --- NVLink --------------------------------------------------------------------- */

static double field_mbytes(const struct nvml_field *f)
{
    switch (f->value_type) {
    case NVML_VALUE_DOUBLE:
        return f->value.d;
    case NVML_VALUE_UINT:
        return f->value.u;
    case NVML_VALUE_ULONG:
        return (double)f->value.ul;
    case NVML_VALUE_ULLONG:
        return (double)f->value.ull;
    default:
        return -1;
    }
}

/* MB/s of one link, one direction; -1 unknown.  Older drivers answer only for all
 * links together. */
static double link_mbytes(const struct nvml *n, struct nvml_device *d, unsigned link)
{
    struct nvml_field f[2] = { { .field_id = NVML_FIELD_GET_SPEED, .scope_id = link },
                               { .field_id = NVML_FIELD_SPEED_COMMON } };

    if (!n->fields || n->fields(d, 2, f) != NVML_OK)
        return -1;
    for (int i = 0; i < 2; i++)
        if (f[i].status == NVML_OK && field_mbytes(&f[i]) > 0)
            return field_mbytes(&f[i]);
    return -1;
}

/* Who is at the other end: a bus id, or "switch" when it is hidden (virtual
 * machines show ffffffff:..), or "" when the driver does not say. */
static void link_peer(const struct nvml *n, struct nvml_device *d, unsigned link,
                      char out[20])
{
    struct nvml_pci pci = { 0 };
    int type = -1;

    out[0] = '\0';
    if (n->link_remote_type && n->link_remote_type(d, link, &type) != NVML_OK)
        type = -1;
    if (n->link_remote && n->link_remote(d, link, &pci) == NVML_OK && pci.bus_id[0] &&
        strncasecmp(pci.bus_id, "fffffff", 7) != 0)
        busid_normalise(pci.bus_id, out);
    else if (type == NVML_REMOTE_SWITCH || strncasecmp(pci.bus_id, "fffffff", 7) == 0)
        snprintf(out, 20, "switch");
}

static struct nvlink *link_to(struct gpu *g, const char *peer)
{
    struct nvlink *l;

    for (int i = 0; i < g->n_nvlinks; i++)
        if (str_eq(g->nvlinks[i].peer, peer))
            return &g->nvlinks[i];
    l = topology_add_nvlink(g);
    snprintf(l->peer, sizeof(l->peer), "%s", peer);
    return l;
}

static void add_nvlinks(const struct nvml *n, struct nvml_device *d, struct gpu *g)
{
    char peer[20];

    g->n_nvlinks = 0;
    for (unsigned i = 0; n->link_state && i < NVML_MAX_LINKS; i++) {
        struct nvlink *l;
        double mbytes;
        int active = 0;

        if (n->link_state(d, i, &active) != NVML_OK || !active)
            continue;
        link_peer(n, d, i, peer);
        l = link_to(g, peer);
        mbytes = link_mbytes(n, d, i);
        /* MB/s until all are summed: whole numbers stay exact */
        if (l->count++ == 0)
            l->gbytes_per_s = mbytes;
        else
            l->gbytes_per_s =
                mbytes < 0 || l->gbytes_per_s < 0 ? -1 : l->gbytes_per_s + mbytes;
    }
    for (int i = 0; i < g->n_nvlinks; i++)
        if (g->nvlinks[i].gbytes_per_s > 0)
            g->nvlinks[i].gbytes_per_s /= 1000;
}

/* --- one device -------------------------------------------------------------- */

static double pcie_rate(const struct nvml *n, struct nvml_device *d)
{
    static const char *const speed[] = { "", "2.5", "5", "8", "16", "32", "64" };
    unsigned generation = 0, width = 0;

    if (!n->pcie_generation || !n->pcie_width ||
        n->pcie_generation(d, &generation) != NVML_OK ||
        n->pcie_width(d, &width) != NVML_OK || generation > 6 || width > 32)
        return -1;
    return pcie_gbytes_per_s(speed[generation], (int)width);
}

static void describe(const struct nvml *n, struct nvml_device *d, struct gpu *g)
{
    char text[NVML_NAME_BYTES];
    struct nvml_memory memory = { 0 };
    int major = 0, minor = 0;
    unsigned mig = 0, pending = 0;
    double rate = pcie_rate(n, d);

    if (n->name(d, text, sizeof(text)) == NVML_OK)
        snprintf(g->name, sizeof(g->name), "%.63s", text);
    if (n->uuid(d, text, sizeof(text)) == NVML_OK)
        snprintf(g->uuid, sizeof(g->uuid), "%.47s", text);
    if (n->memory(d, &memory) == NVML_OK && memory.total)
        g->memory_bytes = (int64_t)memory.total;
    if (n->capability && n->capability(d, &major, &minor) == NVML_OK)
        g->sm = major * 10 + minor;
    g->mig = n->mig_mode && n->mig_mode(d, &mig, &pending) == NVML_OK ? (int)mig : -1;
    if (rate > 0)
        g->pcie_gbytes_per_s = rate;
    add_nvlinks(n, d, g);
}

static struct gpu *gpu_at(struct node *n, const char *busid)
{
    struct gpu *g;

    for (int i = 0; i < n->n_gpus; i++)
        if (str_eq(n->gpus[i].busid, busid))
            return &n->gpus[i];
    g = topology_add_gpu(n);
    snprintf(g->busid, sizeof(g->busid), "%s", busid);
    return g;
}

static int add_device(const struct nvml *n, struct node *node, unsigned index,
                      char busid[20], struct err *err)
{
    struct nvml_device *d;
    struct nvml_pci pci = { 0 };
    struct gpu *g;
    int status = n->handle(index, &d);

    if (status == NVML_OK)
        status = n->pci(d, &pci);
    if (status != NVML_OK)
        return err_set(err, ERR_SYSTEM, "NVML shows no GPU %u: %s", index,
                       n->error_text(status));
    busid_normalise(pci.bus_id[0] ? pci.bus_id : pci.bus_id_legacy, busid);
    g = gpu_at(node, busid);
    g->index = (int)index;
    describe(n, d, g);
    return 0;
}

static int is_seen(const char (*seen)[20], unsigned count, const char *busid)
{
    for (unsigned i = 0; i < count; i++)
        if (str_eq(seen[i], busid))
            return 1;
    return 0;
}

/* GPUs that sysfs has and NVML has not cannot be used: they leave the list. */
static void drop_unseen(struct topology *t, const char (*seen)[20], unsigned count)
{
    struct node *n = &t->nodes[0];
    int kept = 0;

    for (int i = 0; i < n->n_gpus; i++) {
        if (is_seen(seen, count, n->gpus[i].busid)) {
            n->gpus[kept++] = n->gpus[i];
            continue;
        }
        topology_find(t, SEVERITY_WARN, n->gpus[i].busid,
                      "a GPU on the PCI bus that the driver does not show, so it is "
                      "left out: it belongs to another job or container, or it has "
                      "failed (dmesg names its Xid)");
        free(n->gpus[i].nvlinks);
    }
    n->n_gpus = kept;
}

enum { MAX_GPUS = 64 };

static int add_all(const struct nvml *n, struct topology *t, struct err *err)
{
    char seen[MAX_GPUS][20];
    unsigned count = 0;
    int status = n->count(&count);

    if (status != NVML_OK)
        return err_set(err, ERR_SYSTEM, "nvmlDeviceGetCount: %s",
                       n->error_text(status));
    if (count > MAX_GPUS)
        return err_set(err, ERR_SYSTEM, "NVML counts %u GPUs, at most %d are read",
                       count, MAX_GPUS);
    for (unsigned i = 0; i < count; i++)
        if (add_device(n, &t->nodes[0], i, seen[i], err) < 0)
            return -1;
    drop_unseen(t, (const char(*)[20])seen, count);
    return 0;
}

int topology_add_nvml(struct topology *t, struct err *err)
{
    struct nvml n;
    int rc;

    if (nvml_open(&n, err) < 0)
        return -1;
    rc = add_all(&n, t, err);
    nvml_close(&n);
    return rc;
}

int topology_from_nvml(struct topology **out, struct err *err)
{
    struct topology *t = topology_new("nvml", 1);

    if (gethostname(t->nodes[0].name, sizeof(t->nodes[0].name) - 1) < 0)
        snprintf(t->nodes[0].name, sizeof(t->nodes[0].name), "localhost");
    if (topology_add_nvml(t, err) < 0) {
        topology_free(t);
        return -1;
    }
    topology_inspect(t);
    *out = t;
    return 0;
}
