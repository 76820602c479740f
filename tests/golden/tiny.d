tiny.h tiny.c tiny.json tiny_selftest.c: schedule.json
tiny.o: tiny.c tiny.h hexloom_tables.h
tiny_selftest.o: tiny_selftest.c tiny.h hexloom_tables.h hexloom_selftest.h
