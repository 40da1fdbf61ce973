#include "launcher/doctor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/slurm_ask.h"
#include "topology/nvml.h"

/* --- programs --------------------------------------------------------------------- */

/* A program of our own: beside this one. */
static int look_sibling(const struct doctor_item *item, char **text)
{
    char self[4096], *slash;
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n < 0)
        return 0;
    self[n] = '\0';
    slash = strrchr(self, '/');
    *text = xasprintf("%.*s/%s", (int)(slash - self), self, item->of);
    if (access(*text, X_OK) == 0)
        return 1;
    free(*text);
    *text = NULL;
    return 0;
}

/* A program on PATH; `symbol` is the option that prints its version. */
static int look_program(const struct doctor_item *item, char **text)
{
    char *path = doctor_program(item->of), *line;
    char *argv[] = { path, (char *)item->symbol, NULL };
    int works;

    if (!path)
        return 0;
    line = doctor_first_line(argv, &works);
    *text = works ? xasprintf("%s (%s)", line ? line : "version unknown", path)
                  : xasprintf("%s does not work here: %s", path,
                              line ? line : "it says nothing");
    free(line);
    free(path);
    return works;
}

/* --- libraries -------------------------------------------------------------------- */

/* Loads the library and finds the symbol; NULL with the reason in *text. */
static void *find_symbol(const struct doctor_item *item, void **library, char **text)
{
    void *symbol;

    *library = dlopen(item->of, RTLD_LAZY | RTLD_LOCAL);
    if (!*library) {
        *text = xstrdup(dlerror());
        return NULL;
    }
    symbol = dlsym(*library, item->symbol);
    if (symbol)
        return symbol;
    *text = xasprintf("%s has no %s", item->of, item->symbol);
    dlclose(*library);
    return NULL;
}

/* const char *SYMBOL(void) */
static int look_version_text(const struct doctor_item *item, char **text)
{
    const char *(*version)(void);
    void *library, *symbol = find_symbol(item, &library, text);

    if (!symbol)
        return 0;
    memcpy(&version, &symbol, sizeof(version));
    *text = xasprintf("%s (%s)", version(), item->of);
    dlclose(library);
    return 1;
}

/* Only that it loads: it has no call for its version. */
static int look_library(const struct doctor_item *item, char **text)
{
    void *library, *symbol = find_symbol(item, &library, text);

    if (!symbol)
        return 0;
    *text = xstrdup(item->of);
    dlclose(library);
    return 1;
}

/* OpenBLAS starts a thread a core when it is loaded: one is enough here. */
static int look_blas(const struct doctor_item *item, char **text)
{
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    return look_version_text(item, text);
}

/* int MPI_Get_library_version(char *, int *): may be called before MPI_Init. */
static int look_mpi(const struct doctor_item *item, char **text)
{
    int (*version)(char *, int *), len = 0;
    char line[8192] = ""; /* MPI_MAX_LIBRARY_VERSION_STRING of MPICH; Open MPI: 256 */
    void *library, *symbol = find_symbol(item, &library, text);

    if (!symbol)
        return 0;
    memcpy(&version, &symbol, sizeof(version));
    version(line, &len);
    line[strcspn(line, ",\n")] = '\0';
    *text = xasprintf("%s (%s)", line, item->of);
    return 1; /* stays loaded: Open MPI does not survive dlclose */
}

/* int ncclGetVersion(int *): 22809 is 2.28.9 */
static int look_nccl(const struct doctor_item *item, char **text)
{
    int (*version)(int *), v = 0;
    void *library, *symbol = find_symbol(item, &library, text);

    if (!symbol)
        return 0;
    memcpy(&version, &symbol, sizeof(version));
    version(&v);
    *text = xasprintf("%d.%d.%d (%s)", v / 10000, v / 100 % 100, v % 100, item->of);
    dlclose(library);
    return 1;
}

/* size_t cudnnGetVersion(void): 91900 is 9.19.0 */
static int look_cudnn(const struct doctor_item *item, char **text)
{
    size_t (*version)(void), v;
    void *library, *symbol = find_symbol(item, &library, text);

    if (!symbol)
        return 0;
    memcpy(&version, &symbol, sizeof(version));
    v = version();
    *text = xasprintf("%zu.%zu.%zu (%s)", v / 10000, v / 100 % 100, v % 100, item->of);
    dlclose(library);
    return 1;
}

/* const char *ssh_version(int newer_than), with a build that uses it */
static int look_ssh(const struct doctor_item *item, char **text)
{
    const char *(*version)(int);
    void *library, *symbol = find_symbol(item, &library, text);

    if (!symbol)
        return 0;
    memcpy(&version, &symbol, sizeof(version));
    *text = xasprintf("%s (%s)%s", version(0), item->of,
                      HAVE_LIBSSH ? "" : ", but this muster was built without it");
    dlclose(library);
    return HAVE_LIBSSH;
}

/* Found, with a build that knows its header. */
static int look_ibnetdisc(const struct doctor_item *item, char **text)
{
    int found = look_library(item, text);

    if (!found || HAVE_IBNETDISC)
        return found;
    free(*text);
    *text = xasprintf("%s, but this muster was built without its header", item->of);
    return 0;
}

/* libslurm, asked in its own process as it always is. */
static int look_slurm(const struct doctor_item *item, char **text)
{
    char *why = NULL;
    int used = slurm_uses_library(&why);

    (void)item;
    *text =
        used ? xasprintf("%s, in a process of its own, asks Slurm", why)
             : xasprintf("not used, scontrol, salloc and scancel ask Slurm: %s", why);
    free(why);
    return used;
}

/* --- GPUs ------------------------------------------------------------------------- */

