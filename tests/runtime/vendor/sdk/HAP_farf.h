/* Messages, as ggml-org/ggml d99724f2 writes them: not for linking. */
#ifndef HAP_FARF_H
#define HAP_FARF_H

#define FARF(level, ...) ((void)0)

#endif
