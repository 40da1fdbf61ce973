/* ssh_words.h - how OpenSSH's files are cut into words, and its patterns.
 *
 * Source: ssh_config(5), sshd(8) "SSH_KNOWN_HOSTS FILE FORMAT", and what OpenSSH 9.2
 * does where those are silent. */
#ifndef LAUNCHER_SSH_WORDS_H
#define LAUNCHER_SSH_WORDS_H

struct strlist;

/* Cut the arguments of a keyword: blanks separate, ' and " quote, a backslash keeps
 * a quote, a backslash or (outside quotes) a blank; '#' at the start of a word ends the
 * line.  -1: a quote is not closed. */
int ssh_words_split(const char *text, struct strlist *out);

/* "Keyword value", "Keyword=value", "\"Keyword\" = value".  *keyword is in lower case
 * and the caller's to free(); the result is where the arguments begin, inside `line`,
 * without the end's blanks, or NULL: nothing is there (a comment, an empty line).
 * `line` is changed. */
char *ssh_words_keyword(char *line, char **keyword);

/* '*' any run, '?' any one byte; the case of letters counts. */
int ssh_pattern_matches(const char *text, const char *pattern);

/* A comma list of patterns, '!' in front negates: 1 one matches and no negated one
 * does, 0 none matches, -1 a negated one does.  Letters match in either case when
 * `fold` is set (host names). */
int ssh_patterns_match(const char *text, const char *list, int fold);

/* "[user@]host[:port]", "ssh://...", "[address]:port".  *user and *host are the
 * caller's to free(); *user NULL and *port 0 when not given.  -1: it is none. */
int ssh_words_address(const char *text, char **user, char **host, int *port);

/* 1..65535, or 0: it is none. */
int ssh_words_port(const char *text);

#endif
