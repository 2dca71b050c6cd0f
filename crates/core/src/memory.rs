//! Memory whose amount follows from input: never taken before it was asked for.
//!
//! Budget: a piece of memory is at most what is left at that moment, as [`set_budget`] says and as
//! the system grants. An allocation that fails ends the process, so what a header, a shape or an
//! option claims is asked for here first.

use crate::{Error, Result, interrupt};
use bytemuck::Zeroable;
use std::cell::Cell;
use std::sync::OnceLock;

/// Who knows how many bytes are left.
static LEFT: OnceLock<fn() -> u64> = OnceLock::new();

/// Smaller pieces are taken without a question: it is answered by reading files.
const ASKED_FROM: u64 = 32 << 20;

/// After so many values, those who watch are asked whether the work is still wanted.
const VALUES_BETWEEN_CHECKS: usize = 1 << 20;

thread_local! {
    static WITHIN: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// From now on `left` is asked how many bytes are left; the first one who says so stays.
pub fn set_budget(left: fn() -> u64) {
    LEFT.get_or_init(|| left);
}

/// Does `work`, in which no piece of memory on this thread is larger than `most` bytes.
pub fn within<T>(most: u64, work: impl FnOnce() -> T) -> T {
    struct Restored(u64);
    impl Drop for Restored {
        fn drop(&mut self) {
            WITHIN.set(self.0);
        }
    }
    let _restored = Restored(WITHIN.replace(WITHIN.get().min(most)));
    work()
}

/// The bytes that are left: the largest piece that would be granted.
pub fn left() -> u64 {
    LEFT.get().map_or(u64::MAX, |left| left()).min(WITHIN.get())
}

/// Whether there is memory for so many bytes.
pub fn fits(len_bytes: u64) -> bool {
    is_left(len_bytes)
        && usize::try_from(len_bytes)
            .is_ok_and(|len_bytes| Vec::<u8>::new().try_reserve_exact(len_bytes).is_ok())
}

/// # Errors
/// `Limit` if there is no memory for so many bytes.
pub fn check(len_bytes: u64) -> Result<()> {
    if fits(len_bytes) { Ok(()) } else { Err(too_large(len_bytes)) }
}

/// So many zeros; the system clears them when they are first touched.
///
/// # Errors
/// `Limit` if there is no memory for them.
pub fn zeros<T: Zeroable>(len: usize) -> Result<Vec<T>> {
    let len_bytes = len_bytes::<T>(len);
    if !is_left(len_bytes) {
        return Err(too_large(len_bytes));
    }
    bytemuck::try_zeroed_vec(len).map_err(|()| too_large(len_bytes))
}

/// `len` times `value`.
///
/// # Errors
/// `Limit` if there is no memory for them; `Cancelled` if the run was cancelled meanwhile.
pub fn filled<T: Clone>(value: T, len: usize) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    resize(&mut vec, len, value)?;
    Ok(vec)
}

/// What the iterator gives, whose number follows from input.
///
/// # Errors
/// `Limit` if there is no memory for them; `Cancelled` if the run was cancelled meanwhile.
pub fn collected<T>(mut items: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut vec = with_room(items.len())?;
    while items.len() > VALUES_BETWEEN_CHECKS {
        interrupt::check()?;
        vec.extend(items.by_ref().take(VALUES_BETWEEN_CHECKS));
    }
    vec.extend(items);
    Ok(vec)
}

/// The same values once more.
///
/// # Errors
/// `Limit` if there is no memory for them; `Cancelled` if the run was cancelled meanwhile.
pub fn copied<T: Clone>(values: &[T]) -> Result<Vec<T>> {
    let mut vec = with_room(values.len())?;
    for part in values.chunks(VALUES_BETWEEN_CHECKS) {
        check_now_and_then(vec.len())?;
        vec.extend_from_slice(part);
    }
    Ok(vec)
}

/// No values, and room for so many.
///
/// # Errors
/// `Limit` if there is no memory for them.
pub fn with_room<T>(len: usize) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    make_room(&mut vec, len)?;
    Ok(vec)
}

