// CHECK: an invariant that, when broken, leaves no sane way on. Prints file, line and condition to stderr and aborts.
// For untrusted input and for anything the environment can cause use Status instead.
#pragma once

namespace paceline {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace paceline

#define CHECK(condition)                                       \
  do {                                                         \
    if (!(condition)) [[unlikely]]                             \
      ::paceline::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)
