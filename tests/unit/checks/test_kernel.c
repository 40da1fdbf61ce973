/* How the kernel of a machine is set: trees with one fault each, and without. */
#include "topology/trees.h"

#include <math.h>

#include "checks/host.h"
#include "checks/host_load.h"
#include "checks/measure.h"

static char *root;
static struct topology *topology;

static const struct measure *find(const struct measures *l, const char *name)
{
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->item[i].name, name) == 0)
            return &l->item[i];
    fail_msg("nothing measured for '%s'", name);
    return NULL;
}

static struct measures look(void)
{
    struct host h = { .root = root, .name = "n01", .topology = topology };
    struct measures l = { 0 };

    host_measure_kernel(&h, &l);
    host_measure_acs(&h, &l);
    return l;
}

/* The tree as it is has `value` for `name`, and says `part`; NaN: unmeasured. */
static void expect(const char *name, double value, const char *part)
{
    struct measures l = look();
    const struct measure *m = find(&l, name);

    if (!(m->value == value || (isnan(value) && isnan(m->value))))
        fail_msg("%s: %g, not %g (%s)", name, m->value, value, m->text ? m->text : "");
    if (part && (!m->text || !strstr(m->text, part)))
        fail_msg("%s: no '%s' in '%s'", name, part, m->text ? m->text : "");
    measures_release(&l);
}

static void put(const char *path, const char *text)
{
    tree_run("mkdir -p $(dirname %s/%s) && printf '%s' >%s/%s", root, path, text, root,
             path);
}

static void test_clocksource(void **state)
{
    static const char path[] =
        "sys/devices/system/clocksource/clocksource0/current_clocksource";

    (void)state;
    expect("clocksource", NAN, "cannot be read");
    put(path, "tsc\n");
    expect("clocksource", 0, "tsc");
    put(path, "hpet\n");
    expect("clocksource", 1, "hpet");
}

static void test_numa_balancing(void **state)
{
    (void)state;
    expect("numa_balancing", 0, "the kernel has none");
    put("proc/sys/kernel/numa_balancing", "0\n");
    expect("numa_balancing", 0, NULL);
    put("proc/sys/kernel/numa_balancing", "1\n");
    expect("numa_balancing", 1, NULL);
}

static void test_oom(void **state)
{
    (void)state;
    expect("oom_kills", NAN, "dmesg_restrict");
    put("proc/uptime", "100000.0 1.0\n");
    put("dev/kmsg", "6,1,99000000000,-;usb 1-1: new device\n");
    expect("oom_kills", 0, NULL);
    put("dev/kmsg", "3,1,1000000,-;Out of memory: Killed process 7 (old) total-vm:1kB\n"
                    "3,2,92800000000,-;Out of memory: Killed process 4242 (python3) "
                    "total-vm:1kB\n");
    expect("oom_kills", 1, "4242 (python3) 2.0 h ago");
}

static void test_iommu(void **state)
{
    static const char gpu[] = "sys/bus/pci/devices/0000:18:10.0/iommu_group/type";

    (void)state;
    expect("iommu", 0, "off, or passed through");
    put(gpu, "identity\n");
    expect("iommu", 0, "off, or passed through");
    put(gpu, "DMA-FQ\n");
    expect("iommu", 1, "translated for GPU 0 (0000:18:10.0)");
    tree_run("rm %s/%s", root, gpu); /* an old kernel */
    put("proc/cmdline", "quiet intel_iommu=on\n");
    expect("iommu", 1, "GPU 0");
    put("proc/cmdline", "quiet intel_iommu=on iommu=pt\n");
    expect("iommu", 0, NULL);
    tree_run("rm %s/proc/cmdline", root);
    expect("iommu", NAN, "does not show");
    tree_run("rmdir %s/sys/bus/pci/devices/0000:18:10.0/iommu_group", root);
}

/* A configuration space of 4 KiB whose ACS control is `bits` (-1: no ACS), behind an AER
 * capability. */
