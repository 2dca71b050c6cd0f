//! A table of C functions out of a [`Function`].

use crate::function::{Host, Why};
use crate::panics::{caught, quieten};
use crate::raw::{self, UdfV1};
use crate::{Buffer, Failure, Formats, Function, Job, Method, Rows, Run, Tile, Views};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU8, Ordering};

/// A function as a table, which owns it.
///
/// In memory it is the `ff_udf_v1` itself, so that a capsule can be made of it as it is.
#[repr(transparent)]
pub struct Table(UdfV1);

// SAFETY: functions are `Send` and `Sync`, and the table is never changed.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// What `self` points to.
struct Owned<F> {
    name: String,
    function: F,
    /// What `buffers` has declared for any run: see [`UNKNOWN`].
    kinds: AtomicU8,
}

/// No buffers were declared yet.
const UNKNOWN: u8 = 0;
/// All buffers that are merged have one row per frame.
const ROWS: u8 = 1;
/// Some have not.
const OTHERS: u8 = 2;

impl Table {
    /// The table of that function.
    pub fn of<F: Function>(function: F) -> Self {
        quieten();
        let name = caught(|| function.name().to_owned());
        let name = name.unwrap_or_else(|_| std::any::type_name::<F>().to_owned());
        let owned = Box::new(Owned { name, function, kinds: AtomicU8::new(UNKNOWN) });
        let name = raw::Text { data: owned.name.as_ptr().cast(), len: owned.name.len() };
        Table(UdfV1 {
            size: size_of::<UdfV1>(),
            major: raw::MAJOR,
            minor: raw::MINOR,
            name,
            this: Box::into_raw(owned).cast(),
            requirements: Some(requirements::<F>),
            buffers: Some(buffers::<F>),
            begin: Some(begin::<F>),
            process: Some(process::<F>),
            process_csr: Some(process_csr::<F>),
            end: Some(end::<F>),
            drop_task: Some(drop_task::<F>),
            // The host puts rows in place by itself where these are missing.
            merge: (!F::FINAL_ROWS).then_some(merge::<F>),
            results: (!F::FINAL_ROWS).then_some(results::<F>),
            drop: Some(drop_table::<F>),
        })
    }

    /// The struct of the C interface, which lives as long as `self`.
    pub fn as_raw(&self) -> &UdfV1 {
        &self.0
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some(drop) = self.0.drop {
            // SAFETY: this is its owner, and nothing uses it any more.
            unsafe { drop(&raw mut self.0) }
        }
    }
}

/// Runs `work`, and tells the host what failed.
fn status(host: *const raw::Host, work: impl FnOnce(Host<'_>) -> Result<(), Failure>) -> i32 {
    let host = Host(host, PhantomData);
    match caught(|| work(host)) {
        Ok(Ok(())) => raw::OK,
        Ok(Err(Failure(Why::Cancelled))) => raw::CANCELLED,
        Ok(Err(failure)) => {
            host.fail(&failure.to_string());
            raw::FAILED
        }
        Err(panic) => {
            host.fail(&panic);
            raw::PANICKED
        }
    }
}

/// # Safety
/// `this` is that of a table of `F`.
unsafe fn owned<'a, F: Function>(this: *mut c_void) -> &'a Owned<F> {
    // SAFETY: as the caller says; it is never changed.
    unsafe { &*this.cast::<Owned<F>>() }
}

/// # Safety
/// `this` is that of a table of `F`.
unsafe fn function<'a, F: Function>(this: *mut c_void) -> &'a F {
    // SAFETY: as the caller says.
    unsafe { &owned::<F>(this).function }
}

// What follows is as the header says, and so is what it gets.

unsafe extern "C" fn requirements<F: Function>(
    this: *mut c_void,
    job: *const raw::Job,
    asked: *mut raw::Requirements,
    host: *const raw::Host,
) -> i32 {
    status(host, |_| {
        // SAFETY: the host's promises.
        let (function, job) = unsafe { (function::<F>(this), Job(&*job)) };
        let required = function.requirements(&job)?;
        // SAFETY: the host's promises; all hosts know these members.
        let asked = unsafe { &mut *asked };
        asked.method = match required.method {
            Method::Tile => raw::TILE,
            Method::Frames => raw::FRAMES,
            Method::Partition => raw::PARTITION,
        };
        asked.input = required.input.as_raw();
        asked.formats = match required.formats {
            Formats::Dense => raw::DENSE,
            Formats::Sparse => raw::CSR,
            Formats::Both => raw::DENSE | raw::CSR,
        };
        asked.depth = required.depth;
        asked.tile_bytes = required.tile_bytes;
        asked.contiguous = u64::from(required.contiguous);
        Ok(())
    })
}

unsafe extern "C" fn buffers<F: Function>(
    this: *mut c_void,
    job: *const raw::Job,
    host: *const raw::Host,
) -> i32 {
    let mut refused = raw::OK;
    let status = status(host, |_| {
        // SAFETY: the host's promises.
        let (owned, job, host) = unsafe { (owned::<F>(this), Job(&*job), &*host) };
        let declared = owned.function.buffers(&job)?;
        let is_row = |b: &Buffer| b.kind == raw::NAV || b.usage == raw::RESULT_ONLY;
        let kinds = if declared.iter().all(is_row) { ROWS } else { OTHERS };
        let is_final = |b: &Buffer| b.kind == raw::NAV && b.usage != raw::RESULT_ONLY;
        if let Some(other) = declared.iter().find(|b| F::FINAL_ROWS && !is_final(b)) {
            let name = &other.name;
            return Err(format!(
                "FINAL_ROWS is for buffers of one row per frame that process fills, and '{name}' is another"
            )
            .into());
        }
        owned.kinds.fetch_max(kinds, Ordering::Relaxed);
        for Buffer { name, kind, dtype, extra, usage } in declared {
            let buffer = raw::Buffer {
                size: size_of::<raw::Buffer>(),
                name: raw::Text { data: name.as_ptr().cast(), len: name.len() },
                kind,
                dtype: dtype.as_raw(),
                n_extra: extra.len(),
                extra_shape: extra.as_ptr(),
                usage,
            };
            let Some(declare) = host.declare else {
                return Err("the host takes no buffers".into());
            };
            // SAFETY: the host's promises.
            refused = unsafe { declare(host.ctx, &raw const buffer) };
            if refused != raw::OK {
                break;
            }
        }
        Ok(())
    });
    if status == raw::OK { refused } else { status }
}

struct Task<F: Function> {
    owned: *const Owned<F>,
    state: F::Task,
}

unsafe extern "C" fn begin<F: Function>(
    this: *mut c_void,
    run: *const raw::Run,
    host: *const raw::Host,
    task: *mut *mut c_void,
) -> i32 {
    status(host, |_| {
        // SAFETY: the host's promises.
        let (function, run) = unsafe { (function::<F>(this), Run(&*run)) };
        let state = function.begin(&run)?;
        let made = Box::new(Task::<F> { owned: this.cast_const().cast(), state });
        // SAFETY: the host's promises.
        unsafe { *task = Box::into_raw(made).cast() };
        Ok(())
    })
}

/// # Safety
/// `task` is one that `begin` of `F` made, on the only thread that uses it.
unsafe fn task<'a, F: Function>(task: *mut c_void) -> (&'a F, &'a mut F::Task) {
    // SAFETY: as the caller says.
    unsafe {
        let task = &mut *task.cast::<Task<F>>();
        (&(*task.owned).function, &mut task.state)
    }
}

