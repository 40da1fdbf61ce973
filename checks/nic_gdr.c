/* nic_gdr.c - may NICs read and write the memory of GPUs, without a copy through the
 * host's?
 *
 * Two ways: a module that lends GPU memory to the RDMA core (nv_peer_mem, nvidia_peermem;
 * what is lent stands in /sys/kernel/mm/memory_peers), or DMA-BUF, in kernels from 5.12 on
 * with NVIDIA's open module.  Sources: NCCL's ib transport, NVIDIA's GPUDirect RDMA guide
 * (case D12). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/host.h"
#include "checks/measure.h"
#include "checks/nic.h"
#include "topology/sysfs.h"
#include "topology/topology.h"

enum { DMABUF_MAJOR = 5, DMABUF_MINOR = 12 };

static int is_lent(const struct sysfs *s)
{
    return sysfs_exists(s, "/sys/kernel/mm/memory_peers/nv_mem/version") ||
           sysfs_exists(s, "/sys/kernel/mm/memory_peers/nv_mem_nc/version") ||
           sysfs_exists(s, "/sys/module/nv_peer_mem/version");
}

static int has_dmabuf(const struct sysfs *s)
{
    char release[64], driver[256], *end;
    long major, minor;

    if (sysfs_read(s, release, sizeof(release), "/proc/sys/kernel/osrelease") < 0 ||
        sysfs_value(s, "NVRM version", driver, sizeof(driver),
                    "/proc/driver/nvidia/version") < 0)
        return 0;
    major = strtol(release, &end, 10);
    minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    return (major > DMABUF_MAJOR || (major == DMABUF_MAJOR && minor >= DMABUF_MINOR)) &&
           strstr(driver, "Open Kernel Module") != NULL;
}

/* NCCL's own switch: LOC or 0 leaves it off between any two devices. */
static int is_switched_off(void)
{
    const char *level = getenv("NCCL_NET_GDR_LEVEL");

    return level && (str_eq(level, "LOC") || str_eq(level, "0"));
}

static int has_pairs(const struct node *n)
{
    int nics = 0;

    for (int i = 0; n && i < n->n_nics; i++)
        nics += n->nics[i].kind == NIC_COMPUTE;
    return n && n->n_gpus > 0 && nics > 0;
}

void nic_measure_gdr(const struct host *h, struct measures *out)
{
    struct measure *m = measures_add(out, "nic_gdr", h->name, h->name);
    struct sysfs s = { h->root };

    measure_set(m, 0, NAN, "faults");
    if (!h->cuda || h->machines < 2 || !has_pairs(nic_node(h->topology))) {
        measure_say(m, "not used: %s",
                    !h->cuda          ? "the ranks have no GPU"
                    : h->machines < 2 ? "one machine"
                                      : "no GPU and RDMA device together");
    } else if (is_switched_off()) {
        m->value = 1;
        measure_say(m, "NCCL_NET_GDR_LEVEL=%s switches it off",
                    getenv("NCCL_NET_GDR_LEVEL"));
    } else if (is_lent(&s)) {
        measure_say(m, "on, through peer memory");
    } else if (has_dmabuf(&s)) {
        measure_say(m, "on, through DMA-BUF");
    } else {
        m->value = 1;
        measure_say(m,
                    "%s, and there is no DMA-BUF (kernel 5.12 with NVIDIA's open "
                    "module)",
                    sysfs_exists(&s, "/sys/module/nvidia_peermem")
                        ? "nvidia_peermem is loaded, but did not register with the "
                          "RDMA core"
                        : "no peer memory module is loaded");
    }
}
