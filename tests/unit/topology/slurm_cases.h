/* slurm_cases.h - rows of the tests/cases files, and names as one text. */
#ifndef UNIT_SLURM_CASES_H
#define UNIT_SLURM_CASES_H

#include "base/mem.h"
#include "base/str.h"
#include "test.h"
#include "topology/hostlist.h"

enum { CASE_COLUMNS = 4 };

/* fn of every row of a .tsv file that is no comment; returns how many. */
static inline int case_rows(const char *path, void (*fn)(char **column, int n))
{
    FILE *fp = fopen(path, "r");
    char line[1024], *column[CASE_COLUMNS];
    int rows = 0;

    if (!fp)
        fail_msg("%s: cannot be read", path);
    while (fgets(line, sizeof(line), fp)) {
        char *save, *word;
        int n = 0;
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#' || line[0] == '\0')
            continue;
        for (word = strtok_r(line, "\t", &save); word && n < CASE_COLUMNS;
             word = strtok_r(NULL, "\t", &save))
            column[n++] = word;
        fn(column, n);
        rows++;
    }
    fclose(fp);
    return rows;
}

/* "a b c"; the caller's to free(). */
static inline char *case_join(const struct strlist *names, const char *between)
{
    struct str s = STR_INIT;

    str_adds(&s, "");
    for (int i = 0; i < names->n; i++)
        str_addf(&s, "%s%s", i ? between : "", names->item[i]);
    return str_take(&s);
}

static inline struct strlist case_expand(const char *text)
{
    struct strlist names = { 0 };
    struct err err = ERR_INIT;

    if (hostlist_expand(text, &names, &err) < 0)
        fail_msg("%s: %s", text, err_text(&err));
    return names;
}

#endif
