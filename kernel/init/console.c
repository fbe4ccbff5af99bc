#include "console.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "[talos] [initramfs] "

void report(const char *format, ...)
{
	char line[512];
	va_list arguments;
	int kmsg = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
	int size = snprintf(line, sizeof(line), "<3>" PREFIX);

	va_start(arguments, format);
	vsnprintf(line + size, sizeof(line) - size, format, arguments);
	va_end(arguments);
	if (kmsg < 0 || write(kmsg, line, strlen(line)) < 0)
		fprintf(stderr, "%s\n", line + 3);
	if (kmsg >= 0)
		close(kmsg);
}

/* The message stands right above the panic. */
_Noreturn void fail(const char *what)
{
	report("%s: %s", what, errno ? strerror(errno) : "refused");
	exit(1);
}
