#include "topology/ibnet_live.h"

#include <dlfcn.h>
#include <infiniband/ibnetdisc.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

struct door {
    void *net, *mad;
    ibnd_fabric_t *(*discover)(char *adapter, int port, ib_portid_t *from,
                               struct ibnd_config *config);
    void (*destroy)(ibnd_fabric_t *fabric);
    uint32_t (*field)(void *info, int offset, enum MAD_FIELDS field);
};

static void door_close(struct door *d)
{
    if (d->net)
        dlclose(d->net);
    if (d->mad)
        dlclose(d->mad);
}

static int find(void *library, const char *name, void *slot, struct err *err)
{
    void *found = dlsym(library, name);

    if (!found)
        return err_set(err, ERR_MISSING, "%s: install rdma-core's libraries anew",
                       dlerror());
    memcpy(slot, &found, sizeof(found));
    return 0;
}

static int door_open(struct door *d, struct err *err)
{
    *d = (struct door){ .net = dlopen("libibnetdisc.so.5", RTLD_NOW | RTLD_LOCAL),
                        .mad = dlopen("libibmad.so.5", RTLD_NOW | RTLD_LOCAL) };
    if (!d->net || !d->mad)
        err_set(err, ERR_MISSING, "%s (apt-get install libibnetdisc5 libibmad5)",
                dlerror());
    else if (find(d->net, "ibnd_discover_fabric", &d->discover, err) == 0 &&
             find(d->net, "ibnd_destroy_fabric", &d->destroy, err) == 0 &&
             find(d->mad, "mad_get_field", &d->field, err) == 0)
        return 0;
    door_close(d);
    return -1;
}

/* --- as text ---------------------------------------------------------------------------- */

/* Codes of PortInfo (InfiniBand architecture, vol. 1, 14.2.5.6): the extended speed counts
 * where there is one. */
static const char *speed_of(const struct door *d, ibnd_port_t *p)
{
    switch (d->field(p->info, 0, IB_PORT_LINK_SPEED_EXT_ACTIVE_F)) {
    case 1:
        return "FDR";
    case 2:
        return "EDR";
    case 4:
        return "HDR";
    case 8:
        return "NDR";
    default:
        break;
    }
    switch (d->field(p->info, 0, IB_PORT_LINK_SPEED_ACTIVE_F)) {
    case 1:
        return "SDR";
    case 2:
        return "DDR";
    case 4:
        return "QDR";
    default:
        return NULL;
    }
}

static int width_of(const struct door *d, ibnd_port_t *p)
{
    switch (d->field(p->info, 0, IB_PORT_LINK_WIDTH_ACTIVE_F)) {
    case 1:
        return 1;
    case 2:
        return 4;
    case 4:
        return 8;
    case 8:
        return 12;
    case 16:
        return 2;
    default:
        return 0;
    }
}

static char kind_of(const ibnd_node_t *n)
{
    if (n->type == IB_NODE_SWITCH)
        return 'S';
    return n->type == IB_NODE_ROUTER ? (char)'R' : (char)'H';
}

/* A description is what somebody typed. */
static void add_name(struct str *out, const ibnd_node_t *n)
{
    str_adds(out, "\"");
    for (const char *c = n->nodedesc; c < n->nodedesc + IB_SMP_DATA_SIZE && *c; c++)
        if (*c == '"' || (unsigned char)*c < ' ')
            str_adds(out, "_");
        else
            str_add(out, c, 1);
    str_adds(out, "\"");
}

static void add_port(const struct door *d, struct str *out, ibnd_port_t *p)
{
    const ibnd_port_t *far = p->remoteport;
    const char *speed = speed_of(d, p);
    int width = width_of(d, p);

    str_addf(out, "[%d]\t\"%c-%016llx\"[%d]\t\t# ", p->portnum, kind_of(far->node),
             (unsigned long long)far->node->guid, far->portnum);
    add_name(out, far->node);
    str_addf(out, " lid %u", far->base_lid);
    if (width && speed)
        str_addf(out, " %dx%s", width, speed);
    str_adds(out, "\n");
}

static void add_node(const struct door *d, struct str *out, const ibnd_node_t *n)
{
    static const char *const words[] = { "Switch", "Rt", "Ca" };
    const char kind = kind_of(n);

    str_addf(out, "%s\t%d \"%c-%016llx\"\t\t# ",
             words[kind == 'S'   ? 0
                   : kind == 'R' ? 1
                                 : 2],
             n->numports, kind, (unsigned long long)n->guid);
    add_name(out, n);
    str_adds(out, "\n");
    for (int i = 1; n->ports && i <= n->numports; i++)
        if (n->ports[i] && n->ports[i]->remoteport && n->ports[i]->remoteport->node)
            add_port(d, out, n->ports[i]);
    str_adds(out, "\n");
}

static void add_fabric(const struct door *d, struct str *out, const ibnd_fabric_t *f)
{
    for (const ibnd_node_t *n = f->nodes; n; n = n->next)
        add_node(d, out, n);
}

int ibnet_live_text(void *fabric, struct str *out, struct err *err)
{
    struct door d;

    if (door_open(&d, err) < 0)
        return -1;
    add_fabric(&d, out, fabric);
    door_close(&d);
    return 0;
}

int ibnet_live_read(struct str *out, struct err *err)
{
    struct ibnd_config config = { 0 };
    ibnd_fabric_t *f;
    struct door d;

    if (door_open(&d, err) < 0)
        return -1;
    f = d.discover(NULL, 0, NULL, &config);
    if (f) {
        add_fabric(&d, out, f);
        d.destroy(f);
    }
    door_close(&d);
    return f ? 0
             : err_set(
                   err, ERR_FAILED,
                   "libibnetdisc cannot walk the fabric: it needs a port that is up "
                   "and rights on /dev/infiniband/umad* (root, or its group)");
}
