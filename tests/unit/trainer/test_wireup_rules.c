#include "test.h"

#include "base/mem.h"
#include "trainer/wireup_rules.h"

/* Nothing of the caller's, but cmocka still knows how to print. */
static void empty_env(void)
{
    char *output = xstrdup(getenv("CMOCKA_MESSAGE_OUTPUT"));

    clearenv();
    if (output)
        setenv("CMOCKA_MESSAGE_OUTPUT", output, 1);
    free(output);
}

static void set_env(const char *text)
{
    char *copy = xstrdup(text), *save, *pair;

    empty_env();
    for (pair = strtok_r(copy, "\n", &save); pair; pair = strtok_r(NULL, "\n", &save)) {
        char *value = strchr(pair, '=');

        if (*pair == '#' || !value)
            continue;
        *value++ = '\0';
        setenv(pair, value, 1);
    }
    free(copy);
}

static char *slurp(const char *path)
{
    char *text = xcalloc(1, 4096);
    FILE *fp = fopen(path, "re");

    assert_non_null(fp);
    assert_true(fread(text, 1, 4095, fp) > 0);
    fclose(fp);
    return text;
}

static void test_c01_singleton(void **state)
{
    char *text = slurp("tests/cases/c01_singleton.env");
    struct err err = ERR_INIT;

    (void)state;
    set_env(text);
    assert_err(wireup_refuse_singleton(&err), &err, ERR_USAGE, "--mpi=pmix");
    assert_err(wireup_refuse_singleton(&err), &err, ERR_USAGE,
               "SLURM_MPI_TYPE is pmi2");
    set_env("OMPI_COMM_WORLD_SIZE=2");
    assert_err(wireup_refuse_singleton(&err), &err, ERR_USAGE,
               "OMPI_COMM_WORLD_SIZE is 2");
    set_env("PMI_SIZE=3\nPMI_RANK=0");
    assert_err(wireup_refuse_singleton(&err), &err, ERR_USAGE, "PMI_SIZE is 3");
    set_env("WORLD_SIZE=2");
    assert_err(wireup_refuse_singleton(&err), &err, ERR_USAGE, "set RANK");
    set_env("SLURM_NTASKS=1\nSLURM_PROCID=0");
    assert_ok(wireup_refuse_singleton(&err), &err);
    set_env("");
    assert_ok(wireup_refuse_singleton(&err), &err);
    free(text);
}

static void test_c01_compare(void **state)
{
    struct err err = ERR_INIT;

    (void)state;
    set_env("SLURM_PROCID=2\nSLURM_NTASKS=4");
    assert_ok(wireup_compare(2, 4, "slurm.pmix.900.0", &err), &err);
    assert_err(wireup_compare(0, 4, "slurm.pmix.900.0", &err), &err, ERR_USAGE,
               "SLURM_PROCID is 2, but PMIx says rank 0");
    assert_err(wireup_compare(2, 1, "slurm.pmix.900.0", &err), &err, ERR_USAGE,
               "SLURM_NTASKS is 4, but PMIx says size 1");
    /* our own server inside somebody's step */
    assert_ok(wireup_compare(0, 8, "muster.1", &err), &err);
    set_env("RANK=1\nWORLD_SIZE=8");
    assert_err(wireup_compare(0, 8, "muster.1", &err), &err, ERR_USAGE, "unset RANK");
    assert_ok(wireup_compare(1, 8, "muster.1", &err), &err);
    set_env("OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=2");
    assert_err(wireup_compare(0, 1, "", &err), &err, ERR_USAGE, "OMPI_COMM_WORLD_SIZE");
}

static void test_c02_master(void **state)
{
    char host[64];
    struct err err = ERR_INIT;

    (void)state;
    set_env("SLURM_LAUNCH_NODE_IPADDR=192.0.2.9\nSLURM_JOB_NODELIST=gn[07-08]");
    assert_ok(wireup_master(host, sizeof(host), &err), &err);
    assert_string_equal(host, "gn07");
    setenv("MASTER_ADDR", "gn08-ib", 1);
    assert_ok(wireup_master(host, sizeof(host), &err), &err);
    assert_string_equal(host, "gn08-ib");
    set_env("");
    assert_err(wireup_master(host, sizeof(host), &err), &err, ERR_USAGE, "MASTER_ADDR");
    /* B13: under an arbitrary distribution the host file decides */
    set_env(
        "SLURM_JOB_NODELIST=compute-[571,743,811,866]\nSLURM_DISTRIBUTION=arbitrary\n"
        "SLURM_HOSTFILE=tests/cases/b13_hostfile.txt");
    assert_ok(wireup_master(host, sizeof(host), &err), &err);
    assert_string_equal(host, "compute-811");
}

