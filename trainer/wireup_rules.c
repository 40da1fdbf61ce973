#include "trainer/wireup_rules.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

/* A whole nonnegative number of the environment; -1 when absent or no number. */
static long env_number(const char *name)
{
    const char *text = getenv(name);
    char *end;
    long v;

    if (!text || !isdigit((unsigned char)*text))
        return -1;
    v = strtol(text, &end, 10);
    return *end == '\0' && v < 1 << 30 ? v : -1;
}

/* Who else may have started several of us, and how it must be asked. */
static const struct {
    const char *size, *cure;
} launchers[] = {
    { "SLURM_STEP_NUM_TASKS", "start the step with `srun --mpi=pmix`" },
    { "SLURM_NTASKS", "start the step with `srun --mpi=pmix`" },
    { "OMPI_COMM_WORLD_SIZE", "use an mpirun whose PMIx this build knows, or `muster "
                              "launch`" },
    { "PMI_SIZE", "this launcher speaks PMI-1 or PMI-2: use `srun --mpi=pmix`, mpirun "
                  "or `muster launch`" },
    { "MPI_LOCALNRANKS",
      "this launcher speaks no PMIx: use mpirun or `muster launch`" },
    { "WORLD_SIZE",
      "set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for every rank" },
};

int wireup_refuse_singleton(struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(launchers); i++) {
        long size = env_number(launchers[i].size);
        const char *type = getenv("SLURM_MPI_TYPE");
        int slurm = strncmp(launchers[i].size, "SLURM", 5) == 0;

        if (size <= 1)
            continue;
        return err_set(err, ERR_USAGE,
                       "%s is %ld, but no PMIx server speaks to this task%s%s%s: it "
                       "would run as rank 0 of 1, and so would the others; %s",
                       launchers[i].size, size, slurm ? " (SLURM_MPI_TYPE is " : "",
                       slurm ? (type ? type : "not set") : "", slurm ? ")" : "",
                       launchers[i].cure);
    }
    return 0;
}

static int differs(const char *name, int mine, const char *what, struct err *err)
{
    long said = env_number(name);

    if (said < 0 || said == mine)
        return 0;
    return err_set(err, ERR_USAGE,
                   "%s is %ld, but PMIx says %s %d: the two launchers disagree; unset "
                   "%s, or start the ranks with one launcher",
                   name, said, what, mine, name);
}

int wireup_compare(int rank, int world, const char *nspace, struct err *err)
{
    const char *tasks =
        getenv("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";

    /* The variables of an outer step do not speak about a server of our own. */
    if (strncmp(nspace, "slurm.pmix.", 11) == 0 &&
        (differs("SLURM_PROCID", rank, "rank", err) ||
         differs(tasks, world, "size", err)))
        return -1;
    if (differs("OMPI_COMM_WORLD_RANK", rank, "rank", err) ||
        differs("OMPI_COMM_WORLD_SIZE", world, "size", err))
        return -1;
    if (!getenv("RANK") || !getenv("WORLD_SIZE"))
        return 0;
    return differs("RANK", rank, "rank", err) ||
                   differs("WORLD_SIZE", world, "size", err)
               ? -1
               : 0;
}

int wireup_first_host(const char *hostlist, char *host, size_t size, struct err *err)
{
    struct str s = STR_INIT;
    const char *c = hostlist;

    str_adds(&s, "");
    while (*c && *c != ',' && !isspace((unsigned char)*c)) {
        const char *end = *c == '[' ? strchr(c, ']') : NULL;
        size_t n = *c == '[' ? strcspn(c + 1, "-,]") : 0;

        if (*c != '[') {
            str_add(&s, c++, 1);
            continue;
        }
        if (!end || n == 0) {
            str_release(&s);
            return err_set(err, ERR_USAGE, "host list '%s': a bracket is not closed",
                           hostlist);
        }
        str_add(&s, c + 1, n);
        c = end + 1;
    }
    if (s.len == 0 || s.len >= size) {
        str_release(&s);
        return err_set(err, ERR_USAGE, "host list '%s' names no host", hostlist);
    }
    memcpy(host, s.text, s.len + 1);
    str_release(&s);
    return 0;
}

static int first_line(const char *path, char *host, size_t size, struct err *err)
{
    FILE *fp = fopen(path, "re");
    int got;

    if (!fp)
        return err_set(err, ERR_MISSING, "SLURM_HOSTFILE %s: %m", path);
    got = fgets(host, (int)size, fp) != NULL;
    fclose(fp);
    if (got)
        host[strcspn(host, " \t\r\n")] = '\0';
    return got && *host ? 0
                        : err_set(err, ERR_USAGE, "SLURM_HOSTFILE %s is empty", path);
}

int wireup_master(char *host, size_t size, struct err *err)
{
    const char *addr = getenv("MASTER_ADDR"), *list = getenv("SLURM_STEP_NODELIST");
    const char *file = getenv("SLURM_HOSTFILE"), *dist = getenv("SLURM_DISTRIBUTION");

    if (addr && *addr) {
        if ((size_t)snprintf(host, size, "%s", addr) >= size)
            return err_set(err, ERR_USAGE, "MASTER_ADDR is longer than %zu bytes",
                           size - 1);
        return 0;
    }
    if (file && dist && strncmp(dist, "arbitrary", 9) == 0)
        return first_line(file, host, size, err);
    if (!list)
        list = getenv("SLURM_JOB_NODELIST");
    if (list)
        return wireup_first_host(list, host, size, err);
    return err_set(err, ERR_USAGE,
                   "RANK and WORLD_SIZE are set, but MASTER_ADDR is not: set it to the "
                   "host of rank 0, the same for all ranks");
}

static int is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 ||
           strncmp(address, "::ffff:127.", 11) == 0;
}

