#include "launcher/fingerprint.h"

#include <stdint.h>
#include <stdio.h>

#include "base/str.h"
#include "topology/topology.h"

static void add_node(struct str *s, const struct node *n)
{
    str_addf(s, "node %s|%s|%d %d %d|%lld\n", n->name, n->cpu_model, n->sockets,
             n->cores, n->threads, (long long)n->memory_bytes);
    for (int i = 0; i < n->n_gpus; i++)
        str_addf(s, "gpu %s|%s|%lld|%d\n", n->gpus[i].busid, n->gpus[i].name,
                 (long long)n->gpus[i].memory_bytes, n->gpus[i].mig);
    for (int i = 0; i < n->n_nics; i++)
        str_addf(s, "nic %s|%d|%g\n", n->nics[i].name, (int)n->nics[i].kind,
                 n->nics[i].gbits_per_s);
}

void topology_fingerprint(const struct topology *t, char out[17])
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    struct str s = STR_INIT;

    str_addf(&s, "simulated %d\n", t->simulated);
    for (int i = 0; i < t->n_nodes; i++)
        add_node(&s, &t->nodes[i]);
    for (int i = 0; i < t->n_switches; i++)
        str_addf(&s, "switch %s|%d\n", t->switches[i].name, t->switches[i].level);
    for (size_t i = 0; i < s.len; i++)
        hash = (hash ^ (unsigned char)s.text[i]) * 1099511628211u;
    snprintf(out, 17, "%016llx", (unsigned long long)hash);
    str_release(&s);
}
