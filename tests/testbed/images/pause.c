// The process that holds a pod's namespaces: sleeps, and reaps what is orphaned into its PID namespace.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void Stop(int signal_number) {
  (void)signal_number;
  _exit(0);
}

static void Reap(int signal_number) {
  (void)signal_number;
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
}

int main(void) {
  signal(SIGINT, Stop);
  signal(SIGTERM, Stop);
  signal(SIGCHLD, Reap);
  for (;;) pause();
}
