/* Prints the parameters of tables for iterations of their groups: a file, then a number for each group. */
#include <stdio.h>
#include <stdlib.h>

#include "hexloom_runtime.h"

int main(int argc, char **argv) {
  static uint64_t bytes[1u << 16];
  uint32_t trips[16], parameters[64], k;
  hexloom_view view;
  hexloom_status status;
  size_t length;
  FILE *file = argc < 2 ? NULL : fopen(argv[1], "rb");
  if (file == NULL) return 2;
  length = fread(bytes, 1u, sizeof bytes, file);
  (void)fclose(file);
  if (hexloom_open(bytes, length, &view) != NULL || view.header->parameter_count > 64u) return 2;
  for (k = 0u; k < 16u; k++) trips[k] = (int)k + 2 < argc ? (uint32_t)strtoul(argv[k + 2u], NULL, 10) : HEXLOOM_NONE;
  status = hexloom_fit(&view, trips, parameters);
  (void)printf("%s", hexloom_code_name(status.code));
  if (status.code != HEXLOOM_OK)
    (void)printf(" %llu %llu", (unsigned long long)status.seen, (unsigned long long)status.expected);
  else
    for (k = 0u; k < view.header->parameter_count; k++) (void)printf(" %lu", (unsigned long)parameters[k]);
  (void)printf("\n");
  return 0;
}
