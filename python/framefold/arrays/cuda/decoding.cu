// Decodes chunks of bitshuffle with LZ4, one warp a block of some kilobytes.
//
// SIZE is the number of bytes of an element: 1, 2, 4, 8 or 16. What stands behind EACH_LANE is done
// by all lanes at once; all else is the same for each of them. No lane reads there what another one
// writes, so tests run it on the host, lane after lane.
//
// The encoded bytes of a part, of `part_chunks` chunks, lie where its pixels would lie. They begin
// with a row for each block of its chunks: where the stored bytes of the block begin in the part, and
// how many they are; two numbers of 4 bytes, little endian. A chunk has `chunk_blocks` blocks, each
// of `block_bytes` pixels, but for a shorter last one, and `rest_bytes` that are stored as they are,
// which have a row, too.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#ifdef __CUDACC__
#define KERNEL extern "C" __global__ void __launch_bounds__(32)
#define INLINE static __device__ __forceinline__
#define UNROLLED _Pragma("unroll")
#define ROW blockIdx.x
#define EACH_LANE for (u32 lane = threadIdx.x, once = 1; once; once = 0, __syncwarp())
#define N_LANES 32
#define BLOCK_MEMORY(name) extern __shared__ uint4 name##_words[]; u8* name = (u8*)name##_words
#define NOTE(place, number) if (threadIdx.x == 0) atomicMin(place, number)
#endif

INLINE u32 read_u32(const u8* from) {
    return from[0] | from[1] << 8 | from[2] << 16 | (u32)from[3] << 24;
}

// A length that goes on in bytes behind the token, until one that is not 255; one beyond `most` may
// come out as any other beyond it.
INLINE u32 read_length(const u8* in, u32 n_in, u32* at, u32 length, u32 most) {
    u32 more = length == 15 ? 255 : 0;
    while (more == 255 && *at < n_in && length <= most) {
        more = in[(*at)++];
        length += more;
    }
    // Without an end, it is none.
    return more == 255 ? most + 1 : length;
}

// Decodes a block of LZ4 to just `n_out` bytes; whether it could. What it refuses at the end of a
// block is what the library of LZ4 refuses.
INLINE bool decode_lz4(const u8* in, u32 n_in, u8* out, u32 n_out) {
    u32 at = 0, done = 0;
    while (at < n_in) {
        u32 token = in[at++];
        u32 length = read_length(in, n_in, &at, token >> 4, n_out);
        if (length > n_out - done || length > n_in - at) return false;
        EACH_LANE {
            for (u32 i = lane; i < length; i += N_LANES) out[done + i] = in[at + i];
        }
        at += length;
        done += length;
        if (at == n_in) return done == n_out;
        if (n_out - done < 12 || n_in - at < 8) return false;
        u32 offset = in[at] | in[at + 1] << 8;
        at += 2;
        length = read_length(in, n_in, &at, token & 15, n_out) + 4;
        if (offset == 0 || offset > done || length > n_out - done - 5) return false;
        EACH_LANE {
            // Where they overlap, what is there already repeats.
            const u8* from = out + done - offset;
            u32 place = lane % offset, step = N_LANES % offset;
            for (u32 i = lane; i < length; i += N_LANES) {
                out[done + i] = from[place];
                place += step;
                if (place >= offset) place -= offset;
            }
        }
        done += length;
    }
    return false;
}

// Transposes a matrix of 8 x 8 bits, one byte a row.
INLINE u64 transpose(u64 x) {
    u64 t = (x ^ (x >> 7)) & 0x00AA00AA00AA00AAull;
    x ^= t ^ (t << 7);
    t = (x ^ (x >> 14)) & 0x0000CCCC0000CCCCull;
    x ^= t ^ (t << 14);
    t = (x ^ (x >> 28)) & 0x00000000F0F0F0F0ull;
    return x ^ t ^ (t << 28);
}

// From planes of bits to elements, of `n` bytes: whole groups of 8 elements.
INLINE void unshuffle(const u8* bits, u32 n, u8* out) {
    u32 n_groups = n / (8 * SIZE);
    bool aligned = (u64)out % 8 == 0;
    EACH_LANE {
        for (u32 group = lane; group < n_groups; group += N_LANES) {
            // The same byte of each of eight elements.
            u64 bytes[SIZE];
            UNROLLED
            for (u32 byte = 0; byte < SIZE; byte++) {
                u64 rows = 0;
                UNROLLED
                for (u32 bit = 0; bit < 8; bit++) {
                    rows |= (u64)bits[(8 * byte + bit) * n_groups + group] << (8 * bit);
                }
                bytes[byte] = transpose(rows);
            }
            u8* to = out + (u64)group * 8 * SIZE;
            UNROLLED
            for (u32 word = 0; word < SIZE; word++) {
                u64 made = 0;
                UNROLLED
                for (u32 i = 0; i < 8; i++) {
                    u32 place = 8 * word + i;
                    made |= (bytes[place % SIZE] >> (8 * (place / SIZE)) & 255) << (8 * i);
                }
                if (aligned) {
                    ((u64*)to)[word] = made;
                } else {
                    for (u32 i = 0; i < 8; i++) to[8 * word + i] = (u8)(made >> (8 * i));
                }
            }
        }
    }
}

// Decodes the chunks from `first_chunk` on, one row a warp; `damaged` becomes the number of the first
// frame of those that cannot be decoded, if it is more: that of the first chunk's is `base`. Their pixels
// become 0 there.
KERNEL decode(const u8* parts, u8* pixels, u64* damaged, u64 base, u64 first_chunk,
              u32 chunk_frames, u32 part_chunks, u32 chunk_blocks, u64 chunk_bytes,
              u32 block_bytes, u32 rest_bytes) {
    BLOCK_MEMORY(memory);
    u32 n_rows = chunk_blocks + (rest_bytes > 0);
    u32 number = ROW % n_rows;
    u64 chunk = first_chunk + ROW / n_rows;
    u64 part = chunk / part_chunks;
    u64 part_bytes = part_chunks * chunk_bytes;
    const u8* in = parts + part * part_bytes;
    const u8* row = in + ((chunk - part * part_chunks) * n_rows + number) * 8;
    u32 start = read_u32(row), n_stored = read_u32(row + 4);
    u64 before = (u64)number * block_bytes;
    u8* out = pixels + chunk * chunk_bytes + before;
    u64 left = chunk_bytes - rest_bytes - before;
    bool is_rest = number == chunk_blocks;
    u32 n = left < block_bytes ? (u32)left : block_bytes;
    if (is_rest) {
        n = rest_bytes;
        out = pixels + (chunk + 1) * chunk_bytes - rest_bytes;
    }
    bool good = (u64)start + n_stored <= part_bytes;
    if (good && is_rest) {
        good = n_stored == n;
        if (good) EACH_LANE {
            for (u32 i = lane; i < n; i += N_LANES) out[i] = in[start + i];
        }
    } else if (good) {
        good = decode_lz4(in + start, n_stored, memory, n);
        if (good) unshuffle(memory, n, out);
    }
    if (!good) {
        NOTE(damaged, base + chunk * chunk_frames);
        EACH_LANE {
            for (u32 i = lane; i < n; i += N_LANES) out[i] = 0;
        }
    }
}
