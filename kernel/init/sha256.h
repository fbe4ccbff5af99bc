/* SHA-256 as in FIPS 180-4, for one file read once. */
#ifndef SHA256_H
#define SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BLOCK 64
#define SHA256_DIGEST 32

struct sha256 {
	uint32_t state[8];
	uint64_t length; /* bytes hashed so far */
	uint8_t block[SHA256_BLOCK];
	void (*mix)(uint32_t state[8], const uint8_t *data, size_t blocks);
};

void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const uint8_t *data, size_t size);
void sha256_end(struct sha256 *hash, uint8_t digest[SHA256_DIGEST]);

#endif
