// The first program of the emulated machine. It runs /program with its own arguments and environment, sends what that
// writes through the first parallel port and how it ended through the second, and switches the machine off.
#include <sys/io.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

constexpr unsigned short first_printer = 0x378, second_printer = 0x278, bochs_shutdown = 0x8900;

// Bochs writes what a printer is given to a file, at once; a serial port would take as long as a real line.
static void print(unsigned short port, char const* text, ssize_t size) {
  for (ssize_t i = 0; i < size; ++i) {
    outb(static_cast<unsigned char>(text[i]), port);
    outb(0x0d, port + 2);  // strobe on
    outb(0x0c, port + 2);  // and off
  }
}

int main(int argc, char** argv) {
  int ends[2];
  if (argc < 1 || pipe(ends) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    execv("/program", argv);
    dprintf(2, "cannot run the program: %s\n", strerror(errno));
    _exit(126);
  }
  close(ends[1]);
  if (child < 0 || iopl(3) != 0) return 1;

  static char text[65536];
  ssize_t size;
  while ((size = read(ends[0], text, sizeof text)) > 0) print(first_printer, text, size);

  int status = 0;
  waitpid(child, &status, 0);
  size = WIFSIGNALED(status) ? snprintf(text, sizeof text, "signal %d\n", WTERMSIG(status))
                             : snprintf(text, sizeof text, "exit %d\n", WEXITSTATUS(status));
  print(second_printer, text, size);
  for (char const* word = "Shutdown"; *word != '\0'; ++word) outb(static_cast<unsigned char>(*word), bochs_shutdown);
  for (;;) pause();
}
