/* Block devices of images whose every block the kernel compares with a hash tree as it is read: dm-verity. */
#ifndef VERITY_H
#define VERITY_H

#define ROOT_HASH_DIGITS 64 /* of SHA-256 in hexadecimal */
#define DEVICE_PATH 32

/*
 * Makes such a device of the image at the path, which ends in ".sqsh", and of the hash tree beside it, which ends in
 * ".verity"; device is where it is.  Does not return when these don't match the root hash.
 */
void open_verity(const char *path, const char *root_hash, char device[DEVICE_PATH]);

#endif
