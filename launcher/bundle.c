#include "launcher/bundle.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "launcher/agent_wire.h"
#include "launcher/elf_needs.h"
#include "launcher/slurm_cmd.h"

enum { LIST_MS = 30000 };

#define CUDA_MODULE "muster-cuda.so"

/* --- what a host brings itself ------------------------------------------------------ */

int bundle_is_system(const char *name)
{
    static const char *const begin[] = {
        "linux-vdso.",
        "ld-linux",
        "ld64.",
        "libc.so.",
        "libm.so.",
        "libmvec.so.",
        "libdl.so.",
        "librt.so.",
        "libpthread.so.",
        "libresolv.so.",
        "libutil.so.",
        "libnsl.so.",
        "libanl.so.",
        "libnss_",
        "libthread_db.so.",
        "libBrokenLocale.so.",
        "libcuda.so.",
        "libnvidia-",
        "libcudadebugger.so.",
    };

    for (size_t i = 0; i < ARRAY_LEN(begin); i++)
        if (strncmp(name, begin[i], strlen(begin[i])) == 0)
            return 1;
    return 0;
}

/* --- the list ----------------------------------------------------------------------- */

const char *bundle_folder(enum bundle_kind kind)
{
    static const char *const names[] = { "lib", "mpi", "pmix", "bin" };

    return names[kind];
}

static int has(const struct bundle_part *p, const char *name)
{
    for (int i = 0; i < p->name.n; i++)
        if (str_eq(p->name.item[i], name))
            return 1;
    return 0;
}

static void add(struct bundle_part *p, const char *from, const char *name)
{
    if (has(p, name))
        return;
    strlist_add(&p->from, from);
    strlist_add(&p->name, name);
}

/* --- libraries, as the dynamic loader finds them -------------------------------------- */

/* The loader of this very program, or NULL when it has none. */
static const char *loader(void)
{
    /* The kernel gives addresses as numbers. NOLINTBEGIN(performance-no-int-to-ptr) */
    const ElfW(Phdr) *p = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    size_t n = getauxval(AT_PHNUM);
    uintptr_t base = 0;

    for (size_t i = 0; p && i < n; i++)
        if (p[i].p_type == PT_PHDR)
            base = (uintptr_t)p - p[i].p_vaddr;
    for (size_t i = 0; p && i < n; i++)
        if (p[i].p_type == PT_INTERP)
            return (const char *)(base + p[i].p_vaddr);
    /* NOLINTEND(performance-no-int-to-ptr) */
    return NULL;
}

/* "\tlibm.so.6 => /lib/libm.so.6 (0x...)", or "\tlibx.so.1 => not found", which the
 * CUDA module may have: its libraries need the driver's. */
static int take_line(struct bundle *b, const char *program, char *line, struct err *err)
{
    char *name = line + strspn(line, " \t"), *arrow = strstr(name, " => "), *end;

    if (!arrow)
        return 0; /* the loader itself, the kernel's page */
    *arrow = '\0';
    arrow += 4;
    if (bundle_is_system(name))
        return 0;
    if (strncmp(arrow, "not found", 9) == 0)
        return strstr(program, CUDA_MODULE)
                   ? 0
                   : err_set(err, ERR_MISSING, "%s needs %s, which is not here",
                             program, name);
    end = strstr(arrow, " (0x");
    if (end)
        *end = '\0';
    add(&b->part[BUNDLE_LIB], arrow, name);
    return 0;
}

static int add_libraries(struct bundle *b, const char *program, struct err *err)
{
    const char *with = loader();
    /* not --list, which ends at the first library that is not here */
    char *argv[] = { (char[]){ "env" }, (char[]){ "LD_TRACE_LOADED_OBJECTS=1" },
                     (char *)with, (char *)program, NULL };
    struct str out = STR_INIT;
    int rc = 0;
    char *save = NULL;

    if (!with)
        return err_set(err, ERR_MISSING,
                       "this muster is linked statically: install it on every host");
    if (slurm_cmd_read(argv, LIST_MS, &out, NULL) < 0)
        rc = err_set(err, ERR_SYSTEM, "which libraries %s loads cannot be told (by %s)",
                     program, with);
    for (char *line = out.len ? strtok_r(out.text, "\n", &save) : NULL; line && rc == 0;
         line = strtok_r(NULL, "\n", &save))
        rc = take_line(b, program, line, err);
    str_release(&out);
    return rc;
}

/* --- plug-ins ------------------------------------------------------------------------- */

/* All that it asks for by itself goes with it, or is there. */
static int fits(const struct bundle *b, const char *path)
{
    struct strlist needs = { 0 };
    int ok = elf_needs(path, &needs, NULL) == 0;

    for (int i = 0; i < needs.n && ok; i++)
        ok =
            has(&b->part[BUNDLE_LIB], needs.item[i]) || bundle_is_system(needs.item[i]);
    strlist_release(&needs);
    return ok;
}

struct source {
    const char *library; /* that loads others by a path of its own; NULL */
    const char *folder;  /* beside it, where they are */
    const char *prefix;  /* of their names */
    enum bundle_kind to;
    int careful; /* only those that need nothing else */
};

static void add_folder(struct bundle *b, const char *folder, const struct source *s)
{
    struct dirent **list = NULL;
    int n = scandir(folder, &list, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        const char *name = list[i]->d_name;
        char *path = xasprintf("%s/%s", folder, name);
        if (strncmp(name, s->prefix, strlen(s->prefix)) == 0 && strstr(name, ".so") &&
            (!s->careful || fits(b, path)))
            add(&b->part[s->to], path, name);
        free(path);
        free(list[i]);
    }
    free(list);
}

