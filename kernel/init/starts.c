#include "starts.h"

#include "console.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LOADER "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f" /* the vendor of boot loaders' variables */
#define SELECTED "LoaderEntrySelected-" LOADER        /* the entry that was started */
#define ENTRIES "LoaderEntries-" LOADER               /* all of them, one text after the other */
#define ONCE "LoaderEntryOneShot-" LOADER             /* the entry to be started the next time, and only then */
#define STARTS "UnconfirmedStarts-987bf9ed-892c-4a81-81b4-70c9b57e6222"
#define KEPT 7 /* NON_VOLATILE, BOOTSERVICE_ACCESS, RUNTIME_ACCESS */
#define MAX_PATH 256
#define MAX_TEXT 2048

#define ATTEMPTS 3 /* starts of a slot, then it is the other one's turn */
#define MAX_COUNT (2 * ATTEMPTS)

/* A text, or several, as boot loaders have them in a variable: UTF-16, each with a NUL at its end. */
struct texts {
	uint32_t attributes;
	uint16_t units[MAX_TEXT];
};

/* The entry that starts a slot by the first profile of its UKI. */
struct entry {
	uint32_t attributes;
	uint16_t name[sizeof("talos-a.efi")];
};

/* The slot that was started first, and how many starts followed without a confirmation, that one among them: "B3". */
struct starts {
	uint32_t attributes;
	char slot, count;
};
#define STARTS_SIZE (offsetof(struct starts, count) + 1)

static ssize_t read_variable(const char *folder, const char *name, void *value, size_t size)
{
	char path[MAX_PATH];
	int file;
	ssize_t found;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return -1;
	found = read(file, value, size);
	close(file);
	return found;
}

/* The kernel guards variables that the UEFI specification does not define against changes. */
static void unlock(const char *path)
{
	int flags, file = open(path, O_RDONLY | O_CLOEXEC);

	if (file < 0)
		return;
	if (ioctl(file, FS_IOC_GETFLAGS, &flags) == 0 && flags & FS_IMMUTABLE_FL) {
		flags &= ~FS_IMMUTABLE_FL;
		ioctl(file, FS_IOC_SETFLAGS, &flags);
	}
	close(file);
}

/* In one piece, which the firmware takes or refuses. */
static int write_variable(const char *folder, const char *name, const void *value, size_t size)
{
	char path[MAX_PATH];
	int file, is_written;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	unlock(path);
	file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	is_written = file >= 0 && write(file, value, size) == (ssize_t)size;
	if (!is_written)
		report("the firmware does not keep %s: %s", name, strerror(errno));
	if (file >= 0)
		close(file);
	return is_written;
}

static struct entry make_entry(char slot)
{
	static const char name[] = "talos-?.efi";
	struct entry entry = { .attributes = KEPT };

	for (size_t i = 0; i < sizeof(name); i++)
		entry.name[i] = name[i] == '?' ? slot - 'A' + 'a' : name[i];
	return entry;
}

static int has_entry(const char *folder, const char *variable, char slot)
{
	struct texts texts;
	struct entry entry = make_entry(slot);
	ssize_t size = read_variable(folder, variable, &texts, sizeof(texts));
	size_t count = size < (ssize_t)sizeof(texts.attributes) ? 0 : (size - sizeof(texts.attributes)) / sizeof(*texts.units);
	size_t length = sizeof(entry.name) / sizeof(*entry.name);

	for (size_t i = 0; i + length <= count; i++)
		if ((i == 0 || texts.units[i - 1] == 0) && !memcmp(texts.units + i, entry.name, sizeof(entry.name)))
			return 1;
	return 0;
}

static char other_slot(char slot)
{
	return slot == 'A' ? 'B' : 'A';
}

/* No count of starts where the variable is none of this program's. */
static struct starts read_starts(const char *folder)
{
	struct starts starts;

	if (read_variable(folder, STARTS, &starts, sizeof(starts)) != STARTS_SIZE || (starts.slot != 'A' && starts.slot != 'B') ||
	    starts.count < '1' || starts.count > '0' + MAX_COUNT)
		starts.count = '0';
	starts.attributes = KEPT;
	return starts;
}

int count_start(const char *folder)
{
	char slot = has_entry(folder, SELECTED, 'A') ? 'A' : has_entry(folder, SELECTED, 'B') ? 'B' : 0;
	struct starts starts = read_starts(folder);
	int count = starts.count - '0';
	struct entry other;

	if (!slot || !has_entry(folder, ENTRIES, other_slot(slot)))
		return 0;
	if (count == MAX_COUNT) /* neither slot has come up: the default is started from now on, without wear */
		return count;
	if (count == 0 || (count < ATTEMPTS && slot != starts.slot)) { /* another slot is a person's choice */
		starts.slot = slot;
		count = 0;
	}
	starts.count = '0' + ++count;
	if (!write_variable(folder, STARTS, &starts, STARTS_SIZE))
		return 0;
	other = make_entry(other_slot(starts.slot));
	if (count >= ATTEMPTS && count < MAX_COUNT)
		write_variable(folder, ONCE, &other, sizeof(other));
	return count;
}
