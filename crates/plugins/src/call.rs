//! One call of a compiled function: what it may ask of the host, and what comes of its status.

use crate::dtype::{described, dtype};
use crate::table::text;
use framefold_abi::raw;
use framefold_core::{
    BufferDecl, BufferKind, BufferUse, DType, Error, JobMeta, Result, guarded, interrupt,
};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// More axes no array has.
const MOST_AXES: usize = 64;
/// Where the frame is not known.
const UNKNOWN: u64 = u64::MAX;

/// What the host keeps during a call. Safe to share, since nothing holds a function to one thread.
struct Context<'a> {
    text: Mutex<Option<String>>,
    frame: AtomicU64,
    declaring: Option<&'a Declaring>,
}

/// The buffers that are being declared.
struct Declaring {
    native: DType,
    declared: Mutex<Result<Vec<BufferDecl>>>,
}

/// A call that did not do what it should.
pub(crate) struct Failure {
    pub(crate) status: i32,
    /// What the function said.
    pub(crate) text: Option<String>,
    /// The frame of the tile that it was at, if it said so.
    pub(crate) frame: Option<usize>,
}

/// Calls a function.
///
/// # Errors
/// If it did not return 0.
pub(crate) fn call(function: impl FnOnce(*const raw::Host) -> i32) -> Result<(), Failure> {
    call_with(None, function)
}

fn call_with(
    declaring: Option<&Declaring>,
    function: impl FnOnce(*const raw::Host) -> i32,
) -> Result<(), Failure> {
    let context = Context { text: Mutex::new(None), frame: AtomicU64::new(UNKNOWN), declaring };
    let host = raw::Host {
        size: size_of::<raw::Host>(),
        minor: raw::MINOR,
        ctx: (&raw const context).cast_mut().cast(),
        fail: Some(fail),
        declare: Some(declare),
        cancelled: Some(cancelled),
        frame: context.frame.as_ptr(),
    };
    match function(&raw const host) {
        raw::OK => Ok(()),
        status => Err(Failure {
            status,
            text: locked(&context.text).take(),
            frame: usize::try_from(context.frame.load(Ordering::Relaxed))
                .ok()
                .filter(|&frame| frame != usize::MAX),
        }),
    }
}

/// Calls the function that declares all buffers.
///
/// # Errors
/// `InvalidArgument` for a declaration that cannot be; otherwise as [`Failure::into_error`].
pub(crate) fn declared(
    job: &JobMeta,
    function: impl FnOnce(*const raw::Host) -> i32,
) -> Result<Vec<BufferDecl>> {
    let declaring = Declaring { native: job.native_dtype, declared: Mutex::new(Ok(Vec::new())) };
    let outcome = call_with(Some(&declaring), function);
    let declared = declaring.declared.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    outcome.map_err(|failure| failure.into_error("declaring its result buffers"))?;
    Ok(declared)
}

impl Failure {
    /// What the function said, or what can be said for it.
    pub(crate) fn text(&self) -> String {
        let said = self.text.as_deref().unwrap_or_default().trim();
        match (self.status, said) {
            (raw::FAILED, "") => "it failed and did not say why".to_owned(),
            (raw::FAILED, said) => said.to_owned(),
            (raw::PANICKED, "") => "it panicked and did not say why".to_owned(),
            (raw::PANICKED, said) => format!("it panicked: {said}"),
            (raw::CANCELLED, _) => {
                "it returned FF_CANCELLED, but the run was not cancelled".to_owned()
            }
            (status, "") => format!("it returned the unknown status {status}"),
            (status, said) => format!("it returned the unknown status {status}: {said}"),
        }
    }

    /// Why the run is not wanted any more, if that is why the function came back.
    pub(crate) fn cancellation(&self) -> Option<Error> {
        if self.status == raw::CANCELLED { interrupt::check().err() } else { None }
    }

    pub(crate) fn into_error(self, doing: &str) -> Error {
        self.cancellation().unwrap_or_else(|| Error::user_code(format!("{doing}: {}", self.text())))
    }
}

