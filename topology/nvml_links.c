/* NVLink and NVSwitch as the driver shows them. */
#include "topology/nvml_links.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "topology/cpulist.h"
#include "topology/nvml.h"
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

void nvml_add_links(const struct nvml *n, struct nvml_device *d, struct gpu *g)
{
    struct cpulist down = { { 0 } };
    char peer[20];

    g->n_nvlinks = 0;
    for (unsigned i = 0; n->link_state && i < NVML_MAX_LINKS; i++) {
        struct nvlink *l;
        double mbytes;
        int active = 0;

        if (n->link_state(d, i, &active) != NVML_OK)
            continue;
        if (!active) {
            cpulist_add(&down, (int)i);
            continue;
        }
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
    cpulist_format(&down, g->links_down, sizeof(g->links_down));
}

/* --- the fabric manager ------------------------------------------------------------- */

/* Either form of the call; 0: neither answers. */
static int ask_fabric(const struct nvml *n, struct nvml_device *d,
                      struct nvml_fabric_v2 *out)
{
    struct nvml_fabric old = { .state = 0 };

    *out = (struct nvml_fabric_v2){ .version = sizeof(*out) | 2U << 24 };
    if (n->fabric_v2 && n->fabric_v2(d, out) == NVML_OK)
        return 1;
    if (!n->fabric || n->fabric(d, &old) != NVML_OK)
        return 0;
    *out = (struct nvml_fabric_v2){ .status = old.status,
                                    .clique_id = old.clique_id,
                                    .state = old.state };
    memcpy(out->cluster_uuid, old.cluster_uuid, sizeof(out->cluster_uuid));
    return 1;
}

static const char *state_word(const struct nvml_fabric_v2 *f)
{
    switch (f->state) {
    case NVML_FABRIC_NOT_SUPPORTED:
        return "none";
    case NVML_FABRIC_NOT_STARTED:
        return "not started";
    case NVML_FABRIC_IN_PROGRESS:
        return "in progress";
    default:
        break;
    }
    if (f->status != NVML_OK)
        return "failed";
    if ((f->health_mask & NVML_FABRIC_HEALTH_BITS) == NVML_FABRIC_DEGRADED)
        return "degraded";
    return "completed";
}

/* "ClusterUUID.CliqueId"; an all-zero UUID is a node of its own, in no domain that others
 * share. */
static void set_domain(struct node *n, const struct nvml_fabric_v2 *f)
{
    struct str s = STR_INIT;
    int any = 0;

    for (int i = 0; i < 16; i++) {
        any |= f->cluster_uuid[i];
        str_addf(&s, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                 f->cluster_uuid[i]);
    }
    if (any)
        snprintf(n->nvlink_domain, sizeof(n->nvlink_domain), "%.40s.%u", s.text,
                 f->clique_id);
    str_release(&s);
}

void nvml_add_fabric(const struct nvml *n, struct nvml_device *d, struct node *node,
                     struct gpu *g)
{
    struct nvml_fabric_v2 f;

    if (!ask_fabric(n, d, &f))
        return;
    snprintf(g->fabric, sizeof(g->fabric), "%s", state_word(&f));
    if (f.state == NVML_FABRIC_COMPLETED && f.status == NVML_OK)
        set_domain(node, &f);
}
