//! Which dtype each UDF gets its tiles in.

use framefold_core::{DType, InputDType, Requirements};

/// The dtype for one UDF, whichever others run beside it.
///
/// `pixels` is the dtype of the data themselves, or the one that corrections turn it into.
pub(super) fn input_dtype(pixels: DType, required: &Requirements) -> DType {
    match required.input {
        InputDType::Native => pixels,
        InputDType::AtLeast(preferred) => DType::promote(pixels, preferred),
    }
}
