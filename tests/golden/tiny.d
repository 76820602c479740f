tiny.h tiny.c tiny.json tiny_selftest.c: schedule.json
tiny.o: tiny.c tiny.h hexloom_tables.h hexloom_layout.h
tiny_selftest.o: tiny_selftest.c tiny.h hexloom_tables.h hexloom_layout.h hexloom_selftest.h hexloom_selftest_base.h hexloom_selftest_memory.h hexloom_selftest_tasks.h hexloom_selftest_run.h
