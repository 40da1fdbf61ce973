/* host_acs.c - does Access Control turn traffic between PCIe devices away from its
 * shortest way?
 *
 * A switch forwards between the devices below it, until its downstream ports have P2P
 * Request or Completion Redirect set: then all of it goes up to the CPU's root complex and
 * back.  Source: PCI Express Base Specification 5.0, 7.7.8 (ACS Extended Capability); names
 * as in Linux' pci_regs.h. */
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/host.h"
#include "checks/measure.h"
#include "topology/sysfs.h"
#include "topology/topology.h"

enum {
    CONFIG = 4096,
    EXTENDED = 0x100, /* where extended capabilities begin */
    ACS = 0x000d,
    ACS_CONTROL = 6,
    REQUEST_REDIRECT = 0x04,
    COMPLETION_REDIRECT = 0x08,
    NAMED = 4,
    PORTS = 64
};

static uint32_t word_at(const unsigned char *c, size_t at)
{
    return (uint32_t)c[at] | (uint32_t)c[at + 1] << 8 | (uint32_t)c[at + 2] << 16 |
           (uint32_t)c[at + 3] << 24;
}

int host_acs_redirects(const unsigned char *config, size_t n)
{
    size_t at = EXTENDED;

    if (n < EXTENDED + 4)
        return -1; /* others than root see the first 64 bytes */
    for (int i = 0; i < CONFIG / 8 && at >= EXTENDED && at + 8 <= n; i++) {
        uint32_t head = word_at(config, at);

        if ((head & 0xffff) == ACS)
            return (config[at + ACS_CONTROL] &
                    (REQUEST_REDIRECT | COMPLETION_REDIRECT)) != 0;
        at = head >> 20 & 0xffc;
    }
    return 0; /* it has no such capability */
}

static int ask_port(const struct sysfs *s, const char *busid)
{
    char *path = xasprintf("%s/sys/bus/pci/devices/%s/config", s->root, busid);
    unsigned char config[CONFIG];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, config, sizeof(config)) : 0;

    if (fd >= 0)
        close(fd);
    free(path);
    return host_acs_redirects(config, n > 0 ? (size_t)n : 0);
}

/* Ports that were looked at; several GPUs may hang below one. */
struct ports {
    char at[PORTS][20];
    int n, bad, unread;
    struct str who;
};

static int is_new(struct ports *p, const char *busid)
{
    for (int i = 0; i < p->n; i++)
        if (str_eq(p->at[i], busid))
            return 0;
    if (p->n == PORTS)
        return 0;
    snprintf(p->at[p->n++], sizeof(p->at[0]), "%.19s", busid);
    return 1;
}

/* The root port [0] is left out: between root ports all goes over the CPU anyhow. */
static void look_above(const struct sysfs *s, const struct gpu *g, struct ports *p)
{
    struct pci_path path;
    char link[96];

    snprintf(link, sizeof(link), "/sys/bus/pci/devices/%s", g->busid);
    if (!g->busid[0] || pci_path_of(s, link, &path) < 0)
        return;
    for (int i = 1; i < path.n - 1; i++) {
        int is = is_new(p, path.at[i]) ? ask_port(s, path.at[i]) : 0;

        p->unread += is < 0;
        if (is <= 0)
            continue;
        if (p->bad++ < NAMED)
            str_addf(&p->who, "%s%s above GPU %d", p->bad > 1 ? ", " : "", path.at[i],
                     g->index);
        else if (p->bad == NAMED + 1)
            str_adds(&p->who, ", ...");
    }
}

void host_measure_acs(const struct host *h, struct measures *out)
{
    struct measure *m = measures_add(out, "acs", h->name, h->name);
    const struct node *n = h->topology ? &h->topology->nodes[0] : NULL;
    struct ports p = { .n = 0 };
    struct sysfs s = { h->root };

    for (int i = 0; n && i < n->n_gpus; i++)
        look_above(&s, &n->gpus[i], &p);
    measure_set(m, p.bad, NAN, "ports");
    if (!n)
        measure_none(m, "the machine's devices could not be listed");
    else if (p.bad)
        measure_say(m,
                    "traffic between devices below one switch is sent over the CPU: "
                    "redirected at %s",
                    p.who.text);
    else if (p.unread)
        measure_none(m,
                     "%d of %d switch ports above GPUs show their settings to root "
                     "only: `sudo lspci -vvv` prints them as ACSCtl",
                     p.unread, p.n);
    else if (!p.n)
        measure_say(m, "no PCIe switch is above a GPU");
    else
        measure_say(m, "none of %d switch ports above GPUs redirects", p.n);
    str_release(&p.who);
}
