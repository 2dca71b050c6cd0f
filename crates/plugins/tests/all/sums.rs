//! A function written straight against the C interface, in ways that tests choose.

use framefold_abi::raw::{self, UdfV1};
use framefold_plugins::{PluginUdf, Table};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Sums: of each frame (nav), of each pixel with two columns for even and odd positions in the
/// partition's result (sig, extra axis), and over all (single).
#[derive(Debug)]
pub(crate) struct Sums {
    pub(crate) requirements: raw::Requirements,
    /// Name, kind, dtype, extra axes and use of all buffers.
    pub(crate) buffers: Vec<(&'static str, u64, raw::RawDType, Vec<usize>, u64)>,
    /// What `process` returns after the frame of that number, and what it says before.
    pub(crate) status: (i32, Option<&'static [u8]>, usize),
    pub(crate) begun: AtomicUsize,
    pub(crate) dropped: AtomicUsize,
    pub(crate) tables_dropped: AtomicUsize,
}

pub(crate) const F64: raw::RawDType = raw::dtype(b'f', 8);

impl Default for Sums {
    fn default() -> Self {
        Sums {
            requirements: raw::Requirements {
                size: size_of::<raw::Requirements>(),
                method: raw::TILE,
                input: F64,
                formats: raw::DENSE | raw::CSR,
                depth: 0,
                tile_bytes: 0,
                contiguous: 0,
            },
            buffers: vec![
                ("of_frames", raw::NAV, F64, vec![], raw::PUBLIC),
                ("of_pixels", raw::SIG, F64, vec![2], raw::PUBLIC),
                ("of_all", raw::SINGLE, F64, vec![], raw::PRIVATE),
                ("mean", raw::SINGLE, F64, vec![1], raw::RESULT_ONLY),
            ],
            status: (raw::OK, None, 0),
            begun: AtomicUsize::new(0),
            dropped: AtomicUsize::new(0),
            tables_dropped: AtomicUsize::new(0),
        }
    }
}

impl Sums {
    /// Its table, with `change` made to it. `self` is leaked.
    pub(crate) fn table(self, change: impl FnOnce(&mut UdfV1)) -> (UdfV1, &'static Sums) {
        let this: &'static Sums = Box::leak(Box::new(self));
        let mut table = UdfV1 {
            size: size_of::<UdfV1>(),
            major: raw::MAJOR,
            minor: raw::MINOR,
            name: text(b"sums"),
            this: (&raw const *this).cast_mut().cast(),
            requirements: Some(requirements),
            buffers: Some(buffers),
            begin: Some(begin),
            process: Some(process),
            process_csr: Some(process_csr),
            end: Some(end),
            drop_task: Some(drop_task),
            merge: Some(merge),
            results: Some(results),
            drop: Some(drop_table),
        };
        change(&mut table);
        (table, this)
    }

    pub(crate) fn udf(self, change: impl FnOnce(&mut UdfV1)) -> PluginUdf {
        PluginUdf::new(Arc::new(checked(&self.table(change).0).unwrap()))
    }
}

/// As the host does it.
pub(crate) fn checked(table: &UdfV1) -> framefold_core::Result<Table> {
    // SAFETY: tables of this file obey, and lies of tests are what is checked before use.
    unsafe { Table::try_new(table, Arc::new(())) }
}

pub(crate) fn text(bytes: &'static [u8]) -> raw::Text {
    raw::Text { data: bytes.as_ptr().cast(), len: bytes.len() }
}

pub(crate) fn say(host: *const raw::Host, bytes: &'static [u8]) {
    // SAFETY: the host is borrowed for the call that this is in.
    unsafe { ((*host).fail.unwrap())((*host).ctx, text(bytes)) }
}

unsafe extern "C" fn requirements(
    this: *mut c_void,
    _job: *const raw::Job,
    asked: *mut raw::Requirements,
    _host: *const raw::Host,
) -> i32 {
    // SAFETY: the host's promises.
    unsafe { *asked = (*this.cast::<Sums>()).requirements };
    raw::OK
}

unsafe extern "C" fn buffers(
    this: *mut c_void,
    _job: *const raw::Job,
    host: *const raw::Host,
) -> i32 {
    // SAFETY: the host's promises.
    let (this, host) = unsafe { (&*this.cast::<Sums>(), &*host) };
    for (name, kind, dtype, extra, usage) in &this.buffers {
        let buffer = raw::Buffer {
            size: size_of::<raw::Buffer>(),
            name: text(name.as_bytes()),
            kind: *kind,
            dtype: *dtype,
            n_extra: extra.len(),
            extra_shape: extra.as_ptr(),
            usage: *usage,
        };
        // SAFETY: the host's promises.
        let status = unsafe { (host.declare.unwrap())(host.ctx, &raw const buffer) };
        if status != raw::OK {
            return status;
        }
    }
    raw::OK
}

/// A task: the table's `self`.
struct Task(&'static Sums);

unsafe extern "C" fn begin(
    this: *mut c_void,
    _run: *const raw::Run,
    _host: *const raw::Host,
    task: *mut *mut c_void,
) -> i32 {
    // SAFETY: the host's promises; `self` is leaked.
    unsafe {
        let this = &*this.cast::<Sums>();
        this.begun.fetch_add(1, Relaxed);
        *task = Box::into_raw(Box::new(Task(this))).cast();
    }
    raw::OK
}

unsafe extern "C" fn drop_task(task: *mut c_void) {
    // SAFETY: `begin` made it.
    let task = unsafe { Box::from_raw(task.cast::<Task>()) };
    task.0.dropped.fetch_add(1, Relaxed);
}

unsafe extern "C" fn drop_table(table: *mut UdfV1) {
    // SAFETY: the owner's promise.
    unsafe { (*(*table).this.cast::<Sums>()).tables_dropped.fetch_add(1, Relaxed) };
}

/// Where the entry lies.
unsafe fn cell(view: &raw::View, at: &[usize]) -> *mut f64 {
    assert_eq!((view.n_dims, view.dtype), (at.len(), F64));
    // SAFETY: the view's promises.
    unsafe {
        let strides = std::slice::from_raw_parts(view.strides, view.n_dims);
        let shape = std::slice::from_raw_parts(view.shape, view.n_dims);
        assert!(at.iter().zip(shape).all(|(at, len)| at < len), "{at:?} of {shape:?}");
        let offset: isize = at.iter().zip(strides).map(|(&at, stride)| at as isize * stride).sum();
        view.data.byte_offset(offset).cast()
    }
}

/// Takes in the value of a cell of frame `i` of the tile.
unsafe fn add(views: &[raw::View], i: usize, sig: &[usize], first: usize, value: f64) {
    // SAFETY: the views' promises.
    unsafe {
        *cell(&views[0], &[i]) += value;
        *cell(&views[1], &[sig, &[(first + i) % 2]].concat()) += value;
        *cell(&views[2], &[0]) += value;
    }
}

fn unravel(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for (at, len) in at.iter_mut().zip(shape).rev() {
        *at = flat % len;
        flat /= len;
    }
    at
}

unsafe fn status(task: *mut c_void, host: *const raw::Host, frame: usize) -> Option<i32> {
    // SAFETY: the host's promises.
    unsafe {
        let (status, said, at) = (*task.cast::<Task>()).0.status;
        if status == raw::OK || at != frame {
            return None;
        }
        *(*host).frame = frame as u64;
        if let Some(said) = said {
            say(host, said);
        }
        Some(status)
    }
}

unsafe extern "C" fn process(
    task: *mut c_void,
    tile: *const raw::Tile,
    views: *const raw::View,
    n: usize,
    host: *const raw::Host,
) -> i32 {
    // SAFETY: the host's promises.
    unsafe {
        let tile = &*tile;
        let views = std::slice::from_raw_parts(views, n);
        let shape = std::slice::from_raw_parts(tile.sig_shape, tile.n_sig);
        assert_eq!(tile.dtype, F64);
        for i in 0..tile.depth {
            let frame = tile.data.byte_add(i * tile.frame_stride).cast::<f64>();
            for at in 0..shape.iter().product() {
                add(views, i, &unravel(at, shape), tile.first_frame, *frame.add(at));
            }
            if let Some(status) = status(task, host, i) {
                return status;
            }
        }
    }
    raw::OK
}

unsafe extern "C" fn process_csr(
    task: *mut c_void,
    rows: *const raw::Rows,
    views: *const raw::View,
    n: usize,
    host: *const raw::Host,
) -> i32 {
    // SAFETY: the host's promises.
    unsafe {
        let rows = &*rows;
        let views = std::slice::from_raw_parts(views, n);
        let shape = std::slice::from_raw_parts(rows.sig_shape, rows.n_sig);
        assert_eq!(rows.dtype, F64);
        for i in 0..rows.depth {
            for entry in *rows.starts.add(i)..*rows.starts.add(i + 1) {
                let sig = unravel(*rows.columns.add(entry) as usize, shape);
                let value = *rows.values.cast::<f64>().add(entry);
                add(views, i, &sig, rows.first_frame, value);
            }
            if let Some(status) = status(task, host, i) {
                return status;
            }
        }
    }
    raw::OK
}

unsafe extern "C" fn end(
    _task: *mut c_void,
    views: *const raw::View,
    n: usize,
    _host: *const raw::Host,
) -> i32 {
    // SAFETY: the host's promises.
    unsafe {
        let views = std::slice::from_raw_parts(views, n);
        *cell(&views[2], &[0]) *= 2.0;
    }
    raw::OK
}

unsafe fn cells<'a>(view: *const raw::View) -> &'a mut [f64] {
    // SAFETY: views of `merge` and `results` have no gaps.
    unsafe {
        let view = &*view;
        let shape = std::slice::from_raw_parts(view.shape, view.n_dims);
        std::slice::from_raw_parts_mut(view.data.cast(), shape.iter().product())
    }
}

unsafe extern "C" fn merge(
    _this: *mut c_void,
    dest: *const raw::View,
    src: *const raw::View,
    n: usize,
    _host: *const raw::Host,
) -> i32 {
    // SAFETY: the host's promises.
    unsafe {
        for i in 0..n {
            let (dest, src) = (cells(dest.add(i)), cells(src.add(i)));
            assert_eq!(dest.len(), src.len());
            // Also of rows: those of a partition are 0 before it is merged.
            dest.iter_mut().zip(src).for_each(|(dest, src)| *dest += *src);
        }
    }
    raw::OK
}

unsafe extern "C" fn results(
    _this: *mut c_void,
    job: *const raw::Job,
    merged: *const raw::View,
    n: usize,
    results: *const raw::View,
    n_results: usize,
    _host: *const raw::Host,
) -> i32 {
    // SAFETY: the host's promises.
    unsafe {
        assert_eq!((n, n_results), (3, 3));
        let total = cells(merged.add(2))[0] / 2.0;
        cells(results.add(2))[0] = total / (*job).n_selected as f64;
    }
    raw::OK
}
