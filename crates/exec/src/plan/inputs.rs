//! Which dtype each UDF gets its tiles in.

use framefold_core::{DType, InputDType, Requirements};

/// The common dtype of the data and of all UDFs that share one.
pub(super) fn shared_dtype(native: DType, requirements: &[Requirements]) -> DType {
    requirements.iter().fold(native, |dtype, required| match required.input {
        InputDType::Native => dtype,
        InputDType::Shared(preferred) => DType::promote(dtype, preferred),
    })
}

/// The dtype for one UDF.
pub(super) fn input_dtype(native: DType, shared: DType, required: &Requirements) -> DType {
    match required.input {
        InputDType::Native => native,
        InputDType::Shared(_) => shared,
    }
}
