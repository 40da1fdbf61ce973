#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "checks/deadline.h"
#include "checks/measure.h"
#include "checks/nic.h"
#include "checks/probe.h"
#include "topology/source.h"
#include "topology/topology.h"
#include "trainer/wireup.h"

enum { LOOK_MS = 10000 };

struct probe_nic {
    struct topology *topology;
    struct nic_counters *before;
    double begun;
};

void probe_nic_before(struct probe *p)
{
    struct probe_nic *n;

    if (p->self->local_rank != 0)
        return;
    n = xcalloc(1, sizeof(*n));
    deadline_start(LOOK_MS, "the first look at the NICs of %s", p->self->host);
    topology_from_sysfs("", &n->topology, NULL);
    n->before = nic_counters_read("", n->topology);
    n->begun = clock_s();
    deadline_end();
    p->nic = n;
}

void probe_nic_after(struct probe *p)
{
    struct probe_nic *n = p->nic;
    struct nic_counters *after;
    struct measures l = { 0 };

    if (!n)
        return;
    deadline_start(LOOK_MS, "the last look at the NICs of %s", p->self->host);
    after = nic_counters_read("", n->topology);
    nic_counters_measure(n->before, after, clock_s() - n->begun, p->self->host, &l);
    deadline_end();
    probe_send(&l);
    nic_counters_free(after);
    nic_counters_free(n->before);
    topology_free(n->topology);
    free(n);
    p->nic = NULL;
}
