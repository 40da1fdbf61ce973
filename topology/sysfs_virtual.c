/* NICs that stand for others, and the address that RoCE goes by. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "topology/sysfs.h"
#include "topology/topology.h"

/* --- RoCE ---------------------------------------------------------------------------- */

enum { GIDS_MAX = 256 };

/* IPv4 in IPv6 is what routes best, then a global address; fe80:: stays on the link. */
static int gid_rank(const char *gid)
{
    if (strncmp(gid, "0000:0000:0000:0000:0000:ffff:", 30) == 0)
        return 2;
    if (strncmp(gid, "fe8", 3) == 0 || strspn(gid, "0:") == strlen(gid))
        return 0;
    return 1;
}

void sysfs_set_gid(const struct sysfs *s, struct nic *c)
{
    int best = 0;
    char type[32], gid[64];

    if (c->layer != LINK_ETHERNET ||
        !sysfs_exists(s, "/sys/class/infiniband/%s/ports/1/gid_attrs/types", c->name))
        return;
    c->gid = GID_NONE;
    for (int i = 0; i < GIDS_MAX; i++) {
        int rank;
        if (sysfs_read(s, type, sizeof(type),
                       "/sys/class/infiniband/%s/ports/1/gid_attrs/types/%d", c->name,
                       i) < 0 ||
            !str_eq(type, "RoCE v2") ||
            sysfs_read(s, gid, sizeof(gid), "/sys/class/infiniband/%s/ports/1/gids/%d",
                       c->name, i) < 0)
            continue;
        rank = gid_rank(gid);
        if (rank > best) {
            best = rank;
            c->gid = i;
        }
    }
}

/* --- who stands for whom ----------------------------------------------------------------- */

/* The first name in a folder of the physical function; 0: none. */
static int physical(const struct sysfs *s, const char *class_link, const char *folder,
                    char out[32])
{
    char **names = sysfs_list(s, "%s/device/physfn/%s", class_link, folder);
    int there = names[0] != NULL;

    snprintf(out, 32, "%.31s", there ? names[0] : "");
    sysfs_list_free(names);
    return there;
}

/* In a container only the function may be seen: then it is what there is. */
static int is_function(const struct sysfs *s, struct nic *c, const char *class_link)
{
    int rdma = strncmp(class_link, "/sys/class/infiniband/", 22) == 0;
    char of[32];

    if (!physical(s, class_link, rdma ? "infiniband" : "net", of) ||
        !sysfs_exists(s, "/sys/class/%s/%s", rdma ? "infiniband" : "net", of))
        return 0;
    snprintf(c->why, sizeof(c->why), "SR-IOV virtual function of %s", of);
    return 1;
}

/* "bonding_slave" and the master's name, as the kernel links it. */
static int is_bonded(const struct sysfs *s, struct nic *c, const char *class_link)
{
    char of[32], **names = sysfs_list(s, "%s/master/bonding", class_link);
    int bonded = names[0] != NULL;

    sysfs_list_free(names);
    if (!bonded)
        return 0;
    if (sysfs_value(s, "INTERFACE", of, sizeof(of), "%s/master/uevent", class_link) < 0)
        snprintf(of, sizeof(of), "a bond");
    snprintf(c->why, sizeof(c->why), "part of %s", of);
    return 1;
}

/* /proc/net/vlan/NAME has a line "Device: eth0"; in a container it may be hidden. */
static int is_vlan(const struct sysfs *s, struct nic *c, const char *class_link)
{
    const char *name = strrchr(class_link, '/') + 1;
    char type[32], of[32];

    if (sysfs_exists(s, "%s/device", class_link) ||
        sysfs_value(s, "DEVTYPE", type, sizeof(type), "%s/uevent", class_link) < 0 ||
        !str_eq(type, "vlan"))
        return 0;
    if (sysfs_value(s, "Device", of, sizeof(of), "/proc/net/vlan/%s", name) < 0)
        snprintf(of, sizeof(of), "another interface");
    snprintf(c->why, sizeof(c->why), "VLAN of %s", of);
    return 1;
}

void sysfs_set_virtual(const struct sysfs *s, struct nic *c, const char *class_link)
{
    if (is_function(s, c, class_link) || is_bonded(s, c, class_link))
        return;
    is_vlan(s, c, class_link);
}
