#include "test.h"

#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "checks/host.h"
#include "checks/ifname.h"
#include "checks/measure.h"

static char *slurp(const char *path)
{
    char *text = xcalloc(1, 8192);
    FILE *fp = fopen(path, "re");

    assert_non_null(fp);
    assert_true(fread(text, 1, 8191, fp) > 0);
    fclose(fp);
    return text;
}

static void put(const char *root, const char *path, const char *text)
{
    char *whole = xasprintf("%s/%s", root, path);
    FILE *fp;

    for (char *c = whole + strlen(root) + 1; (c = strchr(c, '/')); c++) {
        *c = '\0';
        mkdir(whole, 0755);
        *c = '/';
    }
    fp = fopen(whole, "we");
    assert_non_null(fp);
    fputs(text, fp);
    fclose(fp);
    free(whole);
}

static const struct measure *find(const struct measures *l, const char *name)
{
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->item[i].name, name) == 0)
            return &l->item[i];
    fail_msg("nothing measured for '%s'", name);
    return NULL;
}

static void test_c07_limits(void **state)
{
    char *text = slurp("tests/cases/c07_limits.txt");
    struct measures l = { 0 };
    double soft, hard;

    (void)state;
    assert_int_equal(host_limit(text, "Max locked memory", &soft, &hard), 0);
    assert_true(soft == 65536 && hard == 65536);
    assert_int_equal(host_limit(text, "Max cpu time", &soft, &hard), 0);
    assert_true(isinf(soft));
    assert_int_equal(host_limit(text, "Max nothing", &soft, &hard), -1);
    host_measure_limits(text, 512, 1, "gn01", &l);
    assert_true(isinf(find(&l, "memlock")->need));
    assert_true(find(&l, "nofile")->value == 1024 && find(&l, "nofile")->need > 4000);
    measures_release(&l);
    host_measure_limits(text, 2, 0, "laptop", &l); /* no RDMA: any limit will do */
    assert_true(isnan(find(&l, "memlock")->need));
    measures_release(&l);
    free(text);
}

static void test_c08_need(void **state)
{
    (void)state;
    assert_int_equal(host_shm_need(8, 1), 154206208);
    assert_int_equal(host_shm_need(4, 0), 16 << 20);
}