unsafe extern "C" fn process<F: Function>(
    of: *mut c_void,
    tile: *const raw::Tile,
    views: *const raw::View,
    n: usize,
    host: *const raw::Host,
) -> i32 {
    status(host, |host| {
        // SAFETY: the host's promises.
        let ((function, task), tile, mut views) =
            unsafe { (task::<F>(of), Tile { raw: &*tile, host }, Views::new(views, n)) };
        function.process(task, &tile, &mut views)
    })
}

unsafe extern "C" fn process_csr<F: Function>(
    of: *mut c_void,
    rows: *const raw::Rows,
    views: *const raw::View,
    n: usize,
    host: *const raw::Host,
) -> i32 {
    status(host, |host| {
        // SAFETY: the host's promises.
        let ((function, task), rows, mut views) =
            unsafe { (task::<F>(of), Rows { raw: &*rows, host }, Views::new(views, n)) };
        function.process_rows(task, &rows, &mut views)
    })
}

unsafe extern "C" fn end<F: Function>(
    of: *mut c_void,
    views: *const raw::View,
    n: usize,
    host: *const raw::Host,
) -> i32 {
    status(host, |_| {
        // SAFETY: the host's promises.
        let ((function, task), mut views) = unsafe { (task::<F>(of), Views::new(views, n)) };
        function.end(task, &mut views)
    })
}

unsafe extern "C" fn drop_task<F: Function>(task: *mut c_void) {
    // There is no one to tell of a panic, and the process goes on.
    let _ = caught(|| {
        // SAFETY: `begin` made it, and it is dropped once.
        drop(unsafe { Box::from_raw(task.cast::<Task<F>>()) });
    });
}

unsafe extern "C" fn merge<F: Function>(
    this: *mut c_void,
    dest: *const raw::View,
    src: *const raw::View,
    n: usize,
    host: *const raw::Host,
) -> i32 {
    status(host, |_| {
        // SAFETY: the host's promises.
        let (owned, mut dest, src) =
            unsafe { (owned::<F>(this), Views::new(dest, n), Views::new(src, n)) };
        let rows = owned.kinds.load(Ordering::Relaxed) == ROWS;
        match owned.function.merge(&mut dest, &src) {
            Err(Failure(Why::NotOverridden)) if rows => {
                dest.copy_from(&src);
                Ok(())
            }
            merged => merged,
        }
    })
}

unsafe extern "C" fn results<F: Function>(
    this: *mut c_void,
    job: *const raw::Job,
    merged: *const raw::View,
    n: usize,
    results: *const raw::View,
    n_results: usize,
    host: *const raw::Host,
) -> i32 {
    status(host, |_| {
        // SAFETY: the host's promises.
        let (function, job, merged, mut results) = unsafe {
            (function::<F>(this), Job(&*job), Views::new(merged, n), Views::new(results, n_results))
        };
        function.results(&job, &merged, &mut results)
    })
}

unsafe extern "C" fn drop_table<F: Function>(table: *mut UdfV1) {
    // SAFETY: its owner calls this once.
    let this = unsafe { std::mem::replace(&mut (*table).this, null_mut()) };
    let _ = caught(|| {
        // SAFETY: `of` made it.
        drop(unsafe { Box::from_raw(this.cast::<Owned<F>>()) });
    });
}
