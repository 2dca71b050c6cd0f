//! The selected frames themselves.

use crate::support::{check, dataset, run};
use framefold_core::ErrorKind;
use framefold_kernels::Pick;
use framefold_testkit::{cases, oracle};
use proptest::prelude::*;

proptest! {
    #[test]
    fn equals_its_definition(case in cases()) {
        let udf = Pick::default();
        check(&udf, &case, false, true, |frames| Ok(vec![oracle::pick(frames)?])).unwrap();
    }
}

#[test]
fn too_much_is_refused_unless_forced() {
    let data = dataset(&[4], &[5, 5], vec![7u16; 100]);
    let error = run(&Pick { max_bytes: 199 }, &data).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("200 bytes"), "{error}");
    let results = run(&Pick { max_bytes: 200 }, &data).unwrap();
    assert_eq!(results.arrays[0].shape(), [4, 5, 5]);
    assert_eq!(Pick::default().max_bytes, 1 << 30);
}
