/* site_run.h: the draws of a problem of sites dealt to threads. */
#ifndef PN_INFER_SITES_SITE_RUN_H
#define PN_INFER_SITES_SITE_RUN_H

#include "site_pass.h"

/* Sums over the draws of all data, by panels: of derivatives g and of g eps. */
typedef struct pni_site_sums {
  double *value;         /* [N] of log p */
  double *site;          /* [N] of what the site says; NULL without totals */
  double *sum, *product; /* totals: [P] each */
  double *each;          /* else [N, 2, P] */
} pni_site_sums;

/* Fills the sums, which are 0 on entry, in rooms of about `budget` bytes: p->totals says which. hold and tile are set
 * here. */
pn_status pni_site_run(pn_context *c, pni_site_problem *p, int dtype, size_t budget, const pni_site_sums *sums);
/* Bytes that the nodes of a datum take in all rooms of a problem without totals. */
size_t pni_site_held(const pni_site_problem *p, int dtype);

#endif
