#include "launcher/run_dir.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/js.h"
#include "base/mem.h"
#include "launcher/run.h"

/* Make a folder and those above it. */
static int make_path(const char *path, mode_t mode, struct err *err)
{
    char *copy = xstrdup(path);
    int rc = 0;

    for (char *at = strchr(copy + 1, '/'); at && rc == 0; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(copy, mode) < 0 && errno != EEXIST)
            rc = err_set(err, ERR_SYSTEM, "%s: %m (MUSTER_HOME says where runs go)",
                         copy);
        *at = '/';
    }
    if (rc == 0 && mkdir(copy, mode) < 0 && errno != EEXIST)
        rc = err_set(err, ERR_SYSTEM, "%s: %m (MUSTER_HOME says where runs go)", copy);
    free(copy);
    return rc;
}

char *run_home(struct err *err)
{
    const char *home = getenv("MUSTER_HOME"), *state = getenv("XDG_STATE_HOME");
    char *path;

    if (home && *home)
        path = xstrdup(home);
    else if (state && *state)
        path = xasprintf("%s/muster", state);
    else if ((home = getenv("HOME")) && *home)
        path = xasprintf("%s/.local/state/muster", home);
    else {
        err_set(err, ERR_MISSING,
                "neither MUSTER_HOME nor HOME is set: set one, runs "
                "are kept there");
        return NULL;
    }
    if (make_path(path, 0700, err) < 0) {
        free(path);
        return NULL;
    }
    return path;
}

static int is_fit(char c)
{
    return (isalnum((unsigned char)c) && (unsigned char)c < 0x80) || strchr("._-", c);
}

static void add_fit(char *out, size_t room, const char *name)
{
    size_t n = 0;

    snprintf(out, room, "%s", name);
    for (; out[n]; n++)
        if (!is_fit(out[n]))
            out[n] = '-';
    if (out[0] == '.' || out[0] == '-') /* neither hidden nor an option */
        out[0] = 'r';
}

static char *new_id(const char *name)
{
    char fit[48], when[32];
    time_t now = time(NULL);
    struct tm tm;
    uint16_t salt = (uint16_t)getpid();

    add_fit(fit, sizeof(fit), *name ? name : "run");
    localtime_r(&now, &tm);
    strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
    (void)!getrandom(&salt, sizeof(salt), GRND_NONBLOCK);
    return xasprintf("%s-%s-%04x", fit, when, salt);
}

int run_dir_make(const char *name, char **id, char **dir, struct err *err)
{
    char *home = run_home(err), *runs = NULL, *path = NULL, *one = NULL;
    int rc = -1;

    if (!home)
        return -1;
    runs = xasprintf("%s/runs", home);
    if (make_path(runs, 0700, err) < 0)
        goto out;
    for (int tries = 0; rc < 0; tries++) {
        free(one);
        free(path);
        one = new_id(name);
        path = xasprintf("%s/%s/ranks", runs, one);
        path[strlen(path) - strlen("/ranks")] = '\0';
        if (mkdir(path, 0700) == 0)
            rc = 0;
        else if (errno != EEXIST || tries == 100) {
            err_set(err, ERR_SYSTEM, "%s: %m", path);
            goto out;
        }
    }
    path[strlen(path)] = '/';
    if (mkdir(path, 0700) < 0)
        rc = err_set(err, ERR_SYSTEM, "%s: %m", path);
    path[strlen(path) - strlen("/ranks")] = '\0';
out:
    free(home);
    free(runs);
    if (rc < 0) {
        free(one);
        free(path);
        return -1;
    }
    *id = one;
    *dir = path;
    return 0;
}

/* A kill may have cut the last line short: the next begins on a line of its own. */
static void end_last_line(const char *path)
{
    FILE *fp = fopen(path, "r+e");

    if (!fp)
        return;
    if (fseek(fp, -1, SEEK_END) == 0 && fgetc(fp) != '\n') {
        fseek(fp, 0, SEEK_END);
        fputc('\n', fp);
    }
    fclose(fp);
}

int run_dir_take(const char *path, char **id, char **dir, struct err *err)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    char *result = xasprintf("%s/result.json", path);
    char *events = xasprintf("%s/events.jsonl", path);
    char *ranks = xasprintf("%s/ranks", path);
    int rc = 0;

    if (access(ranks, W_OK) < 0)
        rc = err_set(err, ERR_MISSING,
                     "%s: %m: is it on a file system that this node has too?", ranks);
    if (rc == 0) {
        unlink(result);
        end_last_line(events);
        *id = xstrdup(name);
        *dir = xstrdup(path);
    }
    free(result);
    free(events);
    free(ranks);
    return rc;
}

int run_dir_write(const char *dir, const char *name, const char *text, struct err *err)
{
    char *path = xasprintf("%s/%s", dir, name);
    struct file_beside b;
    int rc = file_beside_open(&b, path, err);

    if (rc == 0)
        fchmod(b.fd, 0600);
    if (rc == 0 && file_write(b.fd, b.tmp, text, strlen(text), 0, err) < 0) {
        file_beside_abandon(&b);
        rc = -1;
    } else if (rc == 0) {
        rc = file_beside_commit(&b, err);
    }
    free(path);
    return rc;
}

int run_dir_write_json(const char *dir, const char *name, const struct js *v,
                       struct err *err)
{
    char *text = NULL;
    size_t size;
    FILE *fp = open_memstream(&text, &size);
    int rc;

    if (!fp)
        return err_set(err, ERR_SYSTEM, "open_memstream: %m");
    js_print(v, fp);
    fclose(fp);
    rc = run_dir_write(dir, name, text, err);
    free(text);
    return rc;
}
