#include "topology/source.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "topology/topology.h"

static int from_nvml(const char *file, struct topology **out, struct err *err)
{
    (void)file;
    return topology_from_nvml(out, err);
}

/* To add a source, add its row: the command line and its messages follow. */
static const struct source {
    const char *kind;
    enum { FILE_NONE, FILE_MAY, FILE_MUST } file;
    int (*read)(const char *file, struct topology **out, struct err *err);
} sources[] = {
    { "sysfs", FILE_MAY, topology_from_host },
    { "nvml", FILE_NONE, from_nvml },
    { "spec", FILE_MUST, topology_from_spec },
    { "json", FILE_MUST, topology_from_json },
    { "ncclxml", FILE_MUST, topology_from_ncclxml },
    { "smi", FILE_MUST, topology_from_smi },
    { "slurmconf", FILE_MUST, topology_from_slurmconf },
    { "cliques", FILE_MUST, topology_from_cliques },
    { "ibnet", FILE_MUST, topology_from_ibnet },
};

static int unknown(const char *kind, struct err *err)
{
    const char *names[ARRAY_LEN(sources)], *near;
    struct str list = STR_INIT;

    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        names[i] = sources[i].kind;
        str_addf(&list, "%s%s", i ? ", " : "", names[i]);
    }
    near = str_nearest(kind, names, ARRAY_LEN(sources));
    err_set(err, ERR_USAGE, "no source '%s'%s%s%s: there are job, slurm, %s", kind,
            near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "",
            list.text);
    str_release(&list);
    return -1;
}

int topology_from_source(const char *text, struct topology **out, struct err *err)
{
    size_t n = strcspn(text, ":");
    const char *file = text[n] == ':' && text[n + 1] ? text + n + 1 : NULL;
    char kind[32];

    snprintf(kind, sizeof(kind), "%.*s", (int)(n < 31 ? n : 31), text);
    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        const struct source *s = &sources[i];
        if (!str_eq(kind, s->kind))
            continue;
        if (!file && s->file == FILE_MUST)
            return err_set(err, ERR_USAGE, "source %s needs a file: %s:FILE", kind,
                           kind);
        if (file && s->file == FILE_NONE)
            return err_set(err, ERR_USAGE, "source %s takes no file: leave out ':%s'",
                           kind, file);
        return s->read(file ? file : "", out, err);
    }
    return unknown(kind, err);
}

int topology_from_cluster(const char *text, struct topology **out, struct err *err)
{
    size_t n = text ? strcspn(text, ":/") : 0;

    if (!text || !text[0])
        return topology_from_source("sysfs", out, err);
    if (text[n] == ':')
        return topology_from_source(text, out, err);
    return topology_from_spec(text, out, err);
}
