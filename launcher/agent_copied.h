/* agent_copied.h - an agent that runs from the folder it was copied to (bundle.h). */
#ifndef LAUNCHER_AGENT_COPIED_H
#define LAUNCHER_AGENT_COPIED_H

struct env;
struct str;

/* Below the remote home; each build has a folder of its own there, named by its id, with
 * the folders of bundle.h in it. */
#define AGENT_COPIED_FOLDER ".cache/muster"

/* A line for sh that starts the agent of the folder with this id: the libraries and
 * plug-ins beside it are the ones it takes. */
void agent_copied_command(struct str *s, const char *id);

/* Is this program one of such a folder?  (MUSTER_COPIED says so.) */
int agent_copied(void);

/* What muster's own programs need there, in the environment of a rank. */
void agent_copied_env(struct env *env);

/* The folder is in use: say so to the agents of other builds, at most once a minute. */
void agent_copied_touch(void);

/* Remove folders of other builds that nobody has touched for an hour. */
void agent_copied_clean(void);

#endif
