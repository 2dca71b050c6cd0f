//! Masks from the parameters of their row.

use framefold_core::{DType, NativeArray};
use framefold_kernels::{GivenArray, Masks, ParameterKind, Parameters, Value, reduction};

#[test]
fn parts_that_do_not_fit_together_are_refused() {
    let array = |shape: &[usize]| {
        let array = NativeArray::zeros(DType::F32, shape);
        Value::Arrays(vec![GivenArray { array, path: None }])
    };
    let counts = |numbers: &[usize]| Value::Counts(numbers.to_vec());
    let disk = ParameterKind::Disks.parse("1").unwrap();
    let sparse = || [("starts", counts(&[0, 2])), ("pixels", counts(&[1, 5]))];
    let shape = || ("sig_shape", counts(&[4, 5]));
    let values = || ("masks", array(&[2]));
    let [starts, pixels] = sparse();
    for (given, words) in [
        (vec![values(), starts.clone(), pixels.clone(), shape()], None),
        (vec![("masks", array(&[3, 4, 5])), shape()], None),
        (vec![("masks", array(&[3, 4, 5]))], None),
        (vec![("masks", array(&[4, 5]))], None),
        (vec![("masks", array(&[5, 4]))], Some("do not fit frames of shape [4, 5]")),
        (vec![("masks", array(&[3, 5, 4])), shape()], Some("holds no masks of shape [4, 5]")),
        (vec![values(), starts, shape()], Some("'starts' and 'pixels'")),
        (vec![values(), pixels], Some("without their shape")),
        (vec![values(), ("disk", disk), shape()], Some("one array, and no more")),
    ] {
        let mut parameters = Parameters::new(reduction("masks").unwrap());
        for (name, value) in given {
            parameters.set(name, value).unwrap();
        }
        match (Masks::from_parameters(&mut parameters, &[4, 5]), words) {
            (Ok(_), None) => {}
            (Err(error), Some(words)) => {
                assert!(error.to_string().contains(words), "{error}");
            }
            (other, _) => panic!("{:?} {words:?}", other.map(|masks| masks.n_masks())),
        }
    }
}
