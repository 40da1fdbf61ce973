/* yaml: the tree, and cases E04 and E06 with their lines. */
#include "test.h"

#include "recipes/yaml.h"

static void load_fails(const char *file, const char *part)
{
    struct yaml_node *root = NULL;
    struct err err = ERR_INIT;
    char path[128];

    snprintf(path, sizeof(path), "tests/cases/%s", file);
    assert_err(yaml_tree_load(path, &root, &err), &err, ERR_USAGE, part);
    assert_null(root);
}

static struct yaml_node *parse(const char *text)
{
    struct yaml_node *root = NULL;
    struct err err = ERR_INIT;

    assert_ok(yaml_tree_parse(text, strlen(text), "t", &root, &err), &err);
    return root;
}

static void parse_fails(const char *text, size_t len, const char *part)
{
    struct yaml_node *root = NULL;
    struct err err = ERR_INIT;

    assert_err(yaml_tree_parse(text, len, "t", &root, &err), &err, ERR_USAGE, part);
    assert_null(root);
}

static void test_tree_keeps_place_and_quotes(void **state)
{
    struct yaml_node *root = parse("a: 1\n\nb:\n  c: [x, \"1\"]\n  d: |\n    two\n");
    const struct yaml_node *b = yaml_get(root, "b"), *c = yaml_get(b, "c");

    (void)state;
    assert_int_equal(root->n, 2);
    assert_int_equal(yaml_get(root, "a")->line, 1);
    assert_int_equal(yaml_get(root, "a")->column, 4);
    assert_int_equal(b->kind, YAML_MAPPING);
    assert_int_equal(c->kind, YAML_SEQUENCE);
    assert_int_equal(c->line, 4);
    assert_string_equal(c->value[0]->text, "x");
    assert_false(c->value[0]->quoted);
    assert_string_equal(c->value[1]->text, "1");
    assert_true(c->value[1]->quoted);
    assert_true(yaml_get(b, "d")->quoted);
    assert_null(yaml_get(b, "e"));
    assert_null(yaml_get(c, "e"));
    yaml_tree_free(root);
}

static void test_empty_document_is_a_mapping(void **state)
{
    static const char *const texts[] = { "", "# only a comment\n", "---\n", "~" };

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct yaml_node *root = parse(texts[i]);
        assert_int_equal(root->kind, YAML_MAPPING);
        assert_int_equal(root->n, 0);
        yaml_tree_free(root);
    }
}

static void test_e04_repeated_keys(void **state)
{
    (void)state;
    load_fails("e04_dup.yaml", "e04_dup.yaml:4: key 'lr' repeats the one on line 2");
    parse_fails("a: 1\nb: [{x: 1, x: 2}]\na: 3\na: 4\n", 33, "t:2: key 'x'");
    parse_fails("a: 1\nb: 2\na: 3\na: 4\n", 20,
                "t:3: key 'a' repeats the one on line 1\n"
                "t:4: key 'a' repeats the one on line 1");
}

static void test_marked_parse_leaves_repeats_to_the_caller(void **state)
{
    struct yaml_node *root = NULL;
    struct err err = ERR_INIT;

    (void)state;
    assert_ok(yaml_tree_parse_marked("a: 1\na: 2\n", 10, "t", &root, &err), &err);
    assert_int_equal(root->key[0]->first_line, 0);
    assert_int_equal(root->key[1]->first_line, 1);
    yaml_tree_free(root);
}

static void test_e06_bytes_and_blanks(void **state)
{
    struct yaml_node *root = NULL;
    struct err err = ERR_INIT;

    (void)state;
    load_fails("e06_tab.yaml", "e06_tab.yaml:2: column 1: ");
    load_fails("e06_tab.yaml", "a tab cannot indent");
    load_fails("e06_latin1.yaml", "e06_latin1.yaml:1: ");
    load_fails("e06_latin1.yaml", "UTF-8");
    load_fails("e06_two_docs.yaml", "e06_two_docs.yaml:2: a second document");
    load_fails("e06_percent.yaml", "e06_percent.yaml:1: column 6: ");
    load_fails("e06_flow_env.yaml", "e06_flow_env.yaml:1: ");
    load_fails("e06_flow_env.yaml", "put quotes around \"${...}\"");

    assert_ok(yaml_tree_load("tests/cases/e06_bom_crlf.yaml", &root, &err), &err);
    assert_string_equal(root->key[0]->text, "lr");
    assert_string_equal(yaml_get(root, "lr")->text, "1.0e-4");
    assert_string_equal(yaml_get(root, "name")->text, "été");
    assert_string_equal(yaml_get(root, "path")->text, "/données/mö tor");
    yaml_tree_free(root);
}

static void test_anchors_tags_and_odd_keys_are_refused(void **state)
{
    static const char nul[] = "a: \"x\\0y\"\n";

    (void)state;
    parse_fails("a: &x 1\nb: *x\n", 14, "t:1: anchors");
    parse_fails("a: 1\nb: *x\n", 11, "t:2: aliases");
    parse_fails("a: &x [1]\n", 10, "t:1: anchors");
    parse_fails("a: !!str 5\n", 11, "t:1: anchors (&) and tags (!)");
    parse_fails("? [1, 2]\n: 3\n", 13, "t:1: a key must be");
    parse_fails(nul, sizeof(nul) - 1, "NUL");
    parse_fails("a: 1\n\x01\n", 7, "t:2: ");
    parse_fails("a: [1\n", 6, "t:2: ");
}

static void test_bounds(void **state)
{
    char *big = malloc(YAML_MAX_BYTES + 2);

    (void)state;
    memset(big, '[', 200);
    parse_fails(big, 200, "nested too deeply");
    memset(big, ' ', YAML_MAX_BYTES + 1);
    parse_fails(big, YAML_MAX_BYTES + 1, "larger than");
    for (int i = 0; i < YAML_MAX_BYTES; i += 2)
        memcpy(big + i, i ? ",1" : "[1", 2);
    parse_fails(big, YAML_MAX_BYTES, "too many values");
    free(big);
}

static void test_missing_file(void **state)
{
    struct yaml_node *root = NULL;
    struct err err = ERR_INIT;

    (void)state;
    assert_err(yaml_tree_load("/no/such/file", &root, &err), &err, ERR_MISSING,
               "/no/such/file: No such file");
    assert_err(yaml_tree_load("/tmp", &root, &err), &err, ERR_USAGE,
               "/tmp: is a folder");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree_keeps_place_and_quotes),
        cmocka_unit_test(test_empty_document_is_a_mapping),
        cmocka_unit_test(test_e04_repeated_keys),
        cmocka_unit_test(test_marked_parse_leaves_repeats_to_the_caller),
        cmocka_unit_test(test_e06_bytes_and_blanks),
        cmocka_unit_test(test_anchors_tags_and_odd_keys_are_refused),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_missing_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