static int look_driver(const struct doctor_item *item, char **text)
{
    char version[NVML_VERSION_BYTES] = "";
    struct err e = ERR_INIT;
    unsigned count = 0;
    struct nvml n;

    (void)item;
    if (nvml_open(&n, &e) < 0) {
        *text = xstrdup(err_text(&e));
        err_release(&e);
        return 0;
    }
    if (n.driver_version)
        n.driver_version(version, sizeof(version));
    n.count(&count);
    nvml_close(&n);
    *text = xasprintf("driver %s, %u GPU%s", version[0] ? version : "unknown", count,
                      count == 1 ? "" : "s");
    return 1;
}

/* The module with the CUDA operations: $MUSTER_CUDA_MODULE, else ../lib beside us. */
static char *module_path(void)
{
    char self[4096], *slash;
    const char *given = getenv("MUSTER_CUDA_MODULE");
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (given)
        return xstrdup(given);
    self[n < 0 ? 0 : n] = '\0';
    for (int i = 0; i < 2; i++)
        if ((slash = strrchr(self, '/')))
            *slash = '\0';
    return xasprintf("%s/lib/muster-cuda.so", self);
}

static int look_module(const struct doctor_item *item, char **text)
{
    char *path = module_path();
    struct doctor_item file = *item;
    int found = 0;

    file.of = path;
    if (access(path, F_OK) != 0)
        *text = xasprintf("%s: not built", path);
    else
        found = look_library(&file, text);
    if (found) {
        free(*text);
        *text = xasprintf("%s (built with%s%s%s)", path, HAVE_CUDA ? " CUDA" : "",
                          HAVE_NCCL ? ", NCCL" : "", HAVE_CUDNN ? ", cuDNN" : "");
    }
    free(path);
    return found;
}

/* --- the list ------------------------------------------------------------------------ */

/* clang-format off */
static const struct doctor_item items[] = {
    { "muster-train", 1, look_sibling, "muster-train", NULL,
      "training: it is what ranks run", "make, or make install" },
    { "muster-probe", 0, look_sibling, "muster-probe", NULL,
      "muster check", "make, or make install" },
    { "muster-agent", 0, look_sibling, "../lib/muster/muster-agent", NULL,
      "quick starts under Slurm", "make, or make install" },
    { "PMIx", 1, look_version_text, "libpmix.so.2", "PMIx_Get_version",
      "ranks find each other", "apt-get install libpmix2" },
    { "MPI", 1, look_mpi, "libmpi.so.40", "MPI_Get_library_version",
      "collectives between CPU ranks, MPI programs", "apt-get install libopenmpi3 openmpi-bin" },
    { "BLAS", 1, look_blas, "libopenblas.so.0", "openblas_get_config",
      "matrix products on CPUs", "apt-get install libopenblas0" },
    { "libyaml", 1, look_version_text, "libyaml-0.so.2", "yaml_get_version_string",
      "recipes", "apt-get install libyaml-0-2" },
    { "jansson", 1, look_version_text, "libjansson.so.4", "jansson_version_str",
      "JSON", "apt-get install libjansson4" },
    { "SQLite", 1, look_version_text, "libsqlite3.so.0", "sqlite3_libversion",
      "the store of runs and climbs", "apt-get install libsqlite3-0" },
    { "NVIDIA", 0, look_driver, NULL, NULL,
      "GPUs: discovery and training", "install the NVIDIA driver (apt-get install nvidia-driver)" },
    { "CUDA module", 0, look_module, NULL, "ops_cuda",
      "training on GPUs", "install the CUDA toolkit, then make CUDA=1" },
    { "NCCL", 0, look_nccl, "libnccl.so.2", "ncclGetVersion",
      "collectives between GPUs", "apt-get install libnccl2 (NVIDIA's repository)" },
    { "cuDNN", 0, look_cudnn, "libcudnn.so.9", "cudnnGetVersion",
      "faster attention", "apt-get install libcudnn9-cuda-13 (NVIDIA's repository)" },
    { "Slurm", 0, look_program, "scontrol", "--version",
      "running in Slurm's allocations", "apt-get install slurm-client, or load its module" },
    { "srun", 0, look_program, "srun", "--version",
      "starting ranks through Slurm", "apt-get install slurm-client, or load its module" },
    { "libslurm", 0, look_slurm, NULL, NULL,
      "asking Slurm directly; its commands do the same work", "apt-get install libslurm-dev, then make" },
    { "libssh", 0, look_ssh, "libssh.so.4", "ssh_version",
      "running on hosts without Slurm", "apt-get install libssh-dev, then make" },
    { "ssh", 0, look_program, "ssh", "-V",
      "trying a host by hand; muster itself does not need it", "apt-get install openssh-client" },
    { "mpirun", 0, look_program, "mpirun", "--version",
      "starting muster-train by hand; muster itself does not need it", "apt-get install openmpi-bin" },
    { "libibnetdisc", 0, look_ibnetdisc, "libibnetdisc.so.5", "ibnd_discover_fabric",
      "topo --source ibnet: the InfiniBand fabric, asked now",
      "apt-get install libibnetdisc-dev libibmad-dev, then make" },
    { "ibnetdiscover", 0, look_program, "ibnetdiscover", "--version",
      "the same where libibnetdisc is not", "apt-get install infiniband-diags" },
    { "libibumad", 0, look_library, "libibumad.so.3", "umad_init",
      "the InfiniBand fabric: counters of ports", "apt-get install libibumad3" },
};
/* clang-format on */

int doctor_items(const struct doctor_item **out)
{
    *out = items;
    return (int)ARRAY_LEN(items);
}
