/* secret.h - keep tokens and passwords out of what muster prints and saves.
 *
 * A name is secret when one of its words (cut at '_', '-' or '.', any case) is
 * SECRET, PASSWORD, PASSWD, PASSPHRASE, CREDENTIAL(S), APIKEY or PRIVATEKEY, or
 * its last word is TOKEN, KEY, PASS or PAT: HF_TOKEN, WANDB_API_KEY, --db-password; or
 * a word ends in one of the long ones: PGPASSWORD.  So is the password of a URL,
 * scheme://user:password@host, in any value.  Ranks get the true value; only text for people and files is redacted. */
#ifndef LAUNCHER_SECRET_H
#define LAUNCHER_SECRET_H

struct str;
struct strlist;

#define SECRET_HIDDEN "<redacted>"

int secret_name(const char *name, int len);

/* Append "NAME=VALUE" quoted for sh, the value redacted when NAME is secret. */
void secret_add_setting(struct str *s, const char *setting);

/* Append argv as one line for sh, byte for byte what runs, except the values of
 * "--name=VALUE", "NAME=VALUE" and "--name VALUE" with a secret name. */
void secret_add_command(struct str *s, char *const *argv);

/* The same word by word, unquoted, to be kept; adds to *out. */
void secret_clean_command(char *const *argv, struct strlist *out);

/* Quote one word for sh; plain words stay plain. */
void shell_add_word(struct str *s, const char *word);

#endif
