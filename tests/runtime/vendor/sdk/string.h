#include <stddef.h>
void *memset(void *to, int value, size_t bytes);