/// Makes a vector `len` values long, with `value` in new places.
///
/// # Errors
/// `Limit` if there is no memory for them; `Cancelled` if the run was cancelled meanwhile.
pub fn resize<T: Clone>(vec: &mut Vec<T>, len: usize, value: T) -> Result<()> {
    make_room(vec, len.saturating_sub(vec.len()))?;
    while vec.len() < len {
        check_now_and_then(vec.len())?;
        let more = (len - vec.len()).min(VALUES_BETWEEN_CHECKS);
        vec.resize(vec.len() + more, value.clone());
    }
    vec.truncate(len);
    Ok(())
}

fn check_now_and_then(done: usize) -> Result<()> {
    if done < VALUES_BETWEEN_CHECKS { Ok(()) } else { interrupt::check() }
}

/// Appends a value, of which there may be as many as input says.
///
/// # Errors
/// `Limit` if there is no memory for it.
pub fn push<T>(vec: &mut Vec<T>, value: T) -> Result<()> {
    grow(vec, 1)?;
    vec.push(value);
    Ok(())
}

/// Appends values.
///
/// # Errors
/// `Limit` if there is no memory for them.
pub fn append<T: Copy>(vec: &mut Vec<T>, values: &[T]) -> Result<()> {
    grow(vec, values.len())?;
    vec.extend_from_slice(values);
    Ok(())
}

/// Makes room for so many more values, and some to spare: for vectors that grow again and again.
///
/// # Errors
/// `Limit` if there is no memory for them.
pub fn grow<T>(vec: &mut Vec<T>, more: usize) -> Result<()> {
    if vec.capacity() - vec.len() >= more {
        return Ok(());
    }
    make_room(vec, more.max(vec.len()).max(4))
}

/// Makes room for so many more values.
///
/// # Errors
/// `Limit` if there is no memory for them.
pub fn make_room<T>(vec: &mut Vec<T>, more: usize) -> Result<()> {
    let len_bytes = len_bytes::<T>(vec.len().saturating_add(more));
    if more > 0 && !is_left(len_bytes) {
        return Err(too_large(len_bytes));
    }
    vec.try_reserve_exact(more).map_err(|_| too_large(len_bytes))
}

fn is_left(len_bytes: u64) -> bool {
    if len_bytes < ASKED_FROM { len_bytes <= WITHIN.get() } else { len_bytes <= left() }
}

fn len_bytes<T>(len: usize) -> u64 {
    let sizes = u64::try_from(len).ok().zip(u64::try_from(size_of::<T>()).ok());
    sizes.and_then(|(len, size)| len.checked_mul(size)).unwrap_or(u64::MAX)
}

fn too_large(len_bytes: u64) -> Error {
    Error::limit(format!("there is no memory for an array of {len_bytes} bytes"))
        .with_hint("select fewer positions with a ROI, or check the shape of the data set")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn no_piece_is_larger_than_what_is_left() {
        let refused = |outcome: Result<Vec<u64>>| {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Limit);
        };
        within(80, || {
            assert_eq!(zeros::<u64>(10).unwrap(), [0; 10]);
            assert_eq!(filled(7u64, 10).unwrap(), [7; 10]);
            assert_eq!(copied(&[7u64; 10]).unwrap(), [7; 10]);
            assert_eq!(collected(0..10u64 as u32).unwrap().len(), 10);
            refused(zeros(11));
            refused(filled(7, 11));
            refused(copied(&[7; 11]));
            refused(with_room(11));
            let mut vec = vec![1u64; 9];
            resize(&mut vec, 10, 2).unwrap();
            assert_eq!(vec, [1, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
            refused(resize(&mut vec, 11, 2).map(|()| Vec::new()));
            resize(&mut vec, 3, 2).unwrap();
            assert_eq!(vec, [1; 3]);
            assert_eq!((fits(80), fits(81)), (true, false));
        });
        assert!(filled(7u64, 11).is_ok());
    }

    #[test]
    fn filling_can_be_stopped() {
        let stopped = |work: fn(usize) -> Result<Vec<u8>>, len| {
            interrupt::watched(|| Err(Error::cancelled()), || work(len)).is_err()
        };
        let works: [fn(usize) -> _; 3] = [
            |len| filled(1, len),
            |len| copied(&vec![1; len]),
            |len| collected(vec![1; len].into_iter()),
        ];
        for work in works {
            assert!(stopped(work, 3 << 20));
            assert!(!stopped(work, 1000));
        }
    }
}
