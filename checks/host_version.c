/* host_version.c - what must be equal over the nodes of a run. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/host.h"
#include "checks/measure.h"
#include "topology/sysfs.h"

static struct measure *add(struct measures *out, const char *name, const char *node)
{
    struct measure *m = measures_add(out, name, node, node);

    m->value = 0;
    return m;
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Thu ..." or "... Open
 * Kernel Module for x86_64  580.95.05  Release Build ...": the first word that begins
 * with a digit and has a dot. */
int host_driver_version(const char *line, char *out, size_t n)
{
    const char *at = strstr(line, "Kernel Module");

    for (at = at ? at : line; *at; at += strspn(at, " \t")) {
        size_t len = strcspn(at, " \t\n");

        if (*at >= '0' && *at <= '9' && memchr(at, '.', len)) {
            snprintf(out, n, "%.*s", (int)len, at);
            return 0;
        }
        at += len;
    }
    *out = '\0';
    return -1;
}

static void measure_driver(const struct sysfs *s, const struct host *h,
                           struct measures *out)
{
    struct measure *m = add(out, "version_driver", h->name);
    char line[256], version[64];

    if (sysfs_value(s, "NVRM version", line, sizeof(line),
                    "/proc/driver/nvidia/version") < 0) {
        measure_say(m, "no NVIDIA driver");
        return;
    }
    if (host_driver_version(line, version, sizeof(version)) < 0) {
        measure_none(m, "%s/proc/driver/nvidia/version names no version: '%s'", s->root,
                     line);
        return;
    }
    /* the open module has other abilities (DMA-BUF) at the same version */
    measure_say(m, "%s%s", version,
                strstr(line, "Open Kernel Module") ? " (open module)" : "");
}

static void measure_kernel(const struct sysfs *s, const struct host *h,
                           struct measures *out)
{
    struct measure *m = add(out, "version_kernel", h->name);
    char text[128];

    if (sysfs_read(s, text, sizeof(text), "/proc/sys/kernel/osrelease") < 0)
        measure_none(m, "%s/proc/sys/kernel/osrelease cannot be read", s->root);
    else
        measure_say(m, "%s", text);
}

/* MLNX_OFED's modules say their version, those of the kernel have its. */
static void measure_rdma_driver(const struct sysfs *s, const struct host *h,
                                struct measures *out)
{
    static const char *const modules[] = { "mlx5_core", "bnxt_re", "irdma", "efa" };
    struct measure *m = add(out, "version_rdma", h->name);
    char text[128];

    for (size_t i = 0; i < ARRAY_LEN(modules); i++) {
        if (!sysfs_exists(s, "/sys/module/%s", modules[i]))
            continue;
        if (sysfs_read(s, text, sizeof(text), "/sys/module/%s/version", modules[i]) < 0)
            measure_say(m, "%s of the kernel", modules[i]);
        else
            measure_say(m, "%s %s", modules[i], text);
        return;
    }
    measure_say(m, "no RDMA driver");
}

/* FNV-1a; two builds of one version are not the same program. */
static uint64_t hash_file(const char *path)
{
    uint64_t h = 0xcbf29ce484222325u;
    FILE *fp = fopen(path, "re");
    unsigned char buf[65536];
    size_t n;

    while (fp && (n = fread(buf, 1, sizeof(buf), fp)) > 0)
        for (size_t i = 0; i < n; i++)
            h = (h ^ buf[i]) * 0x100000001b3u;
    if (fp)
        fclose(fp);
    return h;
}

static void measure_muster(const struct host *h, struct measures *out)
{
    measure_say(add(out, "version_muster", h->name), "%s, build %08x", MUSTER_VERSION,
                (unsigned)(hash_file("/proc/self/exe") & 0xffffffffu));
}

static void measure_collectives(const struct host *h, struct measures *out)
{
    struct measure *m = add(out, "version_collectives", h->name);

    if (h->collectives)
        measure_say(m, "%s", h->collectives);
    else
        measure_none(m, "the library of the collectives does not say");
}

void host_measure_versions(const struct host *h, struct measures *out)
{
    struct sysfs s = { h->root };

    measure_driver(&s, h, out);
    measure_kernel(&s, h, out);
    measure_rdma_driver(&s, h, out);
    measure_collectives(h, out);
    measure_muster(h, out);
}
