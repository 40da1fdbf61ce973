#include "launcher/slurm_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/node.h"
#include "launcher/slurm_cmd.h"
#include "launcher/slurm_each.h"
#include "launcher/slurm_nodes.h"
#include "launcher/slurm_step.h"
#include "topology/topology.h"

#define MARK "muster-look "

enum { PIECE = 512 };

/* ---- on a node ---- */

static void set_name(struct node *n)
{
    const char *given = getenv("SLURMD_NODENAME");

    if (given && *given)
        snprintf(n->name, sizeof(n->name), "%.63s", given);
}

int slurm_probe_node(struct err *err)
{
    struct topology *t;
    struct js *o;
    char *line;

    if (topology_from_cluster(NULL, &t, err) < 0)
        return -1;
    set_name(&t->nodes[0]);
    o = topology_json(t);
    line = js_line(o);
    for (const char *at = line; *at; at += strnlen(at, PIECE))
        printf(MARK "%s %.*s\n", t->nodes[0].name, PIECE, at);
    fflush(stdout);
    free(line);
    js_free(o);
    topology_free(t);
    return 0;
}

/* ---- the step ---- */

static void make_argv(const struct slurm_place *p, const struct topology *t,
                      const char *self, struct strlist *argv)
{
    static const char *const options[] = {
        "--ntasks-per-node=1",
        "--distribution=block",
        "--overlap",
        "--mpi=none",
        "--cpu-bind=none",
        "--input=none",
        "--wait=0",
        "--kill-on-bad-exit=0",
        "--no-kill",
        NULL,
    };

    slurm_each_node(p, t, options, self, "look", argv);
    slurm_each_end(argv);
}

/* ---- what came of it ---- */

int slurm_probe_text(const char *said, const char *node, struct str *out)
{
    size_t mark = strlen(MARK), n = strlen(node);

    for (const char *p = said; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        const char *at = p + mark;
        if (strncmp(p, MARK, mark) != 0 || strncmp(at, node, n) != 0 || at[n] != ' ')
            continue;
        at += n + 1;
        str_add(out, at, strcspn(at, "\n"));
    }
    return out->len > 0;
}

/* Take a node over from the topology that it is in. */
static void move_node(struct topology *t, struct node *n)
{
    *topology_add_node(t) = *n;
    n->n_gpus = n->n_nics = n->n_numas = n->n_pcis = 0;
    n->gpus = NULL;
    n->nics = NULL;
    n->numas = NULL;
    n->pcis = NULL;
}

/* Switches of Slurm; nodes keep their places among them. */
static void move_fabric(struct topology *t, struct topology *from)
{
    for (int i = 0; i < from->n_switches; i++)
        *topology_add_switch(t) = from->switches[i];
    for (int i = 0; i < from->n_links; i++)
        *topology_add_link(t) = from->links[i];
    memcpy(t->block_sizes, from->block_sizes, sizeof(t->block_sizes));
    t->n_block_sizes = from->n_block_sizes;
}

/* What Slurm alone knows goes along; where both know and differ, that is said. */
static void add_slurm(struct topology *t, struct node *seen,
                      const struct node *by_slurm)
{
    seen->slots = by_slurm->slots;
    seen->leaf = by_slurm->leaf;
    if (by_slurm->n_gpus != seen->n_gpus)
        topology_find(
            t, SEVERITY_WARN, seen->name,
            "Slurm gives the job %d GPUs here, %d are seen from inside: check "
            "gres.conf and the driver",
            by_slurm->n_gpus, seen->n_gpus);
}

/* The node as it is: from inside, else as Slurm has it.  1: it answered. */
static int take_node(struct topology *t, struct node *n, const char *said,
                     const char *words)
{
    struct str text = STR_INIT;
    struct topology *one = NULL;
    struct err e = ERR_INIT;
    int answered = slurm_probe_text(said, n->name, &text);

    if (answered && node_topology(text.text, n->name, &one, &e) == 0) {
        node_append(t, one);
        add_slurm(t, &t->nodes[t->n_nodes - 1], n);
    } else {
        move_node(t, n);
        topology_find(t, SEVERITY_FAIL, t->nodes[t->n_nodes - 1].name,
                      "it does not answer, so it is shown as Slurm describes it: %s",
                      e.code   ? err_text(&e)
                      : *words ? words
                               : "srun said nothing");
        answered = 0;
    }
    err_release(&e);
    str_release(&text);
    return answered;
}

int slurm_probe_join(struct topology **t, const char *said, const char *words,
                     struct err *err)
{
    struct topology *seen = topology_new("slurm job, from inside", 0);
    int answered = 0;

    for (int i = 0; i < (*t)->n_findings; i++)
        topology_find(seen, (*t)->findings[i].severity, (*t)->findings[i].object, "%s",
                      (*t)->findings[i].text);
    for (int i = 0; i < (*t)->n_nodes; i++)
        answered += take_node(seen, &(*t)->nodes[i], said, words);
    if (answered == 0) {
        topology_free(seen);
        return err_set(err, ERR_FAILED,
                       "no node of the job says what it is: %s (--source sysfs shows "
                       "this host alone)",
                       *words ? words : "srun said nothing");
    }
    move_fabric(seen, *t);
    topology_free(*t);
    *t = seen;
    return 0;
}

static int run_step(const struct slurm_place *p, struct topology **t, struct err *err)
{
    struct str said = STR_INIT, words = STR_INIT;
    struct strlist argv = { 0 };
    struct err late = ERR_INIT;
    char *self = slurm_self(err);
    int status = 0, rc = -1;

    if (!self)
        return -1;
    make_argv(p, *t, self, &argv);
    rc =
        slurm_cmd_run(argv.item, "srun", SLURM_PROBE_MS, &said, &words, &status, &late);
    if (rc == 0 || (late.code == ERR_TIMEOUT && said.len))
        rc = slurm_probe_join(t, said.text ? said.text : "",
                              words.text ? words.text : "", err);
    else
        rc = err_set(err, late.code, "%s", err_text(&late));
    err_release(&late);
    strlist_release(&argv);
    str_release(&said);
    str_release(&words);
    free(self);
    return rc;
}

int topology_from_slurm_job(struct topology **out, struct err *err)
{
    struct slurm_place place = { 0 };
    struct topology *t;
    int rc;

    if (slurm_place_read(&place, err) < 0)
        return -1;
    t = slurm_topology(&place);
    rc = run_step(&place, &t, err);
    slurm_place_release(&place);
    if (rc < 0) {
        topology_free(t);
        return -1;
    }
    *out = t;
    return 0;
}
