#include "launcher/secret.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"

static const char *const anywhere[] = { "SECRET",      "PASSWORD",  "PASSWD",
                                        "PASSPHRASE",  "APIKEY",    "CREDENTIAL",
                                        "CREDENTIALS", "PRIVATEKEY" };
static const char *const at_end[] = { "TOKEN", "KEY" };
static const char hidden[] = "<redacted>";

static int is_one_of(const char *word, size_t n, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(list[i]) == n && strncasecmp(word, list[i], n) == 0)
            return 1;
    return 0;
}

int secret_name(const char *name, int len)
{
    const char *at = name, *end = name + len;

    while (at < end) {
        size_t n = 0;
        while (at + n < end && !strchr("_-.", at[n]))
            n++;
        if (is_one_of(at, n, anywhere, ARRAY_LEN(anywhere)) ||
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

/* The '=' of "NAME=..." or "--name=...", or NULL. */
static const char *setting_sign(const char *word)
{
    const char *eq = strchr(word, '=');

    return eq && eq > word ? eq : NULL;
}

void secret_add_setting(struct str *s, const char *setting)
{
    const char *eq = setting_sign(setting);

    if (eq && eq[1] && secret_name(setting, (int)(eq - setting)))
        str_addf(s, "%.*s=%s", (int)(eq - setting), setting, hidden);
    else if (eq && !is_plain(setting)) {
        str_add(s, setting, (size_t)(eq - setting) + 1);
        add_quoted(s, eq + 1);
    } else {
        shell_add_word(s, setting);
    }
}

void secret_add_command(struct str *s, char *const *argv)
{
    int hide_next = 0;

    for (int i = 0; argv[i]; i++) {
        const char *word = argv[i], *eq = setting_sign(word);
        str_adds(s, i ? " " : "");
        if (hide_next)
            str_adds(s, hidden);
        else if (eq && secret_name(word, (int)(eq - word)))
            str_addf(s, "%.*s=%s", (int)(eq - word), word, hidden);
        else
            shell_add_word(s, word);
        hide_next = !eq && strncmp(word, "--", 2) == 0 && argv[i + 1] &&
                    argv[i + 1][0] != '-' && secret_name(word, (int)strlen(word));
    }
}
