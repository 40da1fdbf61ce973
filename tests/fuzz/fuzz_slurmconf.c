/* topology.conf, topology.yaml and cliques: any bytes are a topology that holds and
 * that loads back as it was written, or an error.  The first byte picks the reader. */
#include "fuzz.h"

#include "base/err.h"
#include "topology/emit.h"
#include "topology/fabric.h"
#include "topology/source.h"
#include "topology/topology.h"

static void write_and_load(const struct topology *t,
                           int (*write)(const struct topology *, FILE *, struct err *))
{
    struct topology *back = NULL;
    struct err err = ERR_INIT;
    char *text = NULL;
    size_t size = 0;
    FILE *fp = open_memstream(&text, &size);

    if (!fp || write(t, fp, &err) < 0 || fclose(fp) != 0)
        abort();
    if (topology_from_slurmconf_text(text, size, "fuzz", &back, &err) < 0)
        abort();
    if (back->n_switches != t->n_switches || back->n_links != t->n_links ||
        back->n_nodes != t->n_nodes)
        abort();
    for (int i = 0; i < t->n_switches; i++)
        if (strcmp(t->switches[i].name, back->switches[i].name) != 0 ||
            t->switches[i].level != back->switches[i].level)
            abort();
    for (int i = 0; i < t->n_nodes; i++)
        if (strcmp(t->nodes[i].name, back->nodes[i].name) != 0 ||
            t->nodes[i].leaf != back->nodes[i].leaf)
            abort();
    topology_free(back);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;
    const char *text = (const char *)data + 1;
    int cliques = size > 0 && data[0] == 'c', rc;

    if (size == 0)
        return 0;
    rc = cliques ? topology_from_cliques_text(text, size - 1, "fuzz", &t, &err)
                 : topology_from_slurmconf_text(text, size - 1, "fuzz", &t, &err);
    if (rc < 0) {
        if (t || err.code == ERR_NONE)
            abort();
    } else {
        if (topology_validate(t, &err) < 0)
            abort();
        fabric_inspect(t);
        if (!cliques && t->n_nodes <= 4096) {
            write_and_load(t, topology_emit_slurmconf);
            write_and_load(t, topology_emit_slurmyaml);
        }
        topology_free(t);
    }
    err_release(&err);
    return 0;
}