static void put_config(const char *busid, int bits)
{
    unsigned char c[4096] = { 0 };
    char *path = xasprintf("%s/sys/bus/pci/devices/%s/config", root, busid);
    FILE *fp = fopen(path, "we");

    assert_non_null(fp);
    c[0x100] = 0x01, c[0x102] = 0x01;
    if (bits >= 0) {
        c[0x102] |= 0x80, c[0x103] = 0x14; /* next: 0x148 */
        c[0x148] = 0x0d, c[0x14a] = 0x01;
        c[0x148 + 6] = (unsigned char)bits;
    }
    assert_int_equal(fwrite(c, 1, sizeof(c), fp), sizeof(c));
    fclose(fp);
    free(path);
}

static void put_all_configs(int bits)
{
    static const char *const slots[] = {
        "18", "2a", "3a", "5d", "9a", "ab", "ba", "db"
    };

    for (size_t i = 0; i < ARRAY_LEN(slots); i++)
        for (int port = 1; port <= 4; port++) {
            char busid[32];

            snprintf(busid, sizeof(busid), "0000:%s:0%d.0", slots[i], port);
            put_config(busid, bits);
        }
}

static void test_acs(void **state)
{
    unsigned char loop[4096] = { 0 };

    (void)state;
    expect("acs", NAN, "to root only");
    put_all_configs(-1);
    expect("acs", 0, "none of 16 switch ports");
    put_all_configs(0x01); /* SrcValid alone redirects nothing */
    expect("acs", 0, NULL);
    put_config("0000:2a:03.0", 0x1d);
    expect("acs", 1, "redirected at 0000:2a:03.0 above GPU 1");
    put_config("0000:2a:03.0", 0);
    put_config("0000:2a:01.0", 0x1d); /* a root port: nothing is turned away there */
    put_config("0000:2a:04.0", 0x1d); /* not above a GPU */
    expect("acs", 0, NULL);
    assert_int_equal(host_acs_redirects(loop, 64), -1);
    loop[0x100] = 0x01, loop[0x103] = 0x10; /* a list that bites its tail ends */
    assert_int_equal(host_acs_redirects(loop, sizeof(loop)), 0);
}

static void test_load(void **state)
{
    struct host_load before, after;
    struct measures l = { 0 };

    (void)state;
    put("proc/stat", "cpu  1000 0 0 9000 0 0 0 0 0 0\n");
    put("proc/71/stat", "71 (muster-probe) R 1 71 71 0 -1 0 0 0 0 0 100 50 0 0 20\n");
    put("proc/72/stat", "72 (a (b) c) R 1 72 72 0 -1 0 0 0 0 0 700 50 0 0 20\n");
    host_load_look(root, &before);
    put("proc/stat", "cpu  1100 0 0 9100 0 0 0 0 0 0\n");
    put("proc/71/stat", "71 (muster-probe) R 1 71 71 0 -1 0 0 0 0 0 110 80 0 0 20\n");
    put("proc/72/stat", "72 (a (b) c) R 1 72 72 0 -1 0 0 0 0 0 720 50 0 0 20\n");
    host_load_look(root, &after);
    host_measure_load(&before, &after, "n01", &l);
    /* 100 of 200 ticks, 40 of them the check's */
    assert_true(l.item[0].value > 29.9 && l.item[0].value < 30.1);
    assert_non_null(strstr(l.item[0].text, "a (b) c (pid 72) 10.0"));
    host_load_release(&after);
    host_load_look("/nowhere", &after);
    host_measure_load(&before, &after, "n01", &l);
    assert_true(isnan(l.item[1].value));
    host_load_release(&before);
    host_load_release(&after);
    measures_release(&l);
}

static int open_tree(void **state)
{
    struct err err = ERR_INIT;

    (void)state;
    root = tree_make("hgx");
    return topology_from_sysfs(root, &topology, &err);
}

static int close_tree(void **state)
{
    (void)state;
    topology_free(topology);
    tree_remove(root);
    return 0;
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_clocksource), cmocka_unit_test(test_numa_balancing),
        cmocka_unit_test(test_oom),         cmocka_unit_test(test_iommu),
        cmocka_unit_test(test_acs),         cmocka_unit_test(test_load),
    };

    return cmocka_run_group_tests(t, open_tree, close_tree);
}
