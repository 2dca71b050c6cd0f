//! Every reduction of the table, held to the laws of its contract.
//!
//! What is its definition, and where results are the same to the last bit, its own file checks.

use crate::support::parameters;
use framefold_core::{ErrorKind, Udf};
use framefold_kernels::{REDUCTIONS, Reduction};
use framefold_testkit::{Agreement, Values, cases, check_udf};
use proptest::prelude::*;
use std::sync::Arc;

/// The reduction with the parameters of its example, for frames of this shape; `None` if it does
/// not take such frames.
pub fn example(row: &'static Reduction, sig_shape: &[usize]) -> Option<Arc<dyn Udf>> {
    match row.build(parameters(row, row.example).unwrap(), sig_shape) {
        Ok(udf) => Some(udf),
        Err(error) if error.kind() == ErrorKind::Unsupported => None,
        // Disks and rings are for frames with two axes.
        Err(_) if sig_shape.len() != 2 => None,
        Err(error) => panic!("{}: {error}", row.name),
    }
}

proptest! {
    #[test]
    fn every_row_keeps_its_contract(case in cases()) {
        let (dataset, roi) = (case.dataset().unwrap(), case.roi().unwrap());
        // Over its whole range, a float sum can cancel to nothing but its rounding errors.
        let is_float = case.dtype.is_float() || case.dtype.is_complex();
        if is_float && case.values != Values::Counts {
            return Ok(());
        }
        for row in REDUCTIONS {
            let Some(udf) = example(row, &case.sig) else { continue };
            match udf.requirements(dataset.source().info()) {
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Unsupported),
                Ok(_) => {
                    let agreement = Agreement::Relative(1e-5);
                    check_udf(udf.as_ref(), &dataset, roi.as_ref(), agreement, case.seed)
                        .map_err(|e| TestCaseError::fail(format!("{}: {e}", row.name)))?;
                }
            }
        }
    }
}
