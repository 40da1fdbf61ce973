/* NCCL's topology file: read as NCCL's own reader does, and read back equal. */
#include <ctype.h>

#include "trees.h"

#include "base/str.h"
#include "topology/emit.h"

static char *emit(const struct topology *t)
{
    struct err err = ERR_INIT;
    char *text = NULL;
    size_t len;
    FILE *fp = open_memstream(&text, &len);

    assert_ok(topology_emit_ncclxml(t, fp, &err), &err);
    fclose(fp);
    return text;
}

static struct topology *parse(const char *text)
{
    struct err err = ERR_INIT;
    struct topology *t = NULL;

    assert_ok(topology_from_ncclxml_text(text, strlen(text), "back", &t, &err), &err);
    return t;
}

/* --- NCCL's reader --------------------------------------------------------------------- */

/* One element as xmlGetNode() of NCCL 2.30 takes it: a name up to a blank, '/' or '>';
 * while a blank follows, NAME="VALUE" and the next character; then '>' or "/>". */
static const char *strict_element(const char *p, int *attributes, int *single)
{
    assert_int_equal(*p, '<');
    p++;
    while (isalnum((unsigned char)*p) || *p == '_')
        p++;
    for (*attributes = 0; *p == ' '; (*attributes)++) {
        const char *name = ++p;
        while (isalnum((unsigned char)*p) || *p == '_')
            p++;
        assert_true(p > name && p - name < 255);
        assert_true(p[0] == '=' && p[1] == '"');
        name = p += 2;
        while (*p != '"') {
            assert_true((unsigned char)*p >= ' ');
            p++;
        }
        assert_true(p - name < 255);
        p++;
    }
    *single = *p == '/';
    p += *single;
    assert_int_equal(*p, '>');
    return p + 1;
}

static void strict_read(const char *p)
{
    char open[16][16];
    int depth = 0, elements = 0;

    while (*(p += strspn(p, " \n"))) {
        int attributes, single, closes = p[1] == '/';
        size_t n = strcspn(p + 1 + closes, " />");
        assert_true(n < 16);
        if (closes) {
            assert_true(depth > 0 && strncmp(open[--depth], p + 2, n) == 0);
            p = strchr(p, '>') + 1;
            continue;
        }
        assert_true(depth < 16);
        snprintf(open[depth], 16, "%.*s", (int)n, p + 1);
        p = strict_element(p, &attributes, &single);
        assert_true(attributes <= 16 && ++elements < 256);
        depth += !single;
    }
    assert_int_equal(depth, 0);
}

/* --- equal ----------------------------------------------------------------------------- */

static void test_recorded(void **state)
{
    static const char *const files[] = { "recorded/topo.xml", "a07_vm_flat.xml",
                                         "a07_vm_injected_bridges.xml",
                                         "a09_h100_four_switches.xml" };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct err err = ERR_INIT;
        struct topology *t = NULL, *back;
        char *path = xasprintf("tests/cases/%s", files[i]), *text, *a, *b;
        assert_ok(topology_from_ncclxml(path, &t, &err), &err);
        text = emit(t);
        strict_read(text);
        back = parse(text);
        a = tree_json(t);
        b = tree_json(back);
        assert_string_equal(a, b);
        topology_free(t);
        topology_free(back);
        free(path);
        free(text);
        free(a);
        free(b);
    }
}

static const struct nic *nic_named(const struct node *n, const char *name)
{
    for (int i = 0; i < n->n_nics; i++)
        if (str_eq(n->nics[i].name, name))
            return &n->nics[i];
    fail_msg("no NIC %s", name);
    return NULL;
}

