//! Turns a fault in a mapped file into an error.
//!
//! Reading a mapped page that lies beyond the end of a truncated file, or that the disk fails to
//! deliver, raises SIGBUS, which by default ends the process. The handler here marks the mapping
//! as damaged, puts zero pages in place of the missing part, and lets the reader go on;
//! [`super::Storage::verify`] reports the damage before what was read is used.
//!
//! Faults elsewhere are none of our business: the handler puts back the one that it replaced and
//! returns, so that the same fault, or the same signal, meets that one as if we were never there.

use super::registry;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// How many handlers, installed by others on top of ours, are remembered.
const MAX_REPLACED: usize = 16;

/// The handlers that ours replaced, oldest first. Behind pointers that are never freed, so that
/// the handler can read them at any time.
static REPLACED: [AtomicPtr<libc::sigaction>; MAX_REPLACED] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MAX_REPLACED];
static N_REPLACED: AtomicUsize = AtomicUsize::new(0);
static PAGE_SIZE: AtomicUsize = AtomicUsize::new(0);

/// How long a page is; 0 before the handler is installed.
#[cfg(target_os = "linux")]
pub(crate) fn page_size() -> usize {
    PAGE_SIZE.load(Ordering::Acquire)
}

/// Makes sure that faults in mapped files end up here, even if other code has installed another
/// handler since the last call. Called at every mapping and before every partition.
///
/// # Errors
/// Whatever the system says about `sigaction` or the page size.
pub(crate) fn ensure_installed() -> io::Result<()> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);

    if PAGE_SIZE.load(Ordering::Relaxed) == 0 {
        // SAFETY: `sysconf` has no preconditions.
        let page_size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page_size = usize::try_from(page_size).map_err(|_| io::Error::last_os_error())?;
        PAGE_SIZE.store(page_size, Ordering::Release);
    }
    let present = exchange(None)?;
    if present.sa_sigaction == our_address() {
        return Ok(());
    }
    let n = N_REPLACED.load(Ordering::Acquire);
    let index = n.min(MAX_REPLACED - 1);
    if let Some(place) = REPLACED.get(index) {
        place.store(Box::into_raw(Box::new(present)), Ordering::Release);
        N_REPLACED.store(index + 1, Ordering::Release);
    }
    // SAFETY: all-zero bytes are a valid `sigaction`: no flags, the default action.
    let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
    ours.sa_sigaction = our_address();
    // On the alternate stack, where there is one: the fault may happen deep in the normal one.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `sa_mask` is a valid place for a signal set.
    unsafe { libc::sigemptyset(&raw mut ours.sa_mask) };
    exchange(Some(&ours)).map(drop)
}

fn our_address() -> libc::sighandler_t {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_fault;
    handler as libc::sighandler_t
}

/// Reads the present action for SIGBUS and, if one is given, puts another in its place.
fn exchange(new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    // SAFETY: all-zero bytes are a valid `sigaction`.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are null or point to valid, live `sigaction`s.
    let status = unsafe {
        libc::sigaction(libc::SIGBUS, new.map_or(ptr::null(), ptr::from_ref), &raw mut old)
    };
    if status == 0 { Ok(old) } else { Err(io::Error::last_os_error()) }
}

/// The handler. Calls nothing but `mmap`, `sigaction` and `raise`, takes no lock, allocates
/// nothing, and leaves `errno` as it was.
extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    let errno = errno_place();
    // SAFETY: the place belongs to this thread and is valid for its life.
    let saved = unsafe { *errno };
    // SAFETY: the kernel passes valid information to a handler installed with `SA_SIGINFO`.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // Codes of 0 and below come from `kill` and its kin: there is no fault and no address.
    let is_fault = code > 0;
    if !(is_fault && replace_by_zeros(address)) {
        step_aside(signal, is_fault);
    }
    // SAFETY: as above.
    unsafe { *errno = saved };
}

/// Puts zeros in place of the rest of the mapping that holds `address`, from its page on, if the
/// mapping is one of ours. The flag is set first: who sees the zeros finds the flag set.
fn replace_by_zeros(address: usize) -> bool {
    let page_size = PAGE_SIZE.load(Ordering::Acquire);
    let Some(end) = registry::mark_damaged(address) else {
        return false;
    };
    let Some(page) = address.checked_rem(page_size).map(|within| address - within) else {
        return false;
    };
    // SAFETY: the pages from `page` to `end` belong to one live mapping of ours, and the faulting
    // thread keeps it alive. Its readers see plain bytes before and after. The new pages are
    // part of the same address range, and go with it when it is unmapped.
    let mapped = unsafe {
        libc::mmap(
            page as *mut libc::c_void,
            end - page,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    mapped != libc::MAP_FAILED
}

/// Puts back the handler that ours replaced last; the fault, or the signal, then happens again.
fn step_aside(signal: libc::c_int, is_fault: bool) {
    let taken = N_REPLACED
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1))
        .ok()
        .and_then(|n| REPLACED.get(n.wrapping_sub(1)))
        .map(|place| place.load(Ordering::Acquire))
        .filter(|replaced| !replaced.is_null());
    match taken {
        // SAFETY: the pointer came from `Box::into_raw` and is never freed.
        Some(replaced) => unsafe {
            libc::sigaction(signal, replaced, ptr::null_mut());
        },
        // SAFETY: the default action needs no handler.
        None => unsafe {
            libc::signal(signal, libc::SIG_DFL);
        },
    }
    if !is_fault {
        // SAFETY: `raise` has no preconditions; the signal arrives after this handler returned.
        unsafe { libc::raise(signal) };
    }
}

#[cfg(any(target_os = "linux", target_os = "emscripten", target_os = "hurd"))]
fn errno_place() -> *mut libc::c_int {
    // SAFETY: has no preconditions.
    unsafe { libc::__errno_location() }
}

#[cfg(any(target_os = "macos", target_os = "ios", target_os = "freebsd"))]
fn errno_place() -> *mut libc::c_int {
    // SAFETY: has no preconditions.
    unsafe { libc::__error() }
}

#[cfg(any(target_os = "android", target_os = "netbsd", target_os = "openbsd"))]
fn errno_place() -> *mut libc::c_int {
    // SAFETY: has no preconditions.
    unsafe { libc::__errno() }
}
