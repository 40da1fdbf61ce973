/* GPUs as the driver shows them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "topology/nvml.h"
#include "topology/nvml_links.h"
#include "topology/source.h"
#include "topology/topology.h"

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

/* MIG devices of a GPU; handles of those that are not made are NOT_FOUND. */
int nvml_count_instances(const struct nvml *n, struct nvml_device *d)
{
    struct nvml_device *instance;
    unsigned most = 0;
    int count = 0;

    if (!n->mig_max || !n->mig_device || n->mig_max(d, &most) != NVML_OK || most > 64)
        return -1;
    for (unsigned i = 0; i < most; i++)
        count += n->mig_device(d, i, &instance) == NVML_OK;
    return count;
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
    g->mig_instances = g->mig == 1 ? nvml_count_instances(n, d) : -1;
    if (rate > 0)
        g->pcie_gbytes_per_s = rate;
    nvml_add_links(n, d, g);
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
    nvml_add_fabric(n, d, node, g);
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
    char object[96];
    int kept = 0;

    for (int i = 0; i < n->n_gpus; i++) {
        if (is_seen(seen, count, n->gpus[i].busid)) {
            n->gpus[kept++] = n->gpus[i];
            continue;
        }
        snprintf(object, sizeof(object), "%.60s %s", n->name, n->gpus[i].busid);
        topology_find(t, SEVERITY_WARN, object,
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
    char seen[MAX_GPUS][20], version[NVML_VERSION_BYTES];
    unsigned count = 0;
    int status = n->count(&count);

    if (status != NVML_OK)
        return err_set(err, ERR_SYSTEM, "nvmlDeviceGetCount: %s",
                       n->error_text(status));
    if (count > MAX_GPUS)
        return err_set(err, ERR_SYSTEM, "NVML counts %u GPUs, at most %d are read",
                       count, MAX_GPUS);
    if (n->driver_version && n->driver_version(version, sizeof(version)) == NVML_OK)
        snprintf(t->nodes[0].driver, sizeof(t->nodes[0].driver), "%.31s", version);
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
