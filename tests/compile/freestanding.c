/* The self test without any library, as a device without one would call it. */
#include "hexloom_selftest.h"

uint32_t scratch[4096];
int check(const hexloom_view *view);

int check(const hexloom_view *view) {
  const size_t words = hexloom_selftest_words(view->header);
  if (words == 0u || words > sizeof scratch / sizeof scratch[0]) return -1;
  return hexloom_selftest(view, scratch).problem == NULL ? 0 : 1;
}
