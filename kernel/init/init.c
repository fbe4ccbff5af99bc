/*
 * The first program the kernel runs, from the initramfs: checks the system image and the extensions that are with it,
 * mounts them and hands over to the real PID 1.  Whatever fails is said on the console and ends in a kernel panic,
 * which reboots into the previous system when this one was on trial.
 */
#include "sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/watchdog.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define IMAGE "/rootfs.sqsh"
#define DIGEST "/rootfs.sqsh.sha256" /* 64 hexadecimal digits */
#define EXTENSIONS "/extensions"
#define DIGESTS EXTENSIONS "/sha256sums" /* a line for each extension: digest, two blanks, name of its image */
#define LAYERS "/layers"
#define MAX_EXTENSIONS 32
#define ROOT "/root"
#define INSTALL ROOT "/usr/install" /* what this system came from, for installations to a disk */
#define PREFIX "[talos] [initramfs] "
#define TRIAL "talos.trial" /* the argument of a system that the boot loader starts once */
#define TRIAL_TIMEOUT 60    /* seconds until PID 1 has to give the watchdog its own time-out */
#define WATCHDOGS 8

/* One line of the kernel log; the console shows it because its level is "error". */
static void say(const char *format, ...)
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

/* The kernel panics when its first process ends; the message stands right above it. */
static _Noreturn void fail(const char *what)
{
	say("%s: %s", what, errno ? strerror(errno) : "refused");
	exit(1);
}

static void make_folder(const char *path)
{
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		fail(path);
}

static void mount_or_fail(const char *source, const char *target, const char *type, unsigned long flags)
{
	make_folder(target);
	if (mount(source, target, type, flags, NULL) < 0)
		fail(target);
}

static int is_on_trial(void)
{
	char line[4096];
	int file = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t size = file < 0 ? -1 : read(file, line, sizeof(line) - 1);
	int found = 0;

	if (file >= 0)
		close(file);
	line[size < 0 ? 0 : size] = '\0';
	for (char *word = strtok(line, " \n"); word && !found; word = strtok(NULL, " \n"))
		found = !strcmp(word, TRIAL);
	return found;
}

/* The kernel's own timer belongs to no device; it is better than none when only this program or PID 1 hangs. */
static int find_watchdog(void)
{
	char path[64];
	int found = -1;

	for (int i = 0; i < WATCHDOGS; i++) {
		snprintf(path, sizeof(path), "/sys/class/watchdog/watchdog%d/device", i);
		if (access(path, F_OK) == 0)
			return i;
		snprintf(path, sizeof(path), "/sys/class/watchdog/watchdog%d", i);
		if (found < 0 && access(path, F_OK) == 0)
			found = i;
	}
	return found;
}

/* Whatever hangs from here on ends the trial: closed without the driver's magic letter, the device stays armed. */
static void arm_watchdog(void)
{
	char path[32];
	int seconds = TRIAL_TIMEOUT, number = find_watchdog(), device;

	snprintf(path, sizeof(path), "/dev/watchdog%d", number);
	device = number < 0 ? -1 : open(path, O_WRONLY | O_CLOEXEC);
	if (device < 0) {
		say("no watchdog guards the trial");
		return;
	}
	if (ioctl(device, WDIOC_SETTIMEOUT, &seconds) < 0)
		say("%s keeps its own time-out: %s", path, strerror(errno));
	close(device);
}

/* The image's binaries are built for the second microarchitecture level (SSE4.2, POPCNT, CMPXCHG16B). */
static void check_processor(void)
{
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("x86-64-v2")) {
		errno = 0;
		fail("this processor lacks x86-64-v2, which the system needs");
	}
}

static void read_digest(char expected[2 * SHA256_DIGEST + 1])
{
	FILE *file = fopen(DIGEST, "re");

	if (!file)
		fail("the digest of the system image, " DIGEST);
	errno = 0;
	if (fscanf(file, "%64[0-9a-f]", expected) != 1 || strlen(expected) != 2 * SHA256_DIGEST)
		fail("the digest of the system image, " DIGEST ", is not 64 hexadecimal digits");
	fclose(file);
}

static void check_image(int image, const char *path, const char *expected)
{
	static uint8_t buffer[1 << 20];
	char found[2 * SHA256_DIGEST + 1];
	uint8_t digest[SHA256_DIGEST];
	struct sha256 hash;
	ssize_t size;

	sha256_begin(&hash);
	while ((size = read(image, buffer, sizeof(buffer))) > 0)
		sha256_add(&hash, buffer, size);
	if (size < 0)
		fail(path);
	sha256_end(&hash, digest);
	for (int i = 0; i < SHA256_DIGEST; i++)
		sprintf(found + 2 * i, "%02x", digest[i]);
	if (strcmp(found, expected) != 0) {
		say("%s has the digest %s, expected %s", path, found, expected);
		errno = 0;
		fail("the system image is corrupt; boot the other slot or install again");
	}
}

