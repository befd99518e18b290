/* Holds a pod's namespaces: sleeps until it is told to end, and reaps orphans when the pod shares its process namespace.
   Without a C library, so that the image is one file of a few kilobytes. The signals are blocked and taken one by one:
   for the first process of a namespace, the kernel queues a blocked signal but drops an unhandled one. */

#include <asm/signal.h>
#include <asm/unistd.h>

#define WNOHANG 1

#if defined(__x86_64__)
static long call(long number, long a, long b, long c, long d) {
  register long r10 __asm__("r10") = d;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
static long call(long number, long a, long b, long c, long d) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  return x0;
}
#else
#error "system calls of this architecture are not known"
#endif

__attribute__((noreturn)) static void leave(long code) {
  for (;;) {
    call(__NR_exit_group, code, 0, 0, 0);
  }
}

void _start(void) {
  const unsigned long set = 1UL << (SIGINT - 1) | 1UL << (SIGTERM - 1) | 1UL << (SIGCHLD - 1);
  if (call(__NR_rt_sigprocmask, SIG_BLOCK, (long)&set, 0, sizeof set) < 0) {
    leave(1);
  }
  for (;;) {
    switch (call(__NR_rt_sigtimedwait, (long)&set, 0, 0, sizeof set)) {
      case SIGINT:
      case SIGTERM:
        leave(0);
      case SIGCHLD:
        while (call(__NR_wait4, -1, 0, WNOHANG, 0) > 0) {
        }
    }
  }
}
