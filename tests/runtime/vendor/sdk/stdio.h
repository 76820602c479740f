#include <stddef.h>
int snprintf(char *text, size_t size, const char *format, ...);