/* Mounts an image by a free loop device; the kernel lets go of the device when the mount ends. */
static void attach_image(int image, const char *target)
{
	struct loop_config config = {
		.fd = image,
		.info.lo_flags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR,
	};
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
	char device[32];
	int loop;

	if (number < 0)
		fail("/dev/loop-control");
	snprintf(device, sizeof(device), "/dev/loop%d", number);
	loop = open(device, O_RDONLY | O_CLOEXEC);
	if (loop < 0 || ioctl(loop, LOOP_CONFIGURE, &config) < 0)
		fail(device);
	close(control);
	make_folder(target);
	if (mount(device, target, "squashfs", MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
		fail(target);
	close(loop); /* only now: closing the last user earlier would clear the device */
}

static void mount_image(const char *path, const char *expected, const char *target)
{
	int image = open(path, O_RDONLY | O_CLOEXEC);

	if (image < 0)
		fail(path);
	check_image(image, path, expected);
	attach_image(image, target);
	close(image);
}

/*
 * The layers of one overlay without an upper one, so it can't be written to.  The system image is the topmost: whatever
 * an extension holds, no file of the system is replaced or hidden by it.
 */
static void mount_layers(FILE *digests, const char *expected)
{
	char options[1024] = "lowerdir=" LAYERS "/system", digest[2 * SHA256_DIGEST + 1], name[96];
	char path[128], target[32];
	int count = 0, found;

	make_folder(LAYERS);
	mount_image(IMAGE, expected, LAYERS "/system");
	errno = 0;
	while ((found = fscanf(digests, "%64[0-9a-f]  %95[a-z0-9.-]\n", digest, name)) == 2) {
		if (count == MAX_EXTENSIONS || strlen(digest) != 2 * SHA256_DIGEST)
			fail(DIGESTS);
		snprintf(path, sizeof(path), EXTENSIONS "/%s", name);
		snprintf(target, sizeof(target), LAYERS "/%d", count++);
		mount_image(path, digest, target);
		strcat(strcat(options, ":"), target);
		errno = 0;
	}
	if (found != EOF || ferror(digests))
		fail(DIGESTS);
	if (mount("overlay", ROOT, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, options) < 0)
		fail("the overlay of the system image and its extensions");
	/* The overlay holds on to them. */
	for (umount2(LAYERS "/system", MNT_DETACH); count-- > 0; umount2(target, MNT_DETACH))
		snprintf(target, sizeof(target), LAYERS "/%d", count);
}

static void mount_system(void)
{
	char expected[2 * SHA256_DIGEST + 1] = "";
	FILE *digests = fopen(DIGESTS, "re");

	read_digest(expected);
	make_folder(ROOT);
	if (digests) {
		mount_layers(digests, expected);
		fclose(digests);
	} else {
		mount_image(IMAGE, expected, ROOT);
	}
}

/*
 * Nothing else is as sure to be this very release: an installer copies the image and its digest from here, and the
 * kernel if the boot loader added it to the initramfs.  This costs no memory, the image's pages are in use anyway.
 */
static void bind_initramfs(void)
{
	const unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;

	if (mount("/", INSTALL, NULL, MS_BIND, NULL) < 0 || mount(NULL, INSTALL, NULL, MS_REMOUNT | MS_BIND | flags, NULL) < 0)
		fail(INSTALL);
}

static void switch_root(void)
{
	static const char *const moved[] = { "/dev", "/proc", "/sys" };
	char target[32];

	for (size_t i = 0; i < sizeof(moved) / sizeof(*moved); i++) {
		snprintf(target, sizeof(target), ROOT "%s", moved[i]);
		if (mount(moved[i], target, NULL, MS_MOVE, NULL) < 0)
			fail(target);
	}
	if (chdir(ROOT) < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0)
		fail("switching to the system image");
}

int main(void)
{
	char *const arguments[] = { "/sbin/init", NULL };

	mount_or_fail("devtmpfs", "/dev", "devtmpfs", MS_NOSUID | MS_NOEXEC);
	mount_or_fail("proc", "/proc", "proc", MS_NOSUID | MS_NOEXEC | MS_NODEV);
	mount_or_fail("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NOEXEC | MS_NODEV);
	if (is_on_trial())
		arm_watchdog();
	check_processor();
	mount_system();
	bind_initramfs();
	switch_root();
	execv(arguments[0], arguments);
	fail(arguments[0]);
}
