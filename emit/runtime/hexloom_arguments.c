/* SPDX-License-Identifier: Apache-2.0 */
#include "hexloom_arguments.h"

#include <stdlib.h>
#include <string.h>

#include "hexloom_tables.h"

static int read_number(const char *text, uint64_t *number) {
  char *end;
  *number = strtoull(text, &end, 10);
  return end != text && *end == '\0';
}

/* TASK:MS or TASK:MS:SLICE */
static int read_slow(hexloom_arguments *with, const char *text) {
  uint64_t *const parts[] = {&with->slow, &with->slow_ms, &with->slow_slice};
  size_t k;
  for (k = 0u; k < 3u; k++) {
    char *end;
    *parts[k] = strtoull(text, &end, 10);
    if (end == text || (*end != '\0' && *end != ':')) return 0;
    if (*end == '\0') return k >= 1u;
    text = end + 1;
  }
  return 0;
}

static int read_argument(hexloom_arguments *with, const char *argument) {
  const struct {
    const char *name;
    uint64_t *number;
  } numbers[] = {{"runs", &with->runs},       {"seed", &with->seed},           {"delay_us", &with->delay_us},
                 {"timeout_ms", &with->timeout_ms}, {"transfer_us", &with->transfer_us}, {"spins", &with->spins},
                 {"ring", &with->ring},       {"records", &with->records},     {"stack", &with->stack},
                 {"main", &with->main_queue}, {"prove", &with->prove}, {"stay", &with->stay}, {"lost", &with->lost},
                 {"failing", &with->failing}, {"fail", &with->fail},           {"silent", &with->silent},
                 {"short", &with->too_short}};
  const struct {
    const char *name;
    const char **file;
  } files[] = {{"tables", &with->tables},   {"flow", &with->flow},     {"trace", &with->trace},
               {"numbers", &with->numbers}, {"memory", &with->memory}, {"result", &with->result},
               {"plain", &with->plain},     {"parameters", &with->parameters}, {"tensors", &with->tensors}};
  const char *value = strchr(argument, '=');
  const size_t length = value == NULL ? 0u : (size_t)(value - argument);
  size_t k;
  if (value == NULL) return 0;
  value++;
  for (k = 0u; k < sizeof files / sizeof files[0]; k++)
    if (strlen(files[k].name) == length && strncmp(argument, files[k].name, length) == 0) {
      *files[k].file = value;
      return 1;
    }
  if (strncmp(argument, "slow=", 5u) == 0) {
    return read_slow(with, value);
  } else {
    for (k = 0u; k < sizeof numbers / sizeof numbers[0]; k++)
      if (strlen(numbers[k].name) == length && strncmp(argument, numbers[k].name, length) == 0) {
        if (strcmp(value, "none") != 0) return read_number(value, numbers[k].number);
        *numbers[k].number = HEXLOOM_NONE;
        return 1;
      }
    return 0;
  }
  return 1;
}

int hexloom_read_arguments(hexloom_arguments *with, int argc, char **argv) {
  int k;
  (void)memset(with, 0, sizeof *with);
  with->runs = 1u;
  with->timeout_ms = 5000u;
  with->spins = 200u;
  with->fail = with->silent = with->slow = with->slow_slice = with->too_short = HEXLOOM_NONE;
  for (k = 1; k < argc; k++)
    if (!read_argument(with, argv[k])) return 0;
  return 1;
}
