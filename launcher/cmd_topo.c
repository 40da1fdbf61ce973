/* muster topo - discover and show. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/js.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/cmd.h"
#include "launcher/ibnet_source.h"
#include "launcher/machines.h"
#include "launcher/slurm_alloc.h"
#include "launcher/slurm_probe.h"
#include "launcher/slurm_source.h"
#include "topology/emit.h"
#include "topology/fabric.h"
#include "topology/topology.h"

struct options {
    struct machines_ask where;
    struct strlist sources;
    const char *format, *node, *output;
};

enum { KEY_NODE = 0x600 };

/* clang-format off */
static const struct argp_option table[] = {
    { "source", 's', "KIND[:FILE]", 0,
      "where to look: job (each node of the Slurm job, from inside; the default in one), "
      "sysfs[:ROOT] (this host and its driver; the default elsewhere), nvml, "
      "spec:FILE, json:FILE, ncclxml:FILE (NCCL_TOPO_DUMP_FILE), smi:FILE (nvidia-smi "
      "topo -m, nvlink -s, -q, -L, --query-gpu=index,...), slurmconf:FILE (topology.conf, topology.yaml, scontrol show topology), "
      "slurm[:PARTITION] (what the Slurm here knows), cliques:FILE (NODE ClusterUUID.CliqueId), ibnet[:FILE] "
      "(the InfiniBand fabric here; ibnetdiscover's output); a second one adds what the first has "
      "not", 0 },
    MACHINES_OPTIONS(0),
    { "format", 'f', "FORMAT", 0,
      "text (the default), json, nccl-xml (NCCL_TOPO_FILE of one node), slurm-conf or "
      "slurm-yaml (Slurm's topology files), hca (NCCL_IB_HCA with rails, for eval), "
      "svg (a picture of nodes and fabric)", 0 },
    { "node", KEY_NODE, "NAME", 0, "only this node", 0 },
    { "output", 'o', "PATH", 0,
      "write to a file; for nccl-xml of several nodes to a folder, one file a node", 0 },
    { "json", 'j', NULL, 0, "the same as --format json", 0 },
    { 0 },
};
/* clang-format on */

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    if (machines_take(&o->where, key, arg))
        return 0;
    switch (key) {
    case 's':
        strlist_add(&o->sources, arg);
        return 0;
    case 'f':
        o->format = arg;
        return 0;
    case 'j':
        o->format = "json";
        return 0;
    case 'o':
        o->output = arg;
        return 0;
    case KEY_NODE:
        o->node = arg;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s' is not an option: a source is given as --source %s",
                   arg, arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int show_text(const struct topology *t, FILE *fp, struct err *err)
{
    (void)err;
    topology_print(t, fp);
    return 0;
}

static int show_json(const struct topology *t, FILE *fp, struct err *err)
{
    struct js *o = topology_json(t);

    (void)err;
    js_print(o, fp);
    js_free(o);
    return 0;
}

/* To add a format, add its row. */
static const struct format {
    const char *name;
    int (*show)(const struct topology *t, FILE *fp, struct err *err);
    const char *suffix; /* of a file a node, for what is about one node; else NULL */
} formats[] = {
    { "text", show_text, NULL },
    { "json", show_json, NULL },
    { "nccl-xml", topology_emit_ncclxml, ".xml" },
    { "slurm-conf", topology_emit_slurmconf, NULL },
    { "slurm-yaml", topology_emit_slurmyaml, NULL },
    { "hca", topology_emit_hca, NULL },
    { "svg", topology_emit_svg, NULL },
};

static void refuse_format(const char *name, struct err *err)
{
    const char *names[ARRAY_LEN(formats)], *near;
    struct str list = STR_INIT;

    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        names[i] = formats[i].name;
        str_addf(&list, "%s%s", i ? ", " : "", names[i]);
    }
    near = str_nearest(name, names, ARRAY_LEN(formats));
    err_set(err, ERR_USAGE, "no format '%s'%s%s%s: this muster writes %s", name,
            near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "",
            list.text);
    str_release(&list);
}

static const struct format *find_format(const char *name, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (str_eq(name, formats[i].name))
            return &formats[i];
    refuse_format(name, err);
    return NULL;
}

/* What agents on the hosts see; takes their topology over. */
static int ask_hosts(const struct machines_ask *ask, struct topology **out,
                     struct err *err)
{
    struct machines m;

