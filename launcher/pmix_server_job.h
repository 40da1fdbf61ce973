/* pmix_server_job.h - the job as PMIx wants it described.  Inner to pmix_server. */
#ifndef LAUNCHER_PMIX_SERVER_JOB_H
#define LAUNCHER_PMIX_SERVER_JOB_H

#include <pmix_server.h>

#include "launcher/pmix_server.h"

/* For PMIx_server_init().  PMIX_DATA_ARRAY_DESTRUCT() frees it. */
void pmixd_describe_server(const struct pmixd_config *c, pmix_data_array_t *array);

/* For PMIx_server_register_nspace(): node map, process map and the data of each
 * rank.  Returns the number of ranks on this node. */
int pmixd_describe_job(const struct pmixd_config *c, pmix_data_array_t *array,
                       struct err *err);

#endif
