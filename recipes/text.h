/* text.h - UTF-8, quoting and ${VARIABLES} of recipe text. */
#ifndef RECIPES_TEXT_H
#define RECIPES_TEXT_H

#include <stddef.h>

struct err;
struct str;

/* Well-formed UTF-8: no overlong forms, no surrogates, at most U+10FFFF. */
int text_is_utf8(const char *text);

/* Append `text` (UTF-8) as a YAML scalar that is read back as the same text:
 * plain where that is safe, else in double quotes, "${" as "$${". */
void text_quote(struct str *out, const char *text);

/* Fill in ${VAR} and ${VAR:-default} from the environment; $${ stands for "${".
 * Once: what was filled in is not looked through again.  An unset variable
 * without a default is an error, an empty one counts as unset for :-.
 * *filled: something was.  *out is the caller's to free(). */
int text_expand(const char *text, char **out, int *filled, struct err *err);

#endif
