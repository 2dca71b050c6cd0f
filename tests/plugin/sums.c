/* A function built against minor version 0 of the interface; sums_x86_64_linux.so is kept as it is, and has to run
 * for ever. Built by
 *     cc -O2 -shared -fPIC -nostdlib -s -I crates/abi/include -o sums_x86_64_linux.so sums.c
 * It sums each frame (nav) and each pixel (sig) in float64; pixels below 0 are refused. */
#include "framefold.h"

#define TEXT(words) ((ff_text){words, sizeof(words) - 1})
#define F64 FF_DTYPE('f', 8)

static int32_t requirements(void *self, const ff_job *job, ff_requirements *asked, const ff_host *host) {
    asked->input = F64;
    asked->formats = FF_DENSE | FF_CSR;
    asked->contiguous = 1;
    return FF_OK;
}

static int32_t buffers(void *self, const ff_job *job, const ff_host *host) {
    ff_buffer of_frames = {sizeof(ff_buffer), TEXT("of_frames"), FF_NAV, F64, 0, NULL, FF_PUBLIC};
    ff_buffer of_pixels = {sizeof(ff_buffer), TEXT("of_pixels"), FF_SIG, F64, 0, NULL, FF_PUBLIC};
    int32_t status = host->declare(host->ctx, &of_frames);
    return status != FF_OK ? status : host->declare(host->ctx, &of_pixels);
}

static int32_t process(void *task, const ff_tile *tile, const ff_view *views, size_t n, const ff_host *host) {
    double *of_frames = views[0].data, *of_pixels = views[1].data;
    size_t len = 1;
    for (size_t axis = 0; axis < tile->n_sig; axis++) len *= tile->sig_shape[axis];
    for (size_t i = 0; i < tile->depth; i++) {
        const double *frame = (const double *)((const char *)tile->data + i * tile->frame_stride);
        *host->frame = i;
        for (size_t at = 0; at < len; at++) {
            if (frame[at] < 0) {
                host->fail(host->ctx, TEXT("a pixel is below 0"));
                return FF_FAILED;
            }
            of_frames[i] += frame[at];
            of_pixels[at] += frame[at];
        }
    }
    return FF_OK;
}

static int32_t process_csr(void *task, const ff_rows *rows, const ff_view *views, size_t n, const ff_host *host) {
    double *of_frames = views[0].data, *of_pixels = views[1].data;
    const double *values = rows->values;
    for (size_t i = 0; i < rows->depth; i++)
        for (size_t entry = rows->starts[i]; entry < rows->starts[i + 1]; entry++) {
            of_frames[i] += values[entry];
            of_pixels[rows->columns[entry]] += values[entry];
        }
    return FF_OK;
}

static int32_t merge(void *self, const ff_view *dest, const ff_view *src, size_t n, const ff_host *host) {
    for (size_t buffer = 0; buffer < n; buffer++) {
        double *to = dest[buffer].data, *from = src[buffer].data;
        size_t len = 1;
        for (size_t axis = 0; axis < dest[buffer].n_dims; axis++) len *= dest[buffer].shape[axis];
        /* Rows are 0 before they are merged. */
        for (size_t at = 0; at < len; at++) to[at] += from[at];
    }
    return FF_OK;
}

static void drop(ff_udf_v1 *table) {}

ff_udf_v1 table = {sizeof(ff_udf_v1), FF_MAJOR, FF_MINOR, TEXT("sums_in_c"), NULL, requirements, buffers, NULL,
                   process, process_csr, NULL, NULL, merge, NULL, drop};
