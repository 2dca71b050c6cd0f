//! Which dtype each UDF gets its tiles in.

//!
//! `pixels` is the dtype of the data themselves, or the one that corrections turn it into.

use framefold_core::{DType, InputDType, Requirements};

/// The common dtype of the data and of all UDFs that share one.
pub(super) fn shared_dtype(pixels: DType, requirements: &[Requirements]) -> DType {
    requirements.iter().fold(pixels, |dtype, required| match required.input {
        InputDType::Native => dtype,
        InputDType::Shared(preferred) => DType::promote(dtype, preferred),
    })
}

/// The dtype for one UDF.
pub(super) fn input_dtype(pixels: DType, shared: DType, required: &Requirements) -> DType {
    match required.input {
        InputDType::Native => pixels,
        InputDType::Shared(_) => shared,
    }
}
