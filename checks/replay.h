/* replay.h - measurements from a file instead of from machines.
 *
 * Told apart by their content:
 *   events of a run      one JSON object a line, "event":"measure" (events.jsonl)
 *   rails                node, NIC, measured Gb/s, port Gb/s; '#' comments (D04)
 *   nvidia-smi           -q, -L, or --query-gpu as CSV or TSV (replay_smi.h; D06-D08)
 *   limits               /proc/PID/limits of a task (C07) */
#ifndef CHECKS_REPLAY_H
#define CHECKS_REPLAY_H

struct err;
struct measures;

/* ERR_USAGE with FILE:LINE for what cannot be read; nothing is skipped silently. */
int replay_load(const char *path, struct measures *out, struct err *err);

/* The same for a text that is in memory already, changed on the way; path: its name. */
int replay_text(char *text, const char *path, struct measures *out, struct err *err);

#endif
