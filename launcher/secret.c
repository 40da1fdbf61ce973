#include "launcher/secret.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"

static const char *const anywhere[] = { "SECRET",      "PASSWORD",  "PASSWD",
                                        "PASSPHRASE",  "APIKEY",    "CREDENTIAL",
                                        "CREDENTIALS", "PRIVATEKEY" };
static const char *const at_end[] = { "TOKEN", "KEY", "PASS", "PAT" };
/* Written together with what they are of: PGPASSWORD, hftoken. */
static const char *const endings[] = { "PASSWORD", "PASSWD", "TOKEN",
                                       "SECRET",   "APIKEY", "PASSPHRASE" };
static const char hidden[] = SECRET_HIDDEN;

static int is_one_of(const char *word, size_t n, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(list[i]) == n && strncasecmp(word, list[i], n) == 0)
            return 1;
    return 0;
}

static int ends_in_one(const char *word, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        size_t k = strlen(endings[i]);
        if (n > k && strncasecmp(word + n - k, endings[i], k) == 0)
            return 1;
    }
    return 0;
}

int secret_name(const char *name, int len)
{
    const char *at = name, *end = name + len;

    while (at < end) {
        size_t n = 0;
        while (at + n < end && !strchr("_-.", at[n]))
            n++;
        if (is_one_of(at, n, anywhere, ARRAY_LEN(anywhere)) || ends_in_one(at, n) ||
            (at + n == end && is_one_of(at, n, at_end, ARRAY_LEN(at_end))))
            return 1;
        at += n + 1;
    }
    return 0;
}

static int is_plain(const char *word)
{
    return *word && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789_-+./:,=@%") == strlen(word);
}

/* The password of "scheme://user:password@host", or NULL. */
static const char *url_password(const char *word, size_t *n)
{
    const char *at = strstr(word, "://"), *end, *colon;

    if (!at)
        return NULL;
    at += 3;
    end = at + strcspn(at, "/?# ");
    while (end > at && *end != '@')
        end--;
    colon = memchr(at, ':', (size_t)(end - at));
    if (!colon || *end != '@' || colon + 1 == end)
        return NULL;
    *n = (size_t)(end - colon - 1);
    return colon + 1;
}

static void add_quoted(struct str *s, const char *text)
{
    str_add(s, "'", 1);
    for (const char *c = text; *c; c++) {
        if (*c == '\'')
            str_adds(s, "'\\''");
        else
            str_add(s, c, 1);
    }
    str_add(s, "'", 1);
}

void shell_add_word(struct str *s, const char *word)
{
    if (is_plain(word))
        str_adds(s, word);
    else
        add_quoted(s, word);
}

/* The word, without the password of a URL; the caller's to free(). */
static char *without_password(const char *word)
{
    size_t n;
    const char *password = url_password(word, &n);

    return password ? xasprintf("%.*s%s%s", (int)(password - word), word, hidden,
                                password + n)
                    : xstrdup(word);
}

static void add_word(struct str *s, const char *word)
{
    char *clean = without_password(word);

    shell_add_word(s, clean);
    free(clean);
}

/* The '=' of "NAME=..." or "--name=...", or NULL. */
static const char *setting_sign(const char *word)
{
    const char *eq = strchr(word, '=');

    return eq && eq > word ? eq : NULL;
}

void secret_add_setting(struct str *s, const char *setting)
{
    const char *eq = setting_sign(setting);
    size_t n;

    if (eq && eq[1] && secret_name(setting, (int)(eq - setting)))
        str_addf(s, "%.*s=%s", (int)(eq - setting), setting, hidden);
    else if (eq && !is_plain(setting)) {
        str_add(s, setting, (size_t)(eq - setting) + 1);
        if (url_password(eq + 1, &n))
            add_word(s, eq + 1);
        else
            add_quoted(s, eq + 1);
    } else {
        add_word(s, setting);
    }
}

/* Is word i the name of a secret whose value is the word behind it? */
static int hides_next(char *const *argv, int i)
{
    const char *word = argv[i];

    return !setting_sign(word) && strncmp(word, "--", 2) == 0 && argv[i + 1] &&
           argv[i + 1][0] != '-' && secret_name(word, (int)strlen(word));
}

/* What stands for word i when its value is secret, or NULL; the caller's to free(). */
static char *redacted(char *const *argv, int i)
{
    const char *word = argv[i], *eq = setting_sign(word);

    if (i > 0 && hides_next(argv, i - 1))
        return xstrdup(hidden);
    if (eq && secret_name(word, (int)(eq - word)))
        return xasprintf("%.*s=%s", (int)(eq - word), word, hidden);
    return NULL;
}

void secret_add_command(struct str *s, char *const *argv)
{
    for (int i = 0; argv[i]; i++) {
        char *instead = redacted(argv, i);
        str_adds(s, i ? " " : "");
        if (instead)
            str_adds(s, instead);
        else
            add_word(s, argv[i]);
        free(instead);
    }
}

void secret_clean_command(char *const *argv, struct strlist *out)
{
    for (int i = 0; argv[i]; i++) {
        char *instead = redacted(argv, i);
        if (!instead)
            instead = without_password(argv[i]);
        strlist_add(out, instead);
        free(instead);
    }
}
