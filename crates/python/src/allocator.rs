//! Large allocations in large pages.
//!
//! New memory is cleared page by page as it is first touched, and for results of many megabytes
//! that takes longer than filling them does. Linux has pages of 2 MiB for those who ask.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator; asks for large pages where they are worth it.
struct LargePages;

#[global_allocator]
static ALLOCATOR: LargePages = LargePages;

// SAFETY: every request is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for LargePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        let start = unsafe { System.alloc(layout) };
        ask(start, layout.size());
        start
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        let start = unsafe { System.alloc_zeroed(layout) };
        ask(start, layout.size());
        start
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(start, layout) };
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as promised by the caller.
        let start = unsafe { System.realloc(start, layout, new_size) };
        ask(start, new_size);
        start
    }
}

/// Asks for large pages for all whole pages of an allocation.
#[cfg(target_os = "linux")]
#[inline]
fn ask(start: *mut u8, len: usize) {
    const PAGE: usize = 4 << 10;
    /// As NumPy does for its arrays: enough for one large page wherever the allocation begins.
    const LARGE: usize = 4 << 20;
    if len < LARGE || start.is_null() {
        return;
    }
    let skipped = start.align_offset(PAGE);
    let pages = len.saturating_sub(skipped) / PAGE * PAGE;
    // SAFETY: the range lies within one allocation, and the advice changes no byte of it. Whether
    // the system took the advice makes no difference.
    unsafe { libc::madvise(start.wrapping_add(skipped).cast(), pages, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
#[inline]
fn ask(_start: *mut u8, _len: usize) {}
