/* What headers of ggml-org/ggml d99724f2, src/ggml-hexagon/htp (hex-profile.h) use of QuRT beside what hexloom_qurt.c
 * does: for compiling against that tree without the vendor's SDK. */
#ifndef SDK_QURT_H
#define SDK_QURT_H

#include "../qurt.h"

enum {
  QURT_PMUCNT0,
  QURT_PMUCNT1,
  QURT_PMUCNT2,
  QURT_PMUCNT3,
  QURT_PMUCNT4,
  QURT_PMUCNT5,
  QURT_PMUCNT6,
  QURT_PMUCNT7
};

unsigned int qurt_pmu_get(int reg_id);

#endif
