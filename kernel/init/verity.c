#include "verity.h"

#include "console.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <linux/loop.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define IMAGE_SUFFIX ".sqsh"
#define TREE_SUFFIX ".verity"
#define BLOCK 4096
#define SECTOR 512
#define MAX_SALT 256

/* As veritysetup writes it before the tree; numbers are little-endian, as this processor's. */
struct superblock {
	char signature[8];
	uint32_t version;
	uint32_t hash_type;
	uint8_t uuid[16];
	char algorithm[32];
	uint32_t data_block_size;
	uint32_t hash_block_size;
	uint64_t data_blocks;
	uint16_t salt_size;
	uint8_t reserved[6];
	uint8_t salt[MAX_SALT];
};

/* A device and its table, as the device mapper takes them. */
struct request {
	struct dm_ioctl head;
	struct dm_target_spec target;
	char parameters[1024];
};

/* Attaches a file to a free loop device, which the kernel lets go of with its last user. */
static int attach_file(const char *path, char device[DEVICE_PATH])
{
	struct loop_config config = {
		.block_size = BLOCK,
		.info.lo_flags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR,
	};
	int file = open(path, O_RDONLY | O_CLOEXEC);
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
	int loop;

	if (file < 0)
		fail(path);
	if (number < 0)
		fail("/dev/loop-control");
	snprintf(device, DEVICE_PATH, "/dev/loop%d", number);
	loop = open(device, O_RDONLY | O_CLOEXEC);
	config.fd = file;
	if (loop < 0 || ioctl(loop, LOOP_CONFIGURE, &config) < 0)
		fail(device);
	close(control);
	close(file);
	return loop;
}

/* Its content is not trusted: whatever was changed in it, the root hash is another one. */
static void read_superblock(int tree, const char *path, struct superblock *found)
{
	if (pread(tree, found, sizeof(*found), 0) != sizeof(*found))
		fail(path);
	errno = 0;
	if (memcmp(found->signature, "verity\0", sizeof(found->signature)) != 0 || found->version != 1 || found->hash_type != 1 ||
	    strncmp(found->algorithm, "sha256", sizeof(found->algorithm)) != 0 || found->data_block_size != BLOCK ||
	    found->hash_block_size != BLOCK || found->salt_size > MAX_SALT || found->data_blocks > INT32_MAX) {
		report("%s is no hash tree by SHA-256 of blocks of %d bytes", path, BLOCK);
		fail("the system image is corrupt; boot the other slot or install again");
	}
}

static void control_mapper(int control, unsigned long command, const char *what, struct request *request)
{
	request->head.version[0] = DM_VERSION_MAJOR;
	request->head.data_size = sizeof(*request);
	request->head.data_start = offsetof(struct request, target);
	if (ioctl(control, command, request) < 0) {
		report("the device mapper refuses to %s %s", what, request->head.name);
		fail("the system image can't be mapped");
	}
}

/* Loads a table with these options, and has the device use it. */
static void load_table(int control, const char *name, const struct superblock *tree, const char *parameters, const char *options)
{
	struct request load = {
		.head.flags = DM_READONLY_FLAG,
		.head.target_count = 1,
		.target.length = tree->data_blocks * (BLOCK / SECTOR),
		.target.target_type = "verity",
	}, resume = { 0 };

	snprintf(load.head.name, sizeof(load.head.name), "%s", name);
	snprintf(resume.head.name, sizeof(resume.head.name), "%s", name);
	snprintf(load.parameters, sizeof(load.parameters), "%s %s", parameters, options);
	control_mapper(control, DM_TABLE_LOAD, "load the table of", &load);
	control_mapper(control, DM_DEV_SUSPEND, "start", &resume);
}

/* Reads a block: with it the kernel compares the root of the tree and one of its branches. */
static void check_root(const char *device, const char *path, const char *root_hash)
{
	char block[BLOCK];
	int file = open(device, O_RDONLY | O_CLOEXEC);

	if (file < 0)
		fail(device);
	if (read(file, block, sizeof(block)) != sizeof(block)) {
		report("%s does not match the root hash %s", path, root_hash);
		fail("the system image is corrupt; boot the other slot or install again");
	}
	close(file);
}

/* Of a table: Documentation/admin-guide/device-mapper/verity.rst.  The tree begins behind the block of its superblock. */
static void format_parameters(const struct superblock *tree, const char *image, const char *hashes, const char *root_hash,
			      char *text, size_t size)
{
	int length = snprintf(text, size, "1 %s %s %d %d %llu 1 sha256 %s ", image, hashes, BLOCK, BLOCK,
			      (unsigned long long)tree->data_blocks, root_hash);

	for (int i = 0; i < tree->salt_size; i++)
		length += snprintf(text + length, size - length, "%02x", tree->salt[i]);
	if (!tree->salt_size)
		snprintf(text + length, size - length, "-");
}

void open_verity(const char *path, const char *root_hash, char device[DEVICE_PATH])
{
	char tree_path[128], name[128], image_device[DEVICE_PATH], tree_device[DEVICE_PATH], parameters[900];
	const char *base = strrchr(path, '/') + 1;
	int stem = strlen(path) - strlen(IMAGE_SUFFIX), image, tree, control;
	struct request create = { 0 };
	struct superblock superblock;

	snprintf(tree_path, sizeof(tree_path), "%.*s" TREE_SUFFIX, stem, path);
	snprintf(name, sizeof(name), "%.*s", stem - (int)(base - path), base);
	image = attach_file(path, image_device);
	tree = attach_file(tree_path, tree_device);
	read_superblock(tree, tree_path, &superblock);
	format_parameters(&superblock, image_device, tree_device, root_hash, parameters, sizeof(parameters));

	control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
	if (control < 0)
		fail("/dev/mapper/control");
	snprintf(create.head.name, sizeof(create.head.name), "%s", name);
	control_mapper(control, DM_DEV_CREATE, "make", &create);
	snprintf(device, DEVICE_PATH, "/dev/dm-%u", minor(create.head.dev));
	/* First without a panic, which would not name the image and the remedy. */
	load_table(control, name, &superblock, parameters, "");
	check_root(device, path, root_hash);
	/*
	 * From here on a panic: it reboots, keeps its reason, and counts against this slot.  With errors instead, whatever
	 * reads the block goes on without it.
	 */
	load_table(control, name, &superblock, parameters, "2 panic_on_corruption panic_on_error");
	close(control);
	close(tree); /* only now: closing the last user earlier would clear the device */
	close(image);
}