/* What sysfs shows of a machine, the file says: all but what NCCL has no word for. */
static void same_machine(const struct node *a, const struct node *b)
{
    assert_int_equal(a->n_gpus, b->n_gpus);
    assert_int_equal(a->n_pcis, b->n_pcis);
    assert_int_equal(a->n_numas, b->n_numas);
    assert_string_equal(a->arch, b->arch);
    assert_string_equal(a->cpu_vendor, b->cpu_vendor);
    assert_int_equal(a->cpu_family, b->cpu_family);
    assert_int_equal(a->cpu_version, b->cpu_version);
    for (int i = 0; i < a->n_numas; i++)
        assert_string_equal(a->numas[i].cpus, b->numas[i].cpus);
    for (int i = 0; i < a->n_gpus; i++) {
        const struct gpu *g = &a->gpus[i], *h = &b->gpus[i];
        assert_int_equal(g->index, h->index);
        assert_string_equal(g->busid, h->busid);
        assert_int_equal(g->numa, h->numa);
        assert_true(g->pcie_gbytes_per_s == h->pcie_gbytes_per_s);
        assert_string_equal(a->nics[g->nic].name, b->nics[h->nic].name);
    }
    for (int i = 0; i < b->n_nics; i++) {
        const struct nic *d = &b->nics[i], *c = nic_named(a, d->name);
        assert_string_equal(c->busid, d->busid);
        assert_int_equal(c->numa, d->numa);
        assert_int_equal(c->port, d->port);
        assert_string_equal(c->image_guid, d->image_guid);
        assert_true(c->gbits_per_s == d->gbits_per_s);
    }
}

static void test_machine(void **state)
{
    static const char *const shapes[] = { "hgx", "vm" };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        struct err err = ERR_INIT;
        struct topology *t = NULL, *back;
        char *dir = tree_make(shapes[i]), *text;
        assert_ok(topology_from_host(dir, &t, &err), &err);
        text = emit(t);
        strict_read(text);
        back = parse(text);
        if (i == 0) {
            assert_int_equal(t->nodes[0].n_nics, back->nodes[0].n_nics);
            assert_non_null(strstr(text, "<pci busid=\"0000:18:02.0\" "));
            assert_null(strstr(text, "0000:18:01.0")); /* a root port */
            assert_null(strstr(text, "0000:18:03.0")); /* the switch's own port */
            assert_non_null(strstr(text, "familyid=\"6\" modelid=\"143\""));
            same_machine(&t->nodes[0], &back->nodes[0]);
        }
        assert_null(strstr(text, "\"\"")); /* unknown is left out */
        assert_null(strstr(text, "rank="));
        topology_free(t);
        topology_free(back);
        tree_remove(dir);
        free(text);
    }
}

/* --- refused -------------------------------------------------------------------------- */

static void refused(const struct topology *t, enum err_code code, const char *part)
{
    struct err err = ERR_INIT;
    char *text = NULL;
    size_t len;
    FILE *fp = open_memstream(&text, &len);

    assert_int_equal(topology_emit_ncclxml(t, fp, &err), -1);
    fclose(fp);
    assert_int_equal(err.code, code);
    if (!strstr(err_text(&err), part))
        fail_msg("'%s' is not in '%s'", part, err_text(&err));
    assert_string_equal(text, "");
    free(text);
    err_release(&err);
}

static void test_refused(void **state)
{
    struct topology *one = tree_cluster(1, 8, 8), *two = tree_cluster(2, 8, 8);
    struct topology *none = tree_cluster(1, 0, 0);

    (void)state;
    refused(one, ERR_FAILED, "where GPU 0 hangs in the PCI tree is not known");
    refused(two, ERR_USAGE, "there are 2 here");
    refused(none, ERR_FAILED, "nothing to tell NCCL");
    topology_free(one);
    topology_free(two);
    topology_free(none);
}

/* NCCL's table holds 256 elements, the last of them no longer readable. */
static void test_too_large(void **state)
{
    struct topology *t = topology_new("test", 1);
    struct node *n = &t->nodes[0];
    char *text;

    (void)state;
    snprintf(n->name, sizeof(n->name), "big");
    for (int i = 0; i < 252; i++)
        snprintf(topology_add_pci(n)->busid, 20, "0000:%02x:00.0", i);
    snprintf(topology_add_gpu(n)->busid, 20, "0000:00:00.0");
    text = emit(t); /* system, cpu, gpu and 252 */
    strict_read(text);
    free(text);
    snprintf(topology_add_pci(n)->busid, 20, "0000:fe:00.0");
    refused(t, ERR_FAILED, "256 elements are more than the 255 that NCCL reads");
    topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
