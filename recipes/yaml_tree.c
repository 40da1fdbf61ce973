#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "recipes/yaml.h"

int yaml_read_file(const char *path, size_t limit, char **text, size_t *len,
                   struct err *err)
{
    FILE *fp;
    char *bytes = NULL;
    size_t n;
    int rc = -1;

    if (!*path)
        return err_set(err, ERR_USAGE, "the name of the file is empty");
    fp = fopen(path, "rb");
    if (!fp)
        return err_set(err, errno == ENOENT ? ERR_MISSING : ERR_SYSTEM, "%s: %m", path);
    bytes = malloc(limit + 1);
    if (!bytes) {
        err_set(err, ERR_SYSTEM, "%s: no memory for %zu bytes", path, limit);
        goto out;
    }
    n = fread(bytes, 1, limit + 1, fp);
    if (ferror(fp) && errno == EISDIR) {
        err_set(err, ERR_USAGE, "%s: is a folder: name a file in it", path);
        goto out;
    }
    if (ferror(fp)) {
        err_set(err, ERR_SYSTEM, "%s: %m", path);
        goto out;
    }
    if (n > limit) {
        err_set(err, ERR_USAGE, "%s: larger than %zu bytes", path, limit);
        goto out;
    }
    bytes[n] = '\0';
    *text = bytes;
    *len = n;
    bytes = NULL;
    rc = 0;
out:
    free(bytes);
    fclose(fp);
    return rc;
}

int yaml_tree_load(const char *path, struct yaml_node **root, struct err *err)
{
    char *text;
    size_t len;
    int rc;

    if (yaml_read_file(path, YAML_MAX_BYTES, &text, &len, err) < 0)
        return -1;
    rc = yaml_tree_parse(text, len, path, root, err);
    free(text);
    return rc;
}

void yaml_tree_free(struct yaml_node *root)
{
    while (root) {
        struct yaml_node *next = root->next;
        free(root->text);
        free(root->key);
        free(root->value);
        free(root);
        root = next;
    }
}

const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key)
{
    if (!map || map->kind != YAML_MAPPING)
        return NULL;
    for (int i = 0; i < map->n; i++)
        if (strcmp(map->key[i]->text, key) == 0)
            return map->value[i];
    return NULL;
}

int yaml_is_null(const struct yaml_node *n)
{
    static const char *const words[] = { "", "~", "null", "Null", "NULL" };

    if (n->kind != YAML_SCALAR || n->quoted)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(n->text, words[i]) == 0)
            return 1;
    return 0;
}

const char *yaml_kind_name(enum yaml_kind kind)
{
    static const char *const names[] = { "text", "a list", "a mapping" };

    return names[kind];
}