/* Does a name of the hosts file stand for the machine `name`: gn01, gn01-ib,
 * gn01.cluster? */
static int same_machine(const char *word, const char *name)
{
    size_t n = strcspn(name, ".");

    return strncmp(word, name, n) == 0 && (word[n] == '\0' || strchr(".-", word[n]));
}

static char *other_addresses(const char *name, const char *hosts_path)
{
    struct str s = STR_INIT;
    char line[1024], *word, *save;
    FILE *fp = fopen(hosts_path, "re");

    while (fp && fgets(line, sizeof(line), fp)) {
        char *address;

        line[strcspn(line, "#\n")] = '\0';
        address = strtok_r(line, " \t", &save);
        if (!address || is_loopback(address))
            continue;
        while ((word = strtok_r(NULL, " \t", &save)))
            if (same_machine(word, name))
                str_addf(&s, "%s%s (%s)", s.len ? " or " : "", address, word);
    }
    if (fp)
        fclose(fp);
    return str_take(&s);
}

int wireup_check_master(const char *name, const char *address, int machines,
                        const char *hosts_path, struct err *err)
{
    char *others;

    if (machines <= 1 || !is_loopback(address))
        return 0;
    others = other_addresses(name, hosts_path);
    err_set(
        err, ERR_USAGE,
        "MASTER_ADDR %s resolves to %s, which means 'myself' on every one of the %d "
        "machines: set MASTER_ADDR to %s",
        name, address, machines,
        others && *others ? others : "an address that the other machines can reach");
    free(others);
    return -1;
}

static int same_seat_machine(const struct wireup_seat *a, const struct wireup_seat *b)
{
    return strcmp(a->host, b->host) == 0 && strcmp(a->boot_id, b->boot_id) == 0;
}

int wireup_check_machines(const struct wireup_seat *seat, int n, struct err *err)
{
    for (int i = 1; i < n; i++)
        for (int j = 0; j < i; j++) {
            if (strcmp(seat[i].host, seat[j].host) != 0)
                continue;
            if (!*seat[i].boot_id || !*seat[j].boot_id ||
                strcmp(seat[i].boot_id, seat[j].boot_id) == 0)
                break; /* the earlier ones were compared with j */
            return err_set(err, ERR_FAILED,
                           "ranks %d and %d: same host name '%s', different machine "
                           "(boot ids %s and %s); give every node its own host name",
                           j, i, seat[i].host, seat[j].boot_id, seat[i].boot_id);
        }
    return 0;
}

int wireup_count_machines(const struct wireup_seat *seat, int n)
{
    int count = 0;

    for (int i = 0; i < n; i++) {
        int j = 0;

        while (j < i && !same_seat_machine(&seat[i], &seat[j]))
            j++;
        count += j == i;
    }
    return count;
}

int wireup_pick_device(const char *visible, int count, int local_rank, int *device,
                       struct err *err)
{
    if (visible) {
        count = *visible != '\0';
        for (const char *c = visible; *c; c++)
            count += *c == ',';
    }
    if (count < 1)
        return err_set(err, ERR_MISSING, "no GPU visible to local rank %d%s",
                       local_rank,
                       visible ? " (CUDA_VISIBLE_DEVICES is empty)"
                               : ": is the driver loaded? (`muster doctor`)");
    if (count > 1 && local_rank >= count)
        return err_set(err, ERR_USAGE,
                       "local rank %d has no GPU of its own: %d visible%s%s; start as "
                       "many ranks a node as it has GPUs",
                       local_rank, count, visible ? ", CUDA_VISIBLE_DEVICES is " : "",
                       visible ? visible : "");
    if (count == 1 && !visible && local_rank > 0)
        return err_set(err, ERR_USAGE,
                       "local rank %d has no GPU of its own: the node shows one",
                       local_rank);
    *device = count == 1 ? 0 : local_rank;
    return 0;
}

int wireup_check_devices(const struct wireup_seat *seat, const char *const *busid,
                         int n, struct err *err)
{
    for (int i = 1; i < n; i++)
        for (int j = 0; j < i && *busid[i]; j++)
            if (strcmp(busid[i], busid[j]) == 0 &&
                same_seat_machine(&seat[i], &seat[j]))
                return err_set(
                    err, ERR_FAILED,
                    "ranks %d and %d are both on GPU %s of %s: give each rank "
                    "its own (srun --gpus-per-task=1, or no "
                    "CUDA_VISIBLE_DEVICES of your own)",
                    j, i, busid[i], seat[i].host);
    return 0;
}
