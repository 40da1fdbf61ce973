#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "trainer/data.h"

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int is_worth_stopping(const char *path, int error)
{
    (void)path;
    return error != ENOENT && error != ENOTDIR;
}

static int add_matches(const char *pattern, struct strlist *out, struct err *err)
{
    glob_t g;
    int rc = glob(pattern, GLOB_NOSORT, is_worth_stopping, &g);

    if (rc == GLOB_NOMATCH)
        return 0;
    if (rc != 0)
        return err_set(err, ERR_SYSTEM, "%s: cannot be searched: %s", pattern,
                       rc == GLOB_NOSPACE ? "no memory" : strerror(errno));
    for (size_t i = 0; i < g.gl_pathc; i++)
        if (!is_folder(g.gl_pathv[i]))
            strlist_add(out, g.gl_pathv[i]);
    globfree(&g);
    return 0;
}

/* The folder's own name may hold characters that glob would read. */
static int add_folder(const char *folder, struct strlist *out, struct err *err)
{
    struct str p = STR_INIT;
    int rc;

    for (const char *c = folder; *c; c++) {
        if (strchr("*?[]\\", *c))
            str_adds(&p, "\\");
        str_add(&p, c, 1);
    }
    str_adds(&p, "/*.bin");
    rc = add_matches(p.text, out, err);
    if (rc == 0) {
        memcpy(p.text + p.len - 3, "idx", 3);
        rc = add_matches(p.text, out, err);
    }
    str_release(&p);
    return rc;
}

/* In a sorted list X.bin stands just before X.idx; the index opens both.  (An
 * index that is damaged says so itself.) */
static void drop_indexed(struct strlist *l)
{
    int kept = 0;

    for (int i = 0; i < l->n; i++) {
        size_t n = strlen(l->item[i]);
        int pair = i + 1 < l->n && n > 4 && strcmp(l->item[i] + n - 4, ".bin") == 0 &&
                   strlen(l->item[i + 1]) == n &&
                   strncmp(l->item[i], l->item[i + 1], n - 4) == 0 &&
                   strcmp(l->item[i + 1] + n - 4, ".idx") == 0;
        if (pair)
            free(l->item[i]);
        else
            l->item[kept++] = l->item[i];
    }
    l->n = kept;
}

int data_files(const char *entry, struct strlist *out, struct err *err)
{
    struct strlist found = { 0 };
    struct stat st;
    int rc = 0;

    if (is_folder(entry))
        rc = add_folder(entry, &found, err);
    else if (stat(entry, &st) == 0)
        strlist_add(&found, entry);
    else
        rc = add_matches(entry, &found, err);
    if (rc == 0 && found.n == 0)
        rc = err_set(err, ERR_MISSING, "%s: %s", entry,
                     is_folder(entry)        ? "no .bin or .idx file in this folder"
                     : strpbrk(entry, "*?[") ? "no file matches"
                                             : "No such file or directory");
    if (rc == 0) {
        qsort((void *)found.item, (size_t)found.n, sizeof(char *), by_text);
        drop_indexed(&found);
        for (int i = 0; i < found.n; i++)
            strlist_add(out, found.item[i]);
    }
    strlist_release(&found);
    return rc;
}
