// A thread that has truly ended: join returns a little before the kernel forgets the thread, and a writer of a ring is
// free only when the thread that held it is gone. Without the wait a test sees the writer taken now and then. Used by
// the tests of the ring and of the tracer; may be called on any thread, also inside another such thread.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <thread>

namespace paceline::ring {

// Runs `body` on a thread of its own and returns when the kernel knows that thread no more. Blocks.
inline void OnThreadThatEnds(const std::function<void()>& body) {
  pid_t id = 0;
  std::thread([&] {
    id = static_cast<pid_t>(::syscall(SYS_gettid));
    body();
  }).join();
  while (::syscall(SYS_tgkill, ::getpid(), id, 0) == 0) std::this_thread::yield();
}

}  // namespace paceline::ring
