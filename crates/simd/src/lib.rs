//! The vector instructions of the machine at hand.
//!
//! framefold is compiled for the oldest processors of its platforms. A loop that profits from wider
//! vectors is wrapped in [`run!`]: the compiler then makes one copy of it for each instruction set,
//! and the best one that the processor has is taken at run time.
//!
//! ```
//! use framefold_simd::{Simd, run};
//!
//! #[inline(always)]
//! fn sum(cells: &[u16]) -> u64 {
//!     cells.iter().map(|&cell| u64::from(cell)).sum()
//! }
//!
//! assert_eq!(run!(Simd::best(), sum(&[1, 2, 3])), 6);
//! ```
//!
//! Which copy runs never changes a result: the compiler keeps the order of floating-point
//! operations and fuses none that are not written as [`f64::mul_add`]. Tests run their loops with
//! every entry of [`Simd::all`], the plain one first, and compare bits.

mod reverse;
mod transpose;

pub use reverse::reverse;
pub use transpose::transpose;

use std::sync::OnceLock;

/// An instruction set that this processor is known to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Simd(Level);

/// Names of instruction sets, in the order of what they can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What every processor of the platform has (on ARM, NEON is part of that).
    Plain,
    /// x86-64-v3: AVX2, FMA, BMI and F16C.
    Avx2,
    /// x86-64-v4 and VNNI, IFMA and VBMI: the AVX-512 of 2019 and later.
    Avx512,
}

impl Simd {
    /// The best that this processor has, asked for once. The environment variable `FRAMEFOLD_SIMD`
    /// (`plain`, `avx2` or `avx512`) sets an upper limit, for comparisons.
    pub fn best() -> Simd {
        static BEST: OnceLock<Simd> = OnceLock::new();
        *BEST.get_or_init(|| {
            let limit = std::env::var("FRAMEFOLD_SIMD").ok().and_then(|name| Level::named(&name));
            let allowed = |simd: &Simd| limit.is_none_or(|limit| simd.0 <= limit);
            Simd::all().into_iter().rev().find(allowed).unwrap_or(Simd(Level::Plain))
        })
    }

    /// All that this processor has, plain first.
    pub fn all() -> Vec<Simd> {
        let known = [Level::Plain, Level::Avx2, Level::Avx512];
        known.into_iter().filter(|level| level.is_detected()).map(Simd).collect()
    }

    /// The plain instruction set of the platform.
    pub fn plain() -> Simd {
        Simd(Level::Plain)
    }

    /// Its name. Code that calls intrinsics of an instruction set checks for it here first.
    pub fn level(self) -> Level {
        self.0
    }

    /// What has been found, for [`run!`] to choose by.
    #[doc(hidden)]
    #[inline]
    pub fn found(self) -> Found {
        match self.0 {
            Level::Plain => Found::Plain,
            Level::Avx2 => Found::Avx2(Avx2(())),
            Level::Avx512 => Found::Avx512(Avx512(())),
        }
    }
}

/// Evaluates an expression, compiled for an instruction set: `run!(simd, work)`.
///
/// Only what the compiler inlines into the expression is: functions it calls are marked
/// `#[inline(always)]`. `return` and `?` leave the expression, not the function around it.
///
/// This is a macro because each instruction set needs a closure of its own: one closure that
/// several functions call is not inlined into any of them, and runs as plain code, unless it is
/// very small.
#[macro_export]
macro_rules! run {
    ($simd:expr, $work:expr $(,)?) => {
        match $crate::Simd::found($simd) {
            $crate::Found::Plain => $crate::run_plain(|| $work),
            $crate::Found::Avx2(avx2) => avx2.run(|| $work),
            $crate::Found::Avx512(avx512) => avx512.run(|| $work),
        }
    };
}

/// An instruction set that was found, as a licence to run code for it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Found {
    Plain,
    Avx2(Avx2),
    Avx512(Avx512),
}

/// Only made after the processor was asked for AVX2 and what belongs to it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

/// Only made after the processor was asked for AVX-512 and what belongs to it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

#[doc(hidden)]
#[inline(always)]
pub fn run_plain<R>(work: impl FnOnce() -> R) -> R {
    work()
}