    if (machines_ask_check(ask, err) < 0 || machines_open(ask, &m, err) < 0)
        return -1;
    *out = m.topology;
    m.topology = NULL;
    machines_close(&m);
    return 0;
}

/* Slurm is asked by the launcher; all others read files and this host. */
static int read_source(const char *text, struct topology **out, struct err *err)
{
    if (str_eq(text, "job"))
        return topology_from_slurm_job(out, err);
    if (str_eq(text, "ibnet"))
        return topology_from_ibnet_live(out, err);
    if (str_eq(text, "slurm") || strncmp(text, "slurm:", 6) == 0)
        return topology_from_slurm(text[5] ? text + 6 : "", out, err);
    return topology_from_source(text, out, err);
}

static int read_sources(const struct options *o, struct topology **out, struct err *err)
{
    const struct strlist *sources = &o->sources;
    int hosts = o->where.hosts || o->where.hostfile;

    if (!hosts && sources->n == 0)
        return read_source(slurm_is_wanted(NULL, NULL) ? "job" : "sysfs", out, err);
    if (hosts ? ask_hosts(&o->where, out, err)
              : read_source(sources->item[0], out, err))
        return -1;
    for (int i = !hosts; i < sources->n; i++) {
        struct topology *more = NULL;
        int rc = read_source(sources->item[i], &more, err);
        if (rc == 0)
            rc = topology_merge(*out, more, err);
        topology_free(more);
        if (rc < 0)
            return err_wrap(err, "--source %s", sources->item[i]);
    }
    return 0;
}

static int cannot(const char *path, struct err *err)
{
    return err_set(err, ERR_MISSING, "%s: %s", path, strerror(errno));
}

/* All of it or nothing: what could not be written whole leaves what was there. */
static int write_file(const struct format *f, const struct topology *t,
                      const char *path, struct err *err)
{
    char *part = xasprintf("%s.part", path);
    FILE *fp = fopen(part, "w");
    int rc = -1;

    if (!fp)
        cannot(path, err);
    else {
        rc = f->show(t, fp, err);
        if ((fclose(fp) != 0 || (rc == 0 && rename(part, path) < 0)) && rc == 0)
            rc = cannot(path, err);
        if (rc < 0)
            unlink(part);
    }
    free(part);
    return rc;
}

/* One file a node, NAME.xml, into a folder. */
static int write_nodes(const struct format *f, struct topology *t, const char *folder,
                       struct err *err)
{
    int rc = 0;

    if (mkdir(folder, 0777) < 0 && errno != EEXIST)
        return cannot(folder, err);
    for (int i = 0; i < t->n_nodes && rc == 0; i++) {
        struct topology one = *t;
        char *path = xasprintf("%s/%s%s", folder, t->nodes[i].name, f->suffix);
        one.nodes = &t->nodes[i];
        one.n_nodes = 1;
        rc = strchr(one.nodes->name, '/')
                 ? err_set(err, ERR_USAGE, "node '%s' names no file", one.nodes->name)
                 : write_file(f, &one, path, err);
        free(path);
    }
    return rc;
}

static int show(const struct options *o, const struct format *f, struct topology *t,
                struct err *err)
{
    if (o->node && topology_keep_node(t, o->node, err) < 0)
        return -1;
    if (!o->output)
        return f->show(t, stdout, err);
    if (f->suffix && t->n_nodes > 1)
        return write_nodes(f, t, o->output, err);
    return write_file(f, t, o->output, err);
}

static int run(int argc, char **argv, struct err *err)
{
    const struct argp argp = { .options = table,
                               .parser = parse,
                               .doc = "Discover nodes, GPUs, NICs and switches, and "
                                      "show them." };
    struct options o = { .format = "text" };
    struct topology *t = NULL;
    const struct format *format;
    int rc = cmd_parse(&argp, argc, argv, &o, err);

    if (rc != 0) {
        rc = rc > 0 ? 0 : -1;
        goto out;
    }
    rc = -1;
    format = find_format(o.format, err);
    if (!format || read_sources(&o, &t, err) < 0)
        goto out;
    topology_inspect(t);
    fabric_inspect(t);
    rc = show(&o, format, t, err);
out:
    topology_free(t);
    strlist_release(&o.sources);
    return rc;
}

const struct cmd cmd_topo = { "topo", "discover and show nodes, GPUs, NICs, switches",
                              run, 0 };
