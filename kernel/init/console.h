/* The first program's messages: lines of the kernel's log, which the console shows. */
#ifndef CONSOLE_H
#define CONSOLE_H

/* One line; the console shows it because its level is "error". */
__attribute__((format(printf, 1, 2))) void report(const char *format, ...);

/* Prints what failed, and errno's reason if there is one.  The kernel panics when its first process ends. */
_Noreturn void fail(const char *what);

#endif
