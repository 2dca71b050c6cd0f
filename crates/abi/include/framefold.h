/* The C interface through which framefold runs functions that others compiled. Major version 1.
 *
 * A function is a table of C functions, `ff_udf_v1`. In Python, an object has a method
 * `__framefold_udf__()` that returns a capsule named "framefold.udf_v1" with a pointer to a table.
 *
 * Rules:
 * - A struct that starts with `size` may grow at its end in later minor versions. Its maker
 *   sets `size` to sizeof its type; its reader reads no member that ends beyond `size`.
 * - Any other change is a new major version, with other names for the capsule and the table.
 * - What a pointer leads to is borrowed: valid until the call returns, if nothing else is said.
 * - Nothing unwinds out of a function: no exception, no panic, no longjmp.
 * - Functions return one of ff_status. Before they return FF_FAILED or FF_PANICKED, they say why
 *   through `host->fail`.
 * - `self` is used by several threads at the same time; a task by one at a time.
 */
#ifndef FRAMEFOLD_H
#define FRAMEFOLD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FF_MAJOR 1
#define FF_MINOR 0
#define FF_CAPSULE "framefold.udf_v1"
#define FF_METHOD "__framefold_udf__"

enum ff_status { FF_OK = 0, FF_FAILED = 1, FF_PANICKED = 2, FF_CANCELLED = 3 };

/* UTF-8, not terminated. */
typedef struct ff_text {
    const char *data;
    size_t len;
} ff_text;

/* The type of elements: NumPy's letter of the kind ('b', 'u', 'i', 'f', 'c') in the second byte, bytes
 * per element in the lowest. 0 stands for the type that the data set has. */
typedef uint64_t ff_dtype;
#define FF_DTYPE(kind, bytes) (((uint64_t)(kind) << 8) | (uint64_t)(bytes))

enum ff_method { FF_TILE = 0, FF_FRAMES = 1, FF_PARTITION = 2 };
enum ff_format { FF_DENSE = 1, FF_CSR = 2 };
enum ff_kind { FF_NAV = 0, FF_SIG = 1, FF_SINGLE = 2 };
enum ff_use { FF_PUBLIC = 0, FF_PRIVATE = 1, FF_RESULT_ONLY = 2 };

/* The data set, and which of its frames are selected. In `requirements`, what the file says: the scan may
 * be run over in another shape, and all of it counts as selected. */
typedef struct ff_job {
    size_t size;
    size_t n_nav;
    const size_t *nav_shape;
    size_t n_sig;
    const size_t *sig_shape;
    /* The type of the data set, and of what this function gets. The second is 0 in `requirements`. */
    ff_dtype native_dtype;
    ff_dtype input_dtype;
    size_t n_selected;
    /* The flat scan position of each selected frame, ascending; NULL if all are selected. */
    const size_t *positions;
} ff_job;

/* What a function asks of the planner. The host sets all members to what is said of 0 or first here. */
typedef struct ff_requirements {
    size_t size;
    /* FF_TILE: parts of frames, some frames deep; FF_FRAMES: whole frames; FF_PARTITION: a whole
     * partition in one tile. */
    uint64_t method;
    /* 0: the type of the data set; another one: a type that holds it and that of the data set. */
    ff_dtype input;
    /* A sum of ff_format; FF_DENSE. With both, the function gets what the data set has. */
    uint64_t formats;
    /* A wish for the frames of a tile; 0 leaves them to the planner. Tiles can be deeper or shallower, as
     * other functions of the run wish: `depth` of each tile says how many it has. */
    size_t depth;
    /* The largest useful size of a tile in bytes; 0 for no more than fits the cache. */
    size_t tile_bytes;
    /* 1: views of `sig` buffers are in C order without gaps for every tile (the host copies where they
     * would not be). 0: their strides may have gaps. */
    uint64_t contiguous;
} ff_requirements;

/* The declaration of a result buffer. */
typedef struct ff_buffer {
    size_t size;
    ff_text name;
    uint64_t kind; /* ff_kind */
    ff_dtype dtype;
    size_t n_extra;
    const size_t *extra_shape;
    uint64_t use; /* ff_use */
} ff_buffer;

/* What the host does for a function during one call. */
typedef struct ff_host {
    size_t size;
    uint64_t minor;
    void *ctx;
    /* Says why the call fails. */
    void (*fail)(void *ctx, ff_text message);
    /* Declares the next buffer; in `buffers` only. Anything but FF_OK is to be returned at once. */
    int32_t (*declare)(void *ctx, const ff_buffer *buffer);
    /* Not 0 if the run was cancelled: the call may then return FF_CANCELLED. */
    int32_t (*cancelled)(void *ctx);
    /* Where a function may write which frame of the tile it is at, so that errors name it. */
    uint64_t *frame;
} ff_host;

