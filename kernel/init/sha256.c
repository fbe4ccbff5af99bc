#include "sha256.h"

#include <cpuid.h>
#include <immintrin.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t ROUND[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

#define ROTATE(word, bits) ((word) >> (bits) | (word) << (32 - (bits)))

/* One round; instead of moving the eight words, the next one names them in another order. */
#define STEP(a, b, c, d, e, f, g, h, i)                                                                                \
	do {                                                                                                           \
		uint32_t t = h + (ROTATE(e, 6) ^ ROTATE(e, 11) ^ ROTATE(e, 25)) + (g ^ (e & (f ^ g))) + ROUND[i] + w[i];   \
		d += t;                                                                                                \
		h = t + (ROTATE(a, 2) ^ ROTATE(a, 13) ^ ROTATE(a, 22)) + ((a & b) | (c & (a | b)));                    \
	} while (0)

static void mix(uint32_t state[8], const uint8_t *data, size_t blocks)
{
	for (; blocks > 0; blocks--, data += SHA256_BLOCK) {
		uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
		uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
		uint32_t w[64];

		memcpy(w, data, SHA256_BLOCK);
		for (int i = 0; i < 16; i++)
			w[i] = __builtin_bswap32(w[i]);
		for (int i = 16; i < 64; i++)
			w[i] = w[i - 16] + w[i - 7] + (ROTATE(w[i - 15], 7) ^ ROTATE(w[i - 15], 18) ^ w[i - 15] >> 3) +
			       (ROTATE(w[i - 2], 17) ^ ROTATE(w[i - 2], 19) ^ w[i - 2] >> 10);
		for (int i = 0; i < 64; i += 8) {
			STEP(a, b, c, d, e, f, g, h, i);
			STEP(h, a, b, c, d, e, f, g, i + 1);
			STEP(g, h, a, b, c, d, e, f, i + 2);
			STEP(f, g, h, a, b, c, d, e, i + 3);
			STEP(e, f, g, h, a, b, c, d, i + 4);
			STEP(d, e, f, g, h, a, b, c, i + 5);
			STEP(c, d, e, f, g, h, a, b, i + 6);
			STEP(b, c, d, e, f, g, h, a, i + 7);
		}
		state[0] += a, state[1] += b, state[2] += c, state[3] += d;
		state[4] += e, state[5] += f, state[6] += g, state[7] += h;
	}
}

/*
 * The same with the processor's own instructions, four times as fast.
 * They keep the state as two vectors, ABEF and CDGH, and take two rounds at a time.
 */
__attribute__((target("sha,sse4.1"))) static void mix_in_hardware(uint32_t state[8], const uint8_t *data, size_t blocks)
{
	const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
	__m128i dcba = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
	__m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
	__m128i abef = _mm_alignr_epi8(dcba, hgfe, 8);
	__m128i cdgh = _mm_blend_epi16(hgfe, dcba, 0xf0);

	for (; blocks > 0; blocks--, data += SHA256_BLOCK) {
		__m128i abef_before = abef, cdgh_before = cdgh, w[4];

		for (int i = 0; i < 4; i++)
			w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)data + i), big_endian);
#pragma GCC unroll 16
		for (int i = 0; i < 16; i++) {
			__m128i sum;

			if (i >= 4) {
				/* w[i % 4] still is of 16 words ago; the others of 12, 8 and 4. */
				__m128i ago7 = _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4);
				__m128i part = _mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]), ago7);
				w[i % 4] = _mm_sha256msg2_epu32(part, w[(i + 3) % 4]);
			}
			sum = _mm_add_epi32(w[i % 4], _mm_loadu_si128((const __m128i *)(ROUND + 4 * i)));
			cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
			abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
		}
		abef = _mm_add_epi32(abef, abef_before);
		cdgh = _mm_add_epi32(cdgh, cdgh_before);
	}
	dcba = _mm_shuffle_epi32(abef, 0x1b);
	hgfe = _mm_shuffle_epi32(cdgh, 0xb1);
	_mm_storeu_si128((__m128i *)state, _mm_blend_epi16(dcba, hgfe, 0xf0));
	_mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(hgfe, dcba, 8));
}

/* CPUID leaf 7, EBX bit 29; compilers of today know no name for it. */
static int has_sha_instructions(void)
{
	unsigned int a, b = 0, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1) && __builtin_cpu_supports("sse4.1");
}

void sha256_begin(struct sha256 *hash)
{
	/* The first 32 bits of the fractional parts of the square roots of the first 8 primes. */
	static const uint32_t start[8] = {
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
	};

	memcpy(hash->state, start, sizeof(start));
	hash->length = 0;
	hash->mix = has_sha_instructions() ? mix_in_hardware : mix;
}

void sha256_add(struct sha256 *hash, const uint8_t *data, size_t size)
{
	while (size > 0) {
		size_t used = hash->length % SHA256_BLOCK;
		size_t part = SHA256_BLOCK - used < size ? SHA256_BLOCK - used : size;

		if (used == 0 && size >= SHA256_BLOCK) {
			part = size - size % SHA256_BLOCK;
			hash->mix(hash->state, data, part / SHA256_BLOCK);
		} else {
			memcpy(hash->block + used, data, part);
			if (used + part == SHA256_BLOCK)
				hash->mix(hash->state, hash->block, 1);
		}
		hash->length += part;
		data += part;
		size -= part;
	}
}

void sha256_end(struct sha256 *hash, uint8_t digest[SHA256_DIGEST])
{
	static const uint8_t padding[SHA256_BLOCK] = { 0x80 };
	uint64_t bits = hash->length * 8;
	size_t used = hash->length % SHA256_BLOCK;
	uint8_t length[8];

	for (int i = 0; i < 8; i++)
		length[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_add(hash, padding, (used < 56 ? 56 : 120) - used);
	sha256_add(hash, length, sizeof(length));
	for (int i = 0; i < SHA256_DIGEST; i++)
		digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}