/// Nothing panics while it holds one; what is in a poisoned one is still good.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last text counts.
///
/// # Safety
/// As in `framefold.h`.
unsafe extern "C" fn fail(ctx: *mut c_void, message: raw::Text) {
    // SAFETY: the host is borrowed until the call returns, and so is its context.
    let context = unsafe { &*ctx.cast::<Context<'_>>() };
    // SAFETY: a text of a function that obeys.
    let said = unsafe { text(&message) }.unwrap_or_else(|read| read);
    *locked(&context.text) = Some(said);
}

/// # Safety
/// As in `framefold.h`.
unsafe extern "C" fn declare(ctx: *mut c_void, buffer: *const raw::Buffer) -> i32 {
    // SAFETY: the host is borrowed until the call returns, and so is its context.
    let context = unsafe { &*ctx.cast::<Context<'_>>() };
    let Some(declaring) = context.declaring else {
        let why = "it declared a buffer outside of its function 'buffers'";
        *locked(&context.text) = Some(why.to_owned());
        return raw::FAILED;
    };
    let mut declared = locked(&declaring.declared);
    let Ok(known) = declared.as_mut() else { return raw::FAILED };
    // SAFETY: as the caller says.
    let read = unsafe { declaration(buffer, declaring.native, known) };
    match read {
        Ok(decl) => {
            known.push(decl);
            raw::OK
        }
        Err(error) => {
            *declared = Err(error);
            raw::FAILED
        }
    }
}

/// # Safety
/// As in `framefold.h`.
unsafe extern "C" fn cancelled(_ctx: *mut c_void) -> i32 {
    // Who is asked may be Python; a panic must not get out of here.
    i32::from(guarded(interrupt::check).is_err())
}

/// # Safety
/// `buffer` is null or points to a `ff_buffer` of a function that obeys.
unsafe fn declaration(
    buffer: *const raw::Buffer,
    native: DType,
    known: &[BufferDecl],
) -> Result<BufferDecl> {
    if buffer.is_null() {
        return Err(Error::invalid("it declared a buffer by a null pointer"));
    }
    // SAFETY: all begin with their size.
    let size = unsafe { (&raw const (*buffer).size).read() };
    if size < size_of::<raw::Buffer>() {
        return Err(Error::invalid(format!(
            "a declaration of a buffer has a size of {size} bytes, expected at least {}",
            size_of::<raw::Buffer>()
        ))
        .with_hint("set it to sizeof(ff_buffer)"));
    }
    // SAFETY: so many bytes are there.
    let buffer = unsafe { buffer.read() };
    // SAFETY: part of what obeys.
    let name = unsafe { text(&buffer.name) }
        .map_err(|read| Error::invalid(format!("the name of a buffer is not UTF-8: '{read}'")))?;
    if name.is_empty() {
        return Err(Error::invalid("a buffer has no name"));
    }
    if known.iter().any(|decl| decl.name == name) {
        return Err(Error::invalid(format!("two buffers are called '{name}'"))
            .with_hint("give each result buffer a name of its own"));
    }
    let kind = match buffer.kind {
        raw::NAV => BufferKind::Nav,
        raw::SIG => BufferKind::Sig,
        raw::SINGLE => BufferKind::Single,
        other => {
            return Err(Error::invalid(format!("the buffer '{name}' is of unknown kind {other}"))
                .with_hint("use FF_NAV, FF_SIG or FF_SINGLE"));
        }
    };
    let usage = match buffer.usage {
        raw::PUBLIC => BufferUse::Public,
        raw::PRIVATE => BufferUse::Private,
        raw::RESULT_ONLY => BufferUse::ResultOnly,
        other => {
            return Err(Error::invalid(format!("the buffer '{name}' has the unknown use {other}"))
                .with_hint("use FF_PUBLIC, FF_PRIVATE or FF_RESULT_ONLY"));
        }
    };
    let dtype = dtype(buffer.dtype, native).ok_or_else(|| {
        let found = described(buffer.dtype);
        Error::invalid(format!("the buffer '{name}' has the unknown dtype {found}"))
            .with_hint("make it by FF_DTYPE of a letter and a size that NumPy knows")
    })?;
    if buffer.n_extra > MOST_AXES {
        return Err(Error::invalid(format!(
            "the buffer '{name}' has {} extra axes, expected at most {MOST_AXES}",
            buffer.n_extra
        )));
    }
    if buffer.n_extra > 0 && buffer.extra_shape.is_null() {
        return Err(Error::invalid(format!(
            "the buffer '{name}' has {} extra axes, and the pointer to their lengths is null",
            buffer.n_extra
        )));
    }
    let extra_shape = if buffer.n_extra == 0 {
        Vec::new()
    } else {
        // SAFETY: it is not null, and there are so many.
        unsafe { std::slice::from_raw_parts(buffer.extra_shape, buffer.n_extra) }.to_vec()
    };
    Ok(BufferDecl { name, kind, extra_shape, dtype: dtype.into(), usage })
}
