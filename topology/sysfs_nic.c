/* The network side of the sysfs source: RDMA devices, Ethernet interfaces, which
 * of them carry training, and the nearest one of each GPU. */
#include <arpa/inet.h>
#include <ctype.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "topology/sysfs.h"
#include "topology/topology.h"

/* "e41d:2d03:0012:3456" -> "0xe41d2d0300123456"; all zero is none. */
static void set_guid(char out[20], const char *text)
{
    char digits[17];
    size_t n = 0;

    for (; *text && n < 16; text++)
        if (*text != ':')
            digits[n++] = *text;
    digits[n] = '\0';
    if (n == 16 && strspn(digits, "0") < 16)
        snprintf(out, 20, "0x%s", digits);
}

static void set_bus(const struct sysfs *s, struct nic *c, const char *class_link)
{
    struct pci_path path;
    char link[160];

    snprintf(link, sizeof(link), "%s/device", class_link);
    if (pci_path_of(s, link, &path) < 0)
        return;
    snprintf(c->busid, sizeof(c->busid), "%s", path.at[path.n - 1]);
    c->numa = (int)sysfs_number(s, -1, "/sys/bus/pci/devices/%s/numa_node", c->busid);
}

static enum link_layer layer_of(const char *text)
{
    if (str_eq(text, "InfiniBand"))
        return LINK_INFINIBAND;
    return str_eq(text, "Ethernet") ? LINK_ETHERNET : LINK_UNKNOWN;
}

/* The address of an interface of the live machine: IPv4, else global IPv6. */
static void set_address(const struct sysfs *s, struct nic *c, const char *interface)
{
    struct ifaddrs *all = NULL;

    if (s->root[0] || getifaddrs(&all) < 0)
        return;
    for (struct ifaddrs *a = all; a; a = a->ifa_next) {
        if (!a->ifa_addr || !str_eq(a->ifa_name, interface))
            continue;
        if (a->ifa_addr->sa_family == AF_INET) {
            const void *at = &((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr;
            inet_ntop(AF_INET, at, c->address, sizeof(c->address));
            break;
        }
        if (a->ifa_addr->sa_family == AF_INET6 && !c->address[0]) {
            const struct in6_addr *at =
                &((struct sockaddr_in6 *)(void *)a->ifa_addr)->sin6_addr;
            if (!IN6_IS_ADDR_LINKLOCAL(at))
                inet_ntop(AF_INET6, at, c->address, sizeof(c->address));
        }
    }
    freeifaddrs(all);
}

/* "4: ACTIVE", "1: DOWN" */
static void set_state(struct nic *c, const char *text)
{
    const char *word = text + strcspn(text, "AIDabcdefghijklmnopqrstuvwxyz");

    c->up = strstr(text, "ACTIVE") != NULL && !strstr(text, "DEFER");
    snprintf(c->state, sizeof(c->state), "%.11s", word);
    for (char *p = c->state; *p; p++)
        *p = (char)tolower((unsigned char)*p);
}

static void add_rdma(const struct sysfs *s, struct node *n, const char *name)
{
    char text[96], link[128];
    struct nic *c = topology_add_nic(n);
    char **net;

    snprintf(c->name, sizeof(c->name), "%.31s", name);
    snprintf(link, sizeof(link), "/sys/class/infiniband/%.31s", name);
    set_bus(s, c, link);
    if (sysfs_read(s, text, sizeof(text), "%s/node_guid", link) == 0)
        set_guid(c->guid, text);
    if (sysfs_read(s, text, sizeof(text), "%s/sys_image_guid", link) == 0)
        set_guid(c->image_guid, text);
    c->port = sysfs_exists(s, "%s/ports/1", link) ? 1 : -1;
    if (sysfs_read(s, text, sizeof(text), "%s/ports/1/state", link) == 0)
        set_state(c, text);
    if (sysfs_read(s, text, sizeof(text), "%s/ports/1/rate", link) == 0)
        c->gbits_per_s = strtod(text, NULL); /* "400 Gb/sec (4X NDR)" */
    if (sysfs_read(s, text, sizeof(text), "%s/ports/1/link_layer", link) == 0)
        c->layer = layer_of(text);
    sysfs_set_gid(s, c);
    sysfs_set_virtual(s, c, link);
    net = sysfs_list(s, "%s/device/net", link);
    if (net[0])
        set_address(s, c, net[0]);
    sysfs_list_free(net);
}

static int listed(const struct node *n, const char *busid)
{
    for (int i = 0; i < n->n_nics; i++)
        if (n->nics[i].busid[0] && str_eq(n->nics[i].busid, busid))
            return 1;
    return 0;
}

/* lo, docker0, veth, bridges, tunnels hang off no device and stay out; a bond and a VLAN
 * do too, but may carry the host's address. */
static void add_ethernet(const struct sysfs *s, struct node *n, const char *name)
{
    char link[128], state[32];
    struct nic c = {
        .up = -1, .numa = -1, .rail = -1, .plane = -1, .gid = -1, .leaf = -1, .port = -1
    };
    long mbits;

    snprintf(link, sizeof(link), "/sys/class/net/%.31s", name);
    sysfs_set_virtual(s, &c, link);
    if (!sysfs_exists(s, "%s/device", link) && !sysfs_exists(s, "%s/bonding", link) &&
        !c.why[0])
        return;
    set_bus(s, &c, link);
    if (c.busid[0] && listed(n, c.busid))
        return; /* the Ethernet or IPoIB face of an RDMA device */
    snprintf(c.name, sizeof(c.name), "%.31s", name);
    c.layer =
        sysfs_number(s, 1, "%s/type", link) == 32 ? LINK_INFINIBAND : LINK_ETHERNET;
    mbits = sysfs_number(s, -1, "%s/speed", link);
    c.gbits_per_s = mbits > 0 ? (double)mbits / 1000 : -1;
    if (sysfs_read(s, state, sizeof(state), "%s/operstate", link) == 0)
        c.up = str_eq(state, "up") ? 1 : str_eq(state, "down") ? 0 : -1;
    set_address(s, &c, name);
    *topology_add_nic(n) = c;
}

void sysfs_add_nics(const struct sysfs *s, struct node *n)
{
    char **rdma = sysfs_list(s, "/sys/class/infiniband");
    char **net = sysfs_list(s, "/sys/class/net");

    for (char **p = rdma; *p; p++)
        add_rdma(s, n, *p);
    for (char **p = net; *p; p++)
        add_ethernet(s, n, *p);
    sysfs_list_free(rdma);
    sysfs_list_free(net);
}

static void device_path(const struct sysfs *s, const char *busid, struct pci_path *p)
{
    char link[64];

    *p = (struct pci_path){ .n = 0 };
    snprintf(link, sizeof(link), "/sys/bus/pci/devices/%s", busid);
    if (busid[0])
        pci_path_of(s, link, p);
}

void sysfs_join(const struct sysfs *s, struct node *n)
{
    struct pci_path *gpu = xcalloc((size_t)n->n_gpus + 1, sizeof(*gpu));
    struct pci_path *nic = xcalloc((size_t)n->n_nics + 1, sizeof(*nic));

    for (int i = 0; i < n->n_gpus; i++)
        device_path(s, n->gpus[i].busid, &gpu[i]);
    for (int i = 0; i < n->n_nics; i++)
        device_path(s, n->nics[i].busid, &nic[i]);
    nearest_join(n, gpu, nic);
    free(gpu);
    free(nic);
}
