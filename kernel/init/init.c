/*
 * The first program the kernel runs, from the initramfs: mounts the system image and the extensions that are with it, so
 * that the kernel compares what is read of them with their root hashes, and hands over to the real PID 1.  Whatever fails
 * is printed on the console and ends in a kernel panic, which reboots into the previous system when this one was on trial.
 */
#include "console.h"
#include "starts.h"
#include "verity.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/watchdog.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define IMAGE "/rootfs.sqsh"
#define ROOT_HASH "/rootfs.roothash" /* 64 hexadecimal digits */
#define EXTENSIONS "/extensions"
#define ROOT_HASHES EXTENSIONS "/roothashes" /* a line for each extension: root hash, two blanks, name of its image */
#define LAYERS "/layers"
#define MAX_EXTENSIONS 32
#define ROOT "/root"
#define INSTALL ROOT "/usr/install" /* what this system came from, for installations to a disk */
#define TRIAL "talos.trial" /* the argument of a system that the boot loader starts once */
#define TRIAL_TIMEOUT 60    /* seconds until PID 1 has to give the watchdog its own time-out */
#define WATCHDOGS 8
#define EFI_VARIABLES "/sys/firmware/efi/efivars"

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

/* Whether this start follows another one of the same system that was not confirmed; never where there is no UEFI. */
static int is_repeated(void)
{
	int count;

	if (mount("efivarfs", EFI_VARIABLES, "efivarfs", MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL) < 0)
		return 0;
	count = count_start(EFI_VARIABLES);
	umount(EFI_VARIABLES);
	return count > 1;
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

/* Whatever hangs from here on ends this boot: closed without the driver's magic letter, the device stays armed. */
static void arm_watchdog(void)
{
	char path[32];
	int seconds = TRIAL_TIMEOUT, number = find_watchdog(), device;

	snprintf(path, sizeof(path), "/dev/watchdog%d", number);
	device = number < 0 ? -1 : open(path, O_WRONLY | O_CLOEXEC);
	if (device < 0) {
		report("no watchdog guards this boot");
		return;
	}
	if (ioctl(device, WDIOC_SETTIMEOUT, &seconds) < 0)
		report("%s keeps its own time-out: %s", path, strerror(errno));
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

static void read_root_hash(char root_hash[ROOT_HASH_DIGITS + 1])
{
	FILE *file = fopen(ROOT_HASH, "re");

	if (!file)
		fail("the root hash of the system image, " ROOT_HASH);
	errno = 0;
	if (fscanf(file, "%64[0-9a-f]", root_hash) != 1 || strlen(root_hash) != ROOT_HASH_DIGITS)
		fail("the root hash of the system image, " ROOT_HASH ", is not 64 hexadecimal digits");
	fclose(file);
}

static void mount_image(const char *path, const char *root_hash, const char *target)
{
	char device[DEVICE_PATH];

	open_verity(path, root_hash, device);
	mount_or_fail(device, target, "squashfs", MS_RDONLY | MS_NOSUID | MS_NODEV);
}

/*
 * The layers of one overlay without an upper one, so it can't be written to.  The system image is the topmost: whatever
 * an extension holds, no file of the system is replaced or hidden by it.
 */
static void mount_layers(FILE *root_hashes, const char *system)
{
	char options[1024] = "lowerdir=" LAYERS "/system", root_hash[ROOT_HASH_DIGITS + 1], name[96];
	char path[128], target[32];
	int count = 0, found;

	make_folder(LAYERS);
	mount_image(IMAGE, system, LAYERS "/system");
	errno = 0;
	while ((found = fscanf(root_hashes, "%64[0-9a-f]  %95[a-z0-9.-]\n", root_hash, name)) == 2) {
		if (count == MAX_EXTENSIONS || strlen(root_hash) != ROOT_HASH_DIGITS)
			fail(ROOT_HASHES);
		snprintf(path, sizeof(path), EXTENSIONS "/%s", name);
		snprintf(target, sizeof(target), LAYERS "/%d", count++);
		mount_image(path, root_hash, target);
		strcat(strcat(options, ":"), target);
		errno = 0;
	}
	if (found != EOF || ferror(root_hashes))
		fail(ROOT_HASHES);
	if (mount("overlay", ROOT, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, options) < 0)
		fail("the overlay of the system image and its extensions");
	/* The overlay holds on to them. */
	for (umount2(LAYERS "/system", MNT_DETACH); count-- > 0; umount2(target, MNT_DETACH))
		snprintf(target, sizeof(target), LAYERS "/%d", count);
}

static void mount_system(void)
{
	char root_hash[ROOT_HASH_DIGITS + 1] = "";
	FILE *root_hashes = fopen(ROOT_HASHES, "re");

	read_root_hash(root_hash);
	make_folder(ROOT);
	if (root_hashes) {
		mount_layers(root_hashes, root_hash);
		fclose(root_hashes);
	} else {
		mount_image(IMAGE, root_hash, ROOT);
	}
}

/*
 * Nothing else is as sure to be this very release: an installer copies the image and its hashes from here, and the
 * kernel if the boot loader added it to the initramfs.  This costs no memory, the image's pages are in use anyway.
 */
static void bind_initramfs(void)
{
	const unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;

	if (mount("/", INSTALL, NULL, MS_BIND, NULL) < 0 || mount(NULL, INSTALL, NULL, MS_REMOUNT | MS_BIND | flags, NULL) < 0)
		fail(INSTALL);
}

/* Processors have their microcode before the first program runs, and an installer has it from its extension. */
static void drop_microcode(void)
{
	unlink("/kernel/x86/microcode/GenuineIntel.bin");
	unlink("/kernel/x86/microcode/AuthenticAMD.bin");
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
	if (is_on_trial() || is_repeated()) /* a trial is not counted: it is started once */
		arm_watchdog();
	check_processor();
	drop_microcode();
	mount_system();
	bind_initramfs();
	switch_root();
	execv(arguments[0], arguments);
	fail(arguments[0]);
}
