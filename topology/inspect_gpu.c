/* What is worth saying about the GPUs of one node. */
#include <string.h>

#include "base/str.h"
#include "topology/gpu_model.h"
#include "topology/inspect.h"
#include "topology/topology.h"

/* --- NVLink -------------------------------------------------------------------------- */

/* Most links that a GPU of this name has on the node. */
static int best_count(const struct node *n, const char *name)
{
    int best = 0;

    for (int i = 0; i < n->n_gpus; i++)
        if (str_eq(n->gpus[i].name, name) && gpu_nvlink_count(&n->gpus[i]) > best)
            best = gpu_nvlink_count(&n->gpus[i]);
    return best;
}

static int missing_links(const struct node *n, const struct gpu *g)
{
    return best_count(n, g->name) - gpu_nvlink_count(g);
}

static int linked(const struct node *n, const struct gpu *a, const struct gpu *b)
{
    for (int i = 0; i < a->n_nvlinks; i++)
        if (gpu_peer(n, &a->nvlinks[i]) == b)
            return 1;
    return 0;
}

/* In a mesh of GPUs: the one that lacks as many links and has none to g (A01). */
static const struct gpu *lost_partner(const struct node *n, const struct gpu *g)
{
    int mesh = 0;

    for (int i = 0; i < g->n_nvlinks; i++)
        mesh |= gpu_peer(n, &g->nvlinks[i]) != NULL;
    for (int i = 0; mesh && i < n->n_gpus; i++)
        if (&n->gpus[i] != g && missing_links(n, &n->gpus[i]) == missing_links(n, g) &&
            !linked(n, g, &n->gpus[i]))
            return &n->gpus[i];
    return NULL;
}

/* Behind several switches: the one with the fewest links (A09). */
static const struct nvlink *thinnest(const struct gpu *g)
{
    const struct nvlink *least = NULL;

    for (int i = 0; g->n_nvlinks > 1 && i < g->n_nvlinks; i++)
        if (!least || g->nvlinks[i].count < least->count)
            least = &g->nvlinks[i];
    return least;
}

static void report_pair(struct topology *t, const struct node *n, const struct gpu *g,
                        const struct gpu *partner, int missing)
{
    char object[96];
    int have = gpu_nvlink_count(g);

    snprintf(object, sizeof(object), "%.50s gpu %d, gpu %d", n->name, g->index,
             partner->index);
    topology_find_once(
        t, SEVERITY_FAIL, object,
        "the NVLink between GPU %d and GPU %d is down: %d of %d links are "
        "up on each; nvidia-smi nvlink -s names them",
        g->index, partner->index, have, have + missing);
}

/* ", 3,5 down, fewest to 0000:08:00.0": the evidence. */
static void add_evidence(struct str *s, const struct gpu *g)
{
    const struct nvlink *least = thinnest(g);

    if (g->links_down[0])
        str_addf(s, ", link %s down", g->links_down);
    if (least)
        str_addf(s, ", fewest to %s", least->peer);
}

static void report_missing(struct topology *t, const struct node *n,
                           const struct gpu *g, int missing)
{
    int have = gpu_nvlink_count(g);
    struct str evidence = STR_INIT;
    char object[96];

    inspect_object(n, g, object);
    if (have == 0) { /* a card without a bridge is no fault (A06) */
        topology_find_once(t, SEVERITY_NOTE, object,
                           "no NVLink, though its like on this node has %d: it is "
                           "reached over PCIe",
                           missing);
        return;
    }
    add_evidence(&evidence, g);
    topology_find_once(t, SEVERITY_FAIL, object,
                       "%d NVLinks are up, %d on its like beside it (%d short%s): "
                       "nvidia-smi nvlink -s -i %d names them",
                       have, have + missing, missing, evidence.len ? evidence.text : "",
                       g->index);
    str_release(&evidence);
}

/* All of a node may be short alike.  None at all is only told from what the driver did
 * not show by links that it calls down. */
static void inspect_model(struct topology *t, const struct node *n, const struct gpu *g)
{
    const struct gpu_model *m = gpu_model_find(g->name);
    int have = gpu_nvlink_count(g);
    struct str evidence = STR_INIT;
    char object[96];

    if (!m || have >= m->nvlinks ||
        (have == 0 && (m->bridged || g->links_down[0] == '\0')))
        return;
    inspect_object(n, g, object);
    if (have == 0 && n->n_gpus == 1) { /* a virtual machine with one GPU of a host */
        topology_find_once(t, SEVERITY_NOTE, object,
                           "no NVLink is up, and no other GPU is here that one could "
                           "lead to");
        return;
    }
    add_evidence(&evidence, g);
    topology_find_once(t, SEVERITY_FAIL, object,
                       "%d of %d NVLinks are up: %s has %d (%d short%s); nvidia-smi "
                       "nvlink -s -i %d shows them",
                       have, m->nvlinks, g->name, m->nvlinks, m->nvlinks - have,
                       evidence.len ? evidence.text : "", g->index);
    str_release(&evidence);
}

