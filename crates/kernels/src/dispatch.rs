//! From a dtype to the Rust type behind it.

/// Runs `$body` with `$T` bound to the element type of a dtype.
macro_rules! dispatch_dtype {
    ($dtype:expr, $T:ident => $body:expr) => {
        crate::dispatch::dispatch_dtype!(
            real $dtype, $T => $body,
            C64 => { type $T = ::framefold_core::Complex64; $body },
            C128 => { type $T = ::framefold_core::Complex128; $body }
        )
    };
    // As above for real dtypes; complex ones give `$complex`.
    (real $dtype:expr, $T:ident => $body:expr, complex => $complex:expr) => {
        crate::dispatch::dispatch_dtype!(
            real $dtype, $T => $body, C64 => $complex, C128 => $complex
        )
    };
    (real $dtype:expr, $T:ident => $body:expr, C64 => $c64:expr, C128 => $c128:expr) => {
        crate::dispatch::dispatch_dtype!(
            @match $dtype, $T, $body;
            Bool ::framefold_core::Bool8, U8 u8, U16 u16, U32 u32, U64 u64,
            I8 i8, I16 i16, I32 i32, I64 i64, F16 ::framefold_core::F16, F32 f32, F64 f64;
            ::framefold_core::DType::C64 => $c64,
            ::framefold_core::DType::C128 => $c128,
        )
    };
    (@match $dtype:expr, $T:ident, $body:expr; $($variant:ident $type:ty),*; $($rest:tt)*) => {
        match $dtype {
            $(::framefold_core::DType::$variant => {
                type $T = $type;
                $body
            })*
            $($rest)*
        }
    };
}
pub(crate) use dispatch_dtype;
