// The kernel of decoding.cu for the host: one row after the other, and its lanes take turns.

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL static void
#define INLINE static inline
#define UNROLLED
#define ROW row
#define N_LANES 32
#ifdef DESCENDING
#define EACH_LANE for (u32 lane = N_LANES; lane-- > 0;)
#else
#define EACH_LANE for (u32 lane = 0; lane < N_LANES; lane++)
#endif
#define BLOCK_MEMORY(name) u8* name = block_memory
#define NOTE(place, number) if (*(place) > (number)) *(place) = (number)

static unsigned char* block_memory;
static unsigned row;

#include KERNEL_SOURCE

void decode_all(u32 n_rows, u32 block_bytes_there, const u8* parts, u8* pixels, u64* damaged,
                u64 base, u64 first_chunk, u32 chunk_frames, u32 part_chunks, u32 chunk_blocks,
                u64 chunk_bytes, u32 block_bytes, u32 rest_bytes) {
    for (row = 0; row < n_rows; row++) {
        // Garbage, and no byte more than a device would give.
        block_memory = malloc(block_bytes_there);
        memset(block_memory, 0x5A, block_bytes_there);
        decode(parts, pixels, damaged, base, first_chunk, chunk_frames, part_chunks,
               chunk_blocks, chunk_bytes, block_bytes, rest_bytes);
        free(block_memory);
    }
}
