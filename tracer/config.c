#include "tracer/config.h"

#include <stdlib.h>

#include "lib/ring/layout.h"

// A number in decimal, or hexadecimal behind "0x"; `otherwise` for anything else. Not strtoul: newer headers give that
// a symbol that older systems lack.
static uint32_t ReadNumber(const char* name, uint32_t otherwise) {
  const char* text = getenv(name);
  if (text == NULL || text[0] == 0) return otherwise;
  uint64_t value = 0, base = 10;
  if (text[0] == '0' && text[1] == 'x') {
    base = 16;
    text += 2;
  }
  for (; *text != 0; text++) {
    const char lower = (char)(*text | 0x20);
    uint64_t digit = 99;
    if (*text >= '0' && *text <= '9') digit = (uint64_t)(*text - '0');
    if (lower >= 'a' && lower <= 'f') digit = (uint64_t)(lower - 'a') + 10;
    value = value * base + digit;
    if (digit >= base || value > 0x7fffffffu) return otherwise;
  }
  return (uint32_t)value;
}

static const char* ReadText(const char* name, const char* otherwise) {
  const char* text = getenv(name);
  return text == NULL || text[0] == 0 ? otherwise : text;
}

static int32_t ReadWorldRank(void) {
  static const char* const kNames[] = {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};
  for (unsigned i = 0; i < sizeof kNames / sizeof kNames[0]; i++) {
    const uint32_t rank = ReadNumber(kNames[i], 0xffffffffu);
    if (rank != 0xffffffffu) return (int32_t)rank;
  }
  return -1;
}

void ReadTracerConfig(struct TracerConfig* config) {
  config->folder = ReadText("PACELINE_TRACE_DIR", "/run/paceline/trace");
  config->run = ReadText("PACELINE_RUN", NULL);
  config->forward = ReadText("PACELINE_TRACE_FORWARD", NULL);
  config->world_rank = ReadWorldRank();
  config->mask = ReadNumber("PACELINE_TRACE_MASK", 0);
  config->budget_permille = ReadNumber("PACELINE_TRACE_BUDGET_PERMILLE", 50);
  const uint32_t wanted = ReadNumber("PACELINE_TRACE_RECORDS", 8192);
  config->records_per_writer = 64;
  while (config->records_per_writer < wanted && config->records_per_writer < RING_MAX_RECORDS) {
    config->records_per_writer *= 2;
  }
}
