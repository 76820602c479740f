/* Reads canonical bytes of tables, each after its length in 4 bytes, and prints what the self test says of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hexloom_selftest.h"

static const unsigned char *cut(const unsigned char **at, size_t count, size_t bytes) {
  const unsigned char *start = *at;
  *at += count * bytes;
  return start;
}

static void judge(const unsigned char *data, size_t length) {
  hexloom_header header;
  hexloom_view view;
  hexloom_verdict verdict;
  size_t bytes, words;
  const unsigned char *at = data + sizeof header;
  uint32_t *memory;
  if (length < sizeof header) {
    printf("too short\n");
    return;
  }
  memcpy(&header, data, sizeof header);
  view.header = &header;
  bytes = sizeof header + sizeof(hexloom_task) * header.task_count + sizeof(hexloom_operand) * header.operand_count +
          sizeof(hexloom_event) * header.event_count +
          sizeof(hexloom_queue) * header.queue_count + sizeof(hexloom_entry) * header.entry_count +
          sizeof(hexloom_buffer) * header.buffer_count + sizeof(hexloom_binding) * header.binding_count +
          sizeof(hexloom_loop) * header.loop_count + sizeof(hexloom_body) * header.body_count +
          sizeof(hexloom_parameter) * header.parameter_count + sizeof(hexloom_descriptor) * header.descriptor_count +
          sizeof(hexloom_advance) * header.advance_count;
  if (bytes != length) {
    printf("another length\n");
    return;
  }
  view.tasks = (const hexloom_task *)(const void *)cut(&at, header.task_count, sizeof(hexloom_task));
  view.operands = (const hexloom_operand *)(const void *)cut(&at, header.operand_count, sizeof(hexloom_operand));
  view.events = (const hexloom_event *)(const void *)cut(&at, header.event_count, sizeof(hexloom_event));
  view.queues = (const hexloom_queue *)(const void *)cut(&at, header.queue_count, sizeof(hexloom_queue));
  view.entries = (const hexloom_entry *)(const void *)cut(&at, header.entry_count, sizeof(hexloom_entry));
  view.buffers = (const hexloom_buffer *)(const void *)cut(&at, header.buffer_count, sizeof(hexloom_buffer));
  view.bindings = (const hexloom_binding *)(const void *)cut(&at, header.binding_count, sizeof(hexloom_binding));
  view.loops = (const hexloom_loop *)(const void *)cut(&at, header.loop_count, sizeof(hexloom_loop));
  view.bodies = (const hexloom_body *)(const void *)cut(&at, header.body_count, sizeof(hexloom_body));
  view.parameters = (const hexloom_parameter *)(const void *)cut(&at, header.parameter_count, sizeof(hexloom_parameter));
  view.descriptors =
      (const hexloom_descriptor *)(const void *)cut(&at, header.descriptor_count, sizeof(hexloom_descriptor));
  view.advances = (const hexloom_advance *)(const void *)cut(&at, header.advance_count, sizeof(hexloom_advance));
  words = hexloom_selftest_words(&header);
  memory = (uint32_t *)malloc(sizeof(uint32_t) * (words + 1u));
  if (memory == NULL) {
    printf("out of memory\n");
    return;
  }
  verdict = hexloom_selftest(&view, memory);
  printf("%s\n", verdict.problem == NULL ? "ok" : verdict.problem);
  free(memory);
}

int main(void) {
  uint32_t length;
  while (fread(&length, sizeof length, 1u, stdin) == 1u) {
    unsigned char *data = (unsigned char *)malloc(length + 1u);
    if (data == NULL || fread(data, 1u, length, stdin) != length) return 1;
    judge(data, length);
    free(data);
  }
  return 0;
}
