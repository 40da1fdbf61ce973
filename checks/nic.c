#include "checks/nic.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/host.h"
#include "checks/measure.h"
#include "topology/pcie.h"
#include "topology/sysfs.h"
#include "topology/topology.h"

const struct node *nic_node(const struct topology *t)
{
    return t && t->n_nodes > 0 ? &t->nodes[0] : NULL;
}

struct measure *nic_add(struct measures *out, const char *name, const char *host,
                        const char *nic)
{
    char object[96];

    snprintf(object, sizeof(object), "%.60s %.31s", host, nic);
    return measures_add(out, name, object, host);
}

/* --- the port ---------------------------------------------------------------------- */

/* "2: Polling" and what it means. */
static const char *physical_meaning(const char *state)
{
    static const struct {
        const char *word, *means;
    } all[] = {
        { "Polling", "no signal: cable, transceiver, or the port at the far end" },
        { "Disabled", "switched off here or at the far end" },
        { "Sleep", "asleep" },
        { "Training", "the link does not settle: cable or transceiver" },
        { "LinkErrorRecovery", "the link keeps starting again: cable or transceiver" },
        { "LinkUp", "the cable is good; no subnet manager has set the port up" },
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (strstr(state, all[i].word))
            return all[i].means;
    return "";
}

static void measure_state(const struct sysfs *s, const struct host *h,
                          const struct nic *c, struct measures *out)
{
    struct measure *m = nic_add(out, "nic_state", h->name, c->name);
    const char *means;
    char text[48];

    if (c->up < 0) {
        measure_none(m, "port %d does not show its state", c->port);
        return;
    }
    measure_set(m, c->up == 0, NAN, "ports");
    if (c->up)
        return;
    sysfs_read(s, text, sizeof(text), "/sys/class/infiniband/%s/ports/%d/phys_state",
               c->name, c->port);
    means = physical_meaning(text);
    measure_say(m, "port %d is %s%s%s%s%s", c->port, *c->state ? c->state : "down",
                *text ? ", physically " : "", text, *means ? ": " : "", means);
}

/* Ports of one model are alike. */
static void set_kind(const struct sysfs *s, const struct nic *c, struct measure *m)
{
    char type[24], board[32];

    sysfs_read(s, type, sizeof(type), "/sys/class/infiniband/%s/hca_type", c->name);
    sysfs_read(s, board, sizeof(board), "/sys/class/infiniband/%s/board_id", c->name);
    snprintf(m->kind, sizeof(m->kind), "%s%s%s", type, *board ? " " : "", board);
}

static void measure_rate(const struct sysfs *s, const struct host *h,
                         const struct nic *c, struct measures *out)
{
    struct measure *m = nic_add(out, "nic_rate", h->name, c->name);
    char text[64];

    set_kind(s, c, m);
    if (!(c->gbits_per_s > 0)) {
        measure_none(m, "port %d does not show its rate", c->port);
    } else {
        measure_set(m, c->gbits_per_s, NAN, "Gb/s");
        sysfs_read(s, text, sizeof(text), "/sys/class/infiniband/%s/ports/%d/rate",
                   c->name, c->port);
        measure_say(m, "%s", text);
    }
}

static void measure_firmware(const struct sysfs *s, const struct host *h,
                             const struct nic *c, struct measures *out)
{
    struct measure *m = nic_add(out, "nic_firmware", h->name, c->name);
    char text[48];

    set_kind(s, c, m);
    m->value = 0;
    if (sysfs_read(s, text, sizeof(text), "/sys/class/infiniband/%s/fw_ver", c->name) <
        0)
        measure_none(m, "the driver does not show it");
    else
        measure_say(m, "%s", text);
}

/* --- Ethernet ------------------------------------------------------------------------ */

/* The port's path MTU follows its interface's; that of InfiniBand is in no file. */
static void measure_mtu(const struct sysfs *s, const struct host *h,
                        const struct nic *c, struct measures *out)
{
    struct measure *m = nic_add(out, "nic_mtu", h->name, c->name);
    char **net = sysfs_list(s, "/sys/class/infiniband/%s/device/net", c->name);
    long mtu = net[0]
                   ? sysfs_number(s, -1, "/sys/class/infiniband/%s/device/net/%s/mtu",
                                  c->name, net[0])
                   : -1;

    set_kind(s, c, m);
    if (mtu > 0) {
        measure_set(m, (double)mtu, NAN, "bytes");
        measure_say(m, "of %s", net[0]);
    } else {
        measure_none(m, "the port has no interface that shows it");
    }
    sysfs_list_free(net);
}

static void measure_gid(const struct host *h, const struct nic *c, struct measures *out)
{
    struct measure *m = nic_add(out, "nic_gid", h->name, c->name);
    const char *forced = getenv("NCCL_IB_GID_INDEX");
    char *end = NULL;
    long index = forced && *forced ? strtol(forced, &end, 10) : -1;

    measure_set(m, 0, NAN, "faults");
    if (c->gid == GID_NONE) {
        m->value = h->machines > 1;
        measure_say(m, "port %d has no RoCE v2 GID with an address that routes",
                    c->port);
    } else if (c->gid < 0) {
        measure_none(m, "port %d does not show its GIDs", c->port);
    } else if (end && *end == '\0' && index >= 0 && index != c->gid) {
        m->value = 1;
        measure_say(m, "NCCL_IB_GID_INDEX is %ld, the RoCE v2 GID that routes is %d",
                    index, c->gid);
    } else {
        measure_say(m, "index %d", c->gid);
    }
    m = nic_add(out, "nic_gid_same", h->name, c->name);
    m->value = 0;
    if (c->gid >= 0)
        measure_say(m, "index %d", c->gid);
    else
        measure_none(m, "the port has none to compare");
}

/* --- PCIe ------------------------------------------------------------------------------ */

/* Gb/s of a link's symbols without their encoding: 8b/10b to generation 2, 128b/130b to 5,
 * 242 of 256 bytes of a flit in 6 (PCI Express Base Specification 6.0, 4.2). */
static double link_gbits(int gen, int width)
{
    static const double lane[] = { 0,
                                   2.5 * 8 / 10,
                                   5.0 * 8 / 10,
                                   8.0 * 128 / 130,
                                   16.0 * 128 / 130,
                                   32.0 * 128 / 130,
                                   64.0 * 242 / 256 };

    return gen > 0 && gen < (int)ARRAY_LEN(lane) && width > 0 ? lane[gen] * width : NAN;
}

struct way {
    double now, most; /* Gb/s of the narrowest link, and what its both ends can */
    struct pcie_link link;
    const char *at;
};

/* A switch is two devices with no link between them: every second step is one. */
static struct way narrowest(const struct sysfs *s, const struct pci_path *p)
{
    struct way w = { .now = NAN, .most = NAN };

    for (int i = p->n - 1; i >= 0; i -= 2) {
        struct pcie_link l = sysfs_link_above(s, p, i);
        double now = link_gbits(l.gen, l.width);
        double most = link_gbits(l.max_gen > 0 ? l.max_gen : l.gen,
                                 l.max_width > 0 ? l.max_width : l.width);

        if (isnan(now) || now >= w.now)
            continue;
        w = (struct way){ now, most, l, p->at[i] };
    }
    return w;
}

static void measure_pcie(const struct sysfs *s, const struct host *h,
                         const struct nic *c, struct measures *out)
{
    struct measure *m = nic_add(out, "nic_pcie", h->name, c->name);
    struct pci_path p = { .n = 0 };
    char link[96];
    struct way w;
    double need;

    snprintf(link, sizeof(link), "/sys/bus/pci/devices/%s", c->busid);
    if (*c->busid)
        pci_path_of(s, link, &p);
    w = narrowest(s, &p);
    if (isnan(w.now)) {
        measure_none(m, "its PCIe links are not shown (a virtual machine often hides "
                        "them)");
        return;
    }
    need = c->gbits_per_s > 0 && c->up ? fmin(c->gbits_per_s, w.most) : w.most;
    measure_set(m, w.now, need, "Gb/s");
    measure_say(m, "Gen%d x%d at %s, both ends can Gen%d x%d", w.link.gen, w.link.width,
                w.at, w.link.max_gen, w.link.max_width);
}

/* --- all --------------------------------------------------------------------------------- */

static void measure_one(const struct sysfs *s, const struct host *h,
                        const struct nic *c, struct measures *out)
{
    measure_state(s, h, c, out);
    if (c->up != 0) /* the rate of a port that is down says nothing */
        measure_rate(s, h, c, out);
    measure_pcie(s, h, c, out);
    if (c->layer == LINK_ETHERNET) {
        measure_mtu(s, h, c, out);
        measure_gid(h, c, out);
    }
    measure_firmware(s, h, c, out);
}

void nic_measure(const struct host *h, struct measures *out)
{
    const struct node *n = nic_node(h->topology);
    struct sysfs s = { h->root };
    struct measure *none;
    int seen = 0;

    for (int i = 0; n && i < n->n_nics; i++) {
        if (n->nics[i].kind != NIC_COMPUTE)
            continue;
        measure_one(&s, h, &n->nics[i], out);
        seen++;
    }
    if (seen)
        return;
    none = nic_add(out, "nic_state", h->name, "no device");
    measure_set(none, 0, NAN, "ports");
    if (n)
        measure_say(none, "no RDMA device that would train");
    else
        measure_none(none, "the machine's devices could not be listed");
}
