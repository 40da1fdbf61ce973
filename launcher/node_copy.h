/* node_copy.h - how far muster is on its way to hosts that had none.  Inner to node.c. */
#ifndef LAUNCHER_NODE_COPY_H
#define LAUNCHER_NODE_COPY_H

struct node_link;
struct nodes;

/* Take lines of NODE_PROGRESS out of l->words. */
void node_take_progress(struct node_link *l);

/* A line to the user every few seconds, where copying takes so long. */
void nodes_show_progress(const struct nodes *nodes);

#endif