static void add_plugins(struct bundle *b)
{
    static const struct source sources[] = {
        { "libmpi.so.", "openmpi3", "mca_", BUNDLE_MPI, 1 },
        { "libmpi.so.", "openmpi", "mca_", BUNDLE_MPI, 1 },
        { "libmpi.so.", "openmpi/lib/openmpi3", "mca_", BUNDLE_MPI, 1 }, /* Debian */
        { "libpmix.so.", "pmix", "pmix_mca_", BUNDLE_PMIX, 1 },
        { "libcudnn.so.", "", "libcudnn_", BUNDLE_LIB, 0 },
    };
    const struct bundle_part *lib = &b->part[BUNDLE_LIB];
    int n = lib->name.n;

    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < ARRAY_LEN(sources); k++) {
            const char *library = sources[k].library;
            char real[PATH_MAX], *folder;
            if (strncmp(lib->name.item[i], library, strlen(library)) != 0 ||
                !realpath(lib->from.item[i], real))
                continue;
            *strrchr(real, '/') = '\0';
            folder = xasprintf("%s/%s", real, sources[k].folder);
            add_folder(b, folder, &sources[k]);
            free(folder);
        }
}

/* --- the programs --------------------------------------------------------------------- */

static int add_programs(struct bundle *b, const char *folder, struct err *err)
{
    static const struct {
        const char *name;
        int optional;
    } programs[] = { { "muster", 0 },
                     { "muster-train", 0 },
                     { "muster-probe", 0 },
                     { "muster-agent", 1 } };

    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        char *path = xasprintf("%s/%s", folder, programs[i].name);
        int ok = access(path, R_OK | X_OK) == 0;
        if (ok)
            add(&b->part[BUNDLE_BIN], path, programs[i].name);
        else if (!programs[i].optional)
            err_set(err, ERR_MISSING, "%s: %m; `make` builds it beside muster", path);
        free(path);
        if (!ok && !programs[i].optional)
            return -1;
    }
    return 0;
}

static int add_all_libraries(struct bundle *b, const char *folder, int cuda,
                             struct err *err)
{
    static const struct source modules[] = {
        { NULL, "", "muster-blas", BUNDLE_LIB, 0 },
        { NULL, "", "muster-mpi", BUNDLE_LIB, 0 },
        { NULL, "", CUDA_MODULE, BUNDLE_LIB, 0 },
    };
    const struct bundle_part *bin = &b->part[BUNDLE_BIN], *lib = &b->part[BUNDLE_LIB];
    char *beside = xasprintf("%s/../lib", folder);
    int rc = 0, n;

    for (size_t i = 0; i < ARRAY_LEN(modules) - !cuda; i++)
        add_folder(b, beside, &modules[i]);
    free(beside);
    n = lib->name.n;
    for (int i = 0; i < n && rc == 0; i++)
        rc = add_libraries(b, lib->from.item[i], err);
    for (int i = 0; i < bin->name.n && rc == 0; i++)
        rc = add_libraries(b, bin->from.item[i], err);
    if (rc == 0)
        add_plugins(b);
    return rc;
}

/* --- its name --------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < n; i++)
        h = (h ^ at[i]) * 0x100000001b3;
    return h;
}

/* What muster is made of by its bytes; libraries, which may be gigabytes, by size and
 * time of writing. */
static int measure_part(struct bundle *b, struct bundle_part *p, uint64_t *h,
                        struct err *err)
{
    struct stat st;

    p->file = xcalloc((size_t)p->from.n + 1, sizeof(*p->file));
    for (int i = 0; i < p->from.n; i++) {
        const char *from = p->from.item[i], *name = p->name.item[i];
        if (stat(from, &st) < 0)
            return err_set(err, ERR_MISSING, "%s: %m", from);
        *h = mix(*h, name, strlen(name) + 1);
        *h = mix(*h, &st.st_size, sizeof(st.st_size));
        if (strncmp(name, "muster", 6) == 0)
            *h = agent_hash_file(*h, from);
        else
            *h = mix(*h, &st.st_mtim, sizeof(st.st_mtim));
        p->file[i] = (struct ssh_copy_file){ from, name, 0700 };
        b->bytes += st.st_size;
    }
    return 0;
}

static int measure(struct bundle *b, struct err *err)
{
    uint64_t h = 0xcbf29ce484222325;

    for (int i = 0; i < BUNDLE_KINDS; i++)
        if (measure_part(b, &b->part[i], &h, err) < 0)
            return -1;
    snprintf(b->id, sizeof(b->id), "%016llx", (unsigned long long)h);
    return 0;
}

int bundle_make(struct bundle *out, int cuda, struct err *err)
{
    struct bundle b = { .bytes = 0 };
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    int rc;

    if (n <= 0)
        return err_set(err, ERR_SYSTEM, "/proc/self/exe: %m");
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    rc = add_programs(&b, self, err);
    if (rc == 0)
        rc = add_all_libraries(&b, self, cuda, err);
    if (rc == 0)
        rc = measure(&b, err);
    if (rc < 0)
        bundle_release(&b);
    else
        *out = b;
    return rc;
}

void bundle_release(struct bundle *b)
{
    for (int i = 0; i < BUNDLE_KINDS; i++) {
        strlist_release(&b->part[i].from);
        strlist_release(&b->part[i].name);
        free(b->part[i].file);
    }
    *b = (struct bundle){ .bytes = 0 };
}