/* A partition: the selected frames `first_frame` to `first_frame + n_frames`. */
typedef struct ff_run {
    size_t size;
    const ff_job *job;
    uint64_t format; /* one of ff_format: what the tiles of this run come in */
    size_t n_partitions;
    size_t partition;
    size_t first_frame;
    size_t n_frames;
} ff_run;

/* A dense tile: the same cells of `depth` frames that follow each other among those selected. The cells of
 * one frame are in C order without gaps. Read-only. */
typedef struct ff_tile {
    size_t size;
    const void *data;
    ff_dtype dtype;
    size_t depth;
    /* Bytes from one frame to the next. */
    size_t frame_stride;
    size_t n_sig;
    const size_t *sig_origin;
    const size_t *sig_shape;
    /* The number of its first frame among those selected, and among those of the partition. */
    size_t first_frame;
    size_t first_in_partition;
    /* The number of the part of the frame. */
    size_t slice_index;
} ff_tile;

/* A sparse tile: of each frame, the cells that are not 0. Read-only. */
typedef struct ff_rows {
    size_t size;
    /* Entries of frame i are starts[i] to starts[i + 1]. */
    const size_t *starts;
    /* The cell of each entry, counted within the part of the frame in C order; ascending in a frame. */
    const uint32_t *columns;
    const void *values;
    ff_dtype dtype;
    size_t depth;
    size_t n_sig;
    const size_t *sig_origin;
    const size_t *sig_shape;
    size_t first_frame;
    size_t first_in_partition;
    size_t slice_index;
} ff_rows;

/* (Part of) a result buffer, in the host's memory. Never grows, so that there can be arrays of it. */
typedef struct ff_view {
    void *data;
    ff_dtype dtype;
    size_t n_dims;
    const size_t *shape;
    const ptrdiff_t *strides; /* in bytes */
} ff_view;

/* A function. Views come in the order in which buffers were declared, without those of FF_RESULT_ONLY. */
typedef struct ff_udf_v1 {
    size_t size;
    uint64_t major; /* FF_MAJOR */
    uint64_t minor;
    ff_text name;
    void *self;
    int32_t (*requirements)(void *self, const ff_job *, ff_requirements *, const ff_host *);
    /* Declares all buffers through `host->declare`. */
    int32_t (*buffers)(void *self, const ff_job *, const ff_host *);
    /* Makes what works on one partition. May be NULL: `self` is then the task of all partitions. */
    int32_t (*begin)(void *self, const ff_run *, const ff_host *, void **task);
    /* Takes in a tile. Views show the rows of the tile's frames of `nav` buffers, the tile's cells of `sig`
     * buffers, and all of `single` ones; all are 0 at the beginning of a partition. May be NULL if
     * `requirements` never asks for FF_DENSE. */
    int32_t (*process)(void *task, const ff_tile *, const ff_view *, size_t n, const ff_host *);
    /* The same for a sparse tile. May be NULL if `requirements` never asks for FF_CSR. */
    int32_t (*process_csr)(void *task, const ff_rows *, const ff_view *, size_t n, const ff_host *);
    /* After the last tile of a partition; views show all of its buffers. May be NULL. */
    int32_t (*end)(void *task, const ff_view *, size_t n, const ff_host *);
    /* Must be there if `begin` is, which is called once for each. */
    void (*drop_task)(void *task);
    /* Folds a partition into the result: rows of its frames of `nav` buffers, and all of the others. Partitions
     * come in order, one at a time. May be NULL if all buffers are FF_NAV: rows are then copied. */
    int32_t (*merge)(void *self, const ff_view *dest, const ff_view *src, size_t n, const ff_host *);
    /* From what was merged so far, which is only read, to the results that users get:
     * `results` are the buffers of FF_PUBLIC, which hold what was merged, and of FF_RESULT_ONLY, which hold 0.
     * May be NULL if there are none of the latter. */
    int32_t (*results)(void *self, const ff_job *, const ff_view *merged, size_t n,
                       const ff_view *results, size_t n_results, const ff_host *);
    /* Ends the table and `self`. Called once by its owner, which is the capsule, or who got it without one. */
    void (*drop)(struct ff_udf_v1 *);
} ff_udf_v1;

#ifdef __cplusplus
}
#endif
#endif