/* C08: a stale segment is one that no live process maps or has open. */
static void test_c08_stale(void **state)
{
    char held[64], stale[64];
    struct str text = STR_INIT;
    int fd, n;
    void *map;

    (void)state;
    snprintf(held, sizeof(held), "/dev/shm/nccl-muster-held-%d", (int)getpid());
    snprintf(stale, sizeof(stale), "/dev/shm/nccl-muster-stale-%d", (int)getpid());
    close(open(stale, O_CREAT | O_RDWR, 0600));
    fd = open(held, O_CREAT | O_RDWR, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    n = host_stale_segments("", "/dev/shm", &text);
    munmap(map, 4096);
    unlink(held);
    unlink(stale);
    assert_true(n >= 1);
    assert_non_null(strstr(text.text, n > 8 ? "/dev/shm/" : stale));
    assert_null(strstr(text.text, held));
    str_release(&text);
}

static void test_recorded_host(void **state)
{
    char root[] = "/tmp/muster-host-XXXXXX",
         *limits = slurp("tests/cases/c07_limits.txt");
    struct host h = { .root = root,
                      .name = "gn01",
                      .world = 8,
                      .machines = 1,
                      .ranks = 8,
                      .memory_need = 1 << 30 };
    struct measures l = { 0 };
    char *command;

    (void)state;
    assert_non_null(mkdtemp(root));
    put(root, "proc/self/limits", limits);
    put(root, "proc/meminfo", "MemTotal: 10 kB\nMemAvailable:    2048 kB\n");
    put(root, "proc/77/stat", "77 (muster-train) S 1 77 77 0");
    put(root, "proc/78/stat", "78 (muster-train) S 900 77 77 0");
    put(root, "proc/79/stat", "79 (muster-probe) Z 1 77 77 0");
    put(root, "proc/80/stat", "80 (bash) S 1 77 77 0");
    put(root, "sys/class/infiniband/mlx5_0", "");
    put(root, "sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    put(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
    put(root, "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
    put(root, "dev/shm/nccl-abc", "");
    put(root, "dev/shm/other", "");
    host_measure(&h, &l);
    assert_true(isinf(find(&l, "memlock")->need));
    assert_true(find(&l, "memory")->value == 2097152);
    assert_true(find(&l, "leftovers")->value == 1);
    assert_string_equal(find(&l, "leftovers")->text, "muster-train (pid 77)");
    assert_true(find(&l, "hugepages")->value == 1);
    assert_true(find(&l, "governor")->value == 1);
    assert_non_null(
        strstr(find(&l, "governor")->text, "1 of 2 CPUs run under 'powersave'"));
    assert_true(find(&l, "shm_stale")->value == 1);
    assert_true(find(&l, "shm")->need == 8 * (4 << 20));
    assert_true(find(&l, "disk")->value == 0);
    measures_release(&l);
    free(limits);
    command = xasprintf("rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
    free(command);
}

static void test_c03_resolve(void **state)
{
    struct measures l = { 0 };

    (void)state;
    host_measure_resolve("localhost", 2, &l);
    assert_true(l.item[0].value == 1);
    assert_non_null(strstr(l.item[0].text, "localhost resolves to "));
    host_measure_resolve("localhost", 1, &l);
    assert_true(l.item[1].value == 0);
    host_measure_resolve("no-such-host.invalid", 2, &l);
    assert_true(l.item[2].value == 1);
    host_measure_resolve("no-such-host.invalid", 1, &l);
    assert_true(l.item[3].value == 0);
    measures_release(&l);
}

/* The names that pass, joined by blanks. */
static char *chosen(const struct ifname_list *l, const char *spec, char **why)
{
    struct strlist names = { 0 };
    struct str s = STR_INIT;
    int rc = ifname_choose(l, spec, &names, why);

    str_adds(&s, rc == 0 ? "" : "none");
    for (int i = 0; i < names.n; i++)
        str_addf(&s, "%s%s", i ? " " : "", names.item[i]);
    strlist_release(&names);
    return str_take(&s);
}

static void test_c04_interfaces(void **state)
{
    static const char *const rows[][3] = {
        { NULL, "ib0", NULL },
        { "bond0", "bond0 bond0.301", NULL },
        { "=bond0", "bond0", NULL },
        { "^docker,lo", "eno1 veth01ab2cd bond0 bond0.301 ib0", "link-local" },
        { "^docker0", "lo eno1 veth01ab2cd bond0 bond0.301 ib0", "lets lo pass" },
        { "eno1,eth0", "eno1", NULL },
        { "eth0", "none", "no interface matches eth0; there are lo, eno1" },
        { "^=bond0", "lo eno1 veth01ab2cd bond0.301 ib0", "" },
    };
    char *text = slurp("tests/cases/c04_ip_addr.txt");
    struct ifname_list l = { 0 };

    (void)state;
    ifname_parse(text, &l);
    assert_int_equal(l.n, 9);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *why, *got = chosen(&l, rows[i][0], &why);

        assert_string_equal(got, rows[i][1]);
        if (rows[i][2])
            assert_non_null(strstr(why, rows[i][2]));
        else
            assert_null(why);
        free(got);
        free(why);
    }
    /* without ib*: what is left, never docker0 or lo while others exist */
    l.n--; /* virbr0 */
    for (int i = 0; i < l.n; i++)
        if (strcmp(l.item[i].name, "ib0") == 0)
            l.item[i].up = 0;
    {
        char *why, *got = chosen(&l, NULL, &why);

        assert_string_equal(got, "eno1 bond0 bond0.301");
        free(got);
        free(why);
    }
    ifname_release(&l);
    ifname_live(&l);
    assert_true(l.n > 0);
    ifname_release(&l);
    free(text);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_c07_limits),  cmocka_unit_test(test_c08_need),
        cmocka_unit_test(test_c08_stale),   cmocka_unit_test(test_recorded_host),
        cmocka_unit_test(test_c03_resolve), cmocka_unit_test(test_c04_interfaces),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