static void test_first_host(void **state)
{
    static const char *const rows[][2] = {
        { "n1", "n1" },           { "n[001-010]", "n001" },       { "a,b", "a" },
        { "c[1-2][3-4]", "c13" }, { "r[1,5]n[2]-x,z", "r1n2-x" },
    };
    char host[16];
    struct err err = ERR_INIT;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_ok(wireup_first_host(rows[i][0], host, sizeof(host), &err), &err);
        assert_string_equal(host, rows[i][1]);
    }
    assert_err(wireup_first_host("n[1-2", host, sizeof(host), &err), &err, ERR_USAGE,
               "not closed");
    assert_err(wireup_first_host("", host, sizeof(host), &err), &err, ERR_USAGE,
               "no host");
    assert_err(wireup_first_host("averyveryverylongname", host, sizeof(host), &err),
               &err, ERR_USAGE, "no host");
}

static void test_c03_loopback(void **state)
{
    const char *hosts = "tests/cases/c03_hosts";
    struct err err = ERR_INIT;

    (void)state;
    assert_err(wireup_check_master("gn01", "127.0.1.1", 2, hosts, &err), &err,
               ERR_USAGE, "gn01 resolves to 127.0.1.1");
    assert_err(wireup_check_master("gn01", "127.0.1.1", 2, hosts, &err), &err,
               ERR_USAGE, "10.20.0.11 (gn01-ib)");
    assert_err(wireup_check_master("x", "::1", 2, hosts, &err), &err, ERR_USAGE, "::1");
    assert_ok(wireup_check_master("gn01-ib", "10.20.0.11", 2, hosts, &err), &err);
    assert_ok(wireup_check_master("gn01", "127.0.1.1", 1, hosts, &err), &err);
}

static void test_c19_machines(void **state)
{
    struct wireup_seat seat[3] = {
        { .host = "localhost", .boot_id = "A" },
        { .host = "localhost", .boot_id = "A" },
        { .host = "localhost", .boot_id = "B" },
    };
    struct err err = ERR_INIT;

    (void)state;
    assert_ok(wireup_check_machines(seat, 2, &err), &err);
    assert_err(wireup_check_machines(seat, 3, &err), &err, ERR_FAILED,
               "same host name 'localhost', different machine");
    assert_int_equal(wireup_count_machines(seat, 3), 2);
    /* containers of one machine: other names, one boot id */
    strcpy(seat[2].host, "other");
    strcpy(seat[2].boot_id, "A");
    assert_ok(wireup_check_machines(seat, 3, &err), &err);
}

static void test_c16_device(void **state)
{
    const struct wireup_seat seat[3] = {
        { .host = "n1", .boot_id = "A" },
        { .host = "n1", .boot_id = "A" },
        { .host = "n2", .boot_id = "B" },
    };
    const char *const shared[] = { "0000:18:00.0", "0000:18:00.0", "0000:18:00.0" };
    const char *const own[] = { "0000:18:00.0", "0000:2a:00.0", "0000:18:00.0" };
    const char *const none[] = { "", "", "" };
    struct err err = ERR_INIT;
    int device = -1;

    (void)state;
    assert_ok(wireup_pick_device("3", 8, 3, &device, &err), &err);
    assert_int_equal(device, 0);
    assert_ok(wireup_pick_device("0,1,2,3", 8, 3, &device, &err), &err);
    assert_int_equal(device, 3);
    assert_ok(wireup_pick_device(NULL, 8, 7, &device, &err), &err);
    assert_int_equal(device, 7);
    assert_err(wireup_pick_device("", 8, 0, &device, &err), &err, ERR_MISSING,
               "no GPU visible");
    assert_err(wireup_pick_device("0,1", 8, 2, &device, &err), &err, ERR_USAGE,
               "local rank 2 has no GPU");
    assert_err(wireup_pick_device(NULL, 1, 1, &device, &err), &err, ERR_USAGE,
               "local rank 1 has no GPU");
    assert_err(wireup_check_devices(seat, shared, 3, &err), &err, ERR_FAILED,
               "ranks 0 and 1 are both on GPU 0000:18:00.0 of n1");
    assert_ok(wireup_check_devices(seat, own, 3, &err), &err);
    assert_ok(wireup_check_devices(seat, none, 3, &err), &err);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(test_c01_singleton), cmocka_unit_test(test_c01_compare),
        cmocka_unit_test(test_c02_master),    cmocka_unit_test(test_first_host),
        cmocka_unit_test(test_c03_loopback),  cmocka_unit_test(test_c19_machines),
        cmocka_unit_test(test_c16_device),
    };

    return cmocka_run_group_tests(t, NULL, NULL);
}