impl Avx2 {
    #[doc(hidden)]
    #[inline(always)]
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        // SAFETY: `self` exists, so the processor was asked for these instructions.
        #[cfg(target_arch = "x86_64")]
        return unsafe { run_avx2(work) };
        #[cfg(not(target_arch = "x86_64"))]
        work()
    }
}

impl Avx512 {
    #[doc(hidden)]
    #[inline(always)]
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        // SAFETY: `self` exists, so the processor was asked for these instructions.
        #[cfg(target_arch = "x86_64")]
        return unsafe { run_avx512(work) };
        #[cfg(not(target_arch = "x86_64"))]
        work()
    }
}

impl Level {
    fn named(name: &str) -> Option<Level> {
        match name {
            "plain" => Some(Level::Plain),
            "avx2" => Some(Level::Avx2),
            "avx512" => Some(Level::Avx512),
            _ => None,
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn is_detected(self) -> bool {
        // Each feature that is enabled below is asked for here.
        macro_rules! all_detected {
            ($($feature:tt),*) => { true $(&& std::arch::is_x86_feature_detected!($feature))* };
        }
        match self {
            Level::Plain => true,
            Level::Avx2 => all_detected!(
                "avx", "avx2", "fma", "bmi1", "bmi2", "f16c", "lzcnt", "movbe", "popcnt"
            ),
            Level::Avx512 => {
                Level::Avx2.is_detected()
                    && all_detected!(
                        "avx512f",
                        "avx512bw",
                        "avx512cd",
                        "avx512dq",
                        "avx512vl",
                        "avx512vnni",
                        "avx512ifma",
                        "avx512vbmi"
                    )
            }
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_detected(self) -> bool {
        self == Level::Plain
    }
}

// Marked for inlining so that it is compiled beside the closure, of which it is the only caller.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx,avx2,fma,bmi1,bmi2,f16c,lzcnt,movbe,popcnt")]
fn run_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}

// Marked for inlining so that it is compiled beside the closure, of which it is the only caller.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx,avx2,fma,bmi1,bmi2,f16c,lzcnt,movbe,popcnt")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vnni")]
#[target_feature(enable = "avx512ifma,avx512vbmi")]
fn run_avx512<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Asks for the memory behind `cells` to be brought near, for a loop that will soon read it and has
/// too much to do besides for the processor to look that far ahead.
#[inline(always)]
pub fn prefetch<T>(cells: &[T]) {
    prefetch_beyond(cells, 0);
}

/// Asks for what lies `ahead` bytes behind `cells`, which are being read: processors fetch ahead by
/// themselves, but within a page of 4 KiB only, and begin slowly. Nothing need be there.
#[inline(always)]
pub fn prefetch_beyond<T>(cells: &[T], ahead: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const LINE_BYTES: usize = 64;
        for line in 0..size_of_val(cells).div_ceil(LINE_BYTES) {
            let start = cells.as_ptr().cast::<i8>().wrapping_add(ahead + line * LINE_BYTES);
            // SAFETY: a prefetch reads nothing and may be given any address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (cells, ahead);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(always)]
    fn dot(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).fold(0.0, |sum, (&x, &y)| x.mul_add(y, sum))
    }

    #[test]
    fn every_level_gives_the_same_bits() {
        let a: Vec<f32> = (0..1000).map(|i| (i as f32).sin()).collect();
        let b: Vec<f32> = (0..1000).map(|i| (i as f32).cos()).collect();
        let levels = Simd::all();
        assert_eq!(levels[0], Simd::plain());
        let plain = dot(&a, &b);
        for simd in levels {
            assert_eq!(run!(simd, dot(&a, &b)).to_bits(), plain.to_bits(), "{simd:?}");
        }
        assert!(Simd::all().contains(&Simd::best()));
    }

    #[test]
    fn names_are_those_of_the_variable() {
        assert_eq!(Level::named("avx2"), Some(Level::Avx2));
        assert_eq!(Level::named("AVX2"), None);
        assert!(Level::Plain < Level::Avx2 && Level::Avx2 < Level::Avx512);
    }
}