static void inspect_nvlinks(struct topology *t, const struct node *n,
                            const struct gpu *g)
{
    int missing = missing_links(n, g);
    const struct gpu *partner = missing > 0 ? lost_partner(n, g) : NULL;

    if (partner && partner < g)
        return; /* a pair is named once */
    if (partner)
        report_pair(t, n, g, partner, missing);
    else if (missing > 0)
        report_missing(t, n, g, missing);
    else
        inspect_model(t, n, g);
}

/* --- what the driver says ----------------------------------------------------------------- */

static void inspect_mig(struct topology *t, const struct node *n, const struct gpu *g)
{
    char object[96];

    if (g->mig != 1)
        return;
    inspect_object(n, g, object);
    topology_find_once(t, SEVERITY_WARN, object,
                       "MIG is on%s, so no rank is placed here: nvidia-smi -i %d -mig "
                       "0 makes it whole",
                       g->mig_instances == 0 ? " without an instance" : "", g->index);
}

/* Without the fabric manager's word a GPU behind NVSwitches cannot be used (A10). */
static void inspect_fabric(struct topology *t, const struct node *n,
                           const struct gpu *g)
{
    char object[96];

    inspect_object(n, g, object);
    if (str_eq(g->fabric, "degraded"))
        topology_find_once(t, SEVERITY_FAIL, object,
                           "the NVLink fabric runs at reduced bandwidth, says its "
                           "manager: nvidia-smi -q -i %d shows Fabric, Health",
                           g->index);
    else if (str_eq(g->fabric, "in progress") || str_eq(g->fabric, "not started") ||
             str_eq(g->fabric, "failed"))
        topology_find_once(
            t, SEVERITY_FAIL, object,
            "the fabric manager is not ready with %s (Fabric State: %s), "
            "so CUDA fails with error 802: systemctl status "
            "nvidia-fabricmanager, then its log",
            g->busid[0] ? g->busid : "it", g->fabric);
}

/* --- the way to the network --------------------------------------------------------------- */

static int below_switch(const struct gpu *g)
{
    return str_eq(g->nic_path, "PIX") || str_eq(g->nic_path, "PXB");
}

/* Do most GPUs of the node have a NIC below their own PCIe switch? */
static int usually_near(const struct node *n)
{
    int near = 0;

    for (int i = 0; i < n->n_gpus; i++)
        near += below_switch(&n->gpus[i]);
    return near * 2 > n->n_gpus;
}

static int count_compute_on(const struct node *n, int numa)
{
    int count = 0;

    for (int i = 0; i < n->n_nics; i++)
        count +=
            n->nics[i].kind == NIC_COMPUTE && (numa < 0 || n->nics[i].numa == numa);
    return count;
}

/* Traffic of a far NIC crosses the host bridge, or the link between sockets. */
static void inspect_far(struct topology *t, const struct node *n, const struct gpu *g)
{
    int all = count_compute_on(n, -1);
    char object[96];

    inspect_object(n, g, object);
    if (g->nic < 0) {
        if (all && g->numa >= 0 && count_compute_on(n, g->numa) == 0)
            topology_find_once(t, SEVERITY_WARN, object,
                               "far from the network (SYS): the node's compute NICs "
                               "are not on NUMA node %d, so its traffic crosses the "
                               "link between sockets",
                               g->numa);
        return;
    }
    if (str_eq(g->nic_path, "SYS") ||
        (g->nic_path[0] && !below_switch(g) && usually_near(n)))
        topology_find_once(
            t, SEVERITY_WARN, object,
            "its nearest compute NIC, %s, is far (%s), other GPUs share a "
            "PCIe switch with theirs: a NIC beside it is missing, or set "
            "in another slot",
            n->nics[g->nic].name, g->nic_path);
}

void inspect_gpus(struct topology *t, const struct node *n)
{
    for (int i = 0; i < n->n_gpus; i++) {
        const struct gpu *g = &n->gpus[i];
        inspect_nvlinks(t, n, g);
        inspect_mig(t, n, g);
        inspect_fabric(t, n, g);
        inspect_far(t, n, g);
    }
}
