//! Virtual detectors that look at nothing are named.

use crate::support::parameters;
use framefold_core::NativeArray;
use framefold_kernels::{GivenArray, Parameters, Value, reduction};

fn doubts(name: &str, given: &[(&str, &str)]) -> String {
    let parameters = parameters(reduction(name).unwrap(), given).unwrap();
    parameters.doubts(&[8, 12]).unwrap().join("|")
}

#[test]
fn detectors_that_see_something_are_no_reason_for_words() {
    for given in [
        &[("disk", "0")][..],
        &[("disk", "20"), ("ring", "1,3")],
        &[("disk", "-0.5,11.5,2")],
        &[("ring", "0,0,8,9")],
    ] {
        assert_eq!(doubts("masks", given), "", "{given:?}");
    }
    for given in [&[][..], &[("r", "3"), ("ri", "1")], &[("r", "3"), ("ri", "5")], &[("cx", "0")]] {
        assert_eq!(doubts("com", given), "", "{given:?}");
    }
    assert_eq!(doubts("sum", &[]), "");
}

#[test]
fn detectors_that_see_nothing_are_named() {
    for (name, given, expected) in [
        (
            "masks",
            &[("ring", "20,30")][..],
            "the ring 20,30 covers no pixel of frames of shape [8, 12]",
        ),
        ("masks", &[("disk", "4.5,4.5,0.5")], "the disk 4.5,4.5,0.5 covers no pixel"),
        ("masks", &[("disk", "1"), ("disk", "40,4,2")], "the disk 40,4,2 covers no pixel"),
        ("masks", &[("disk", "9,4,3")], "the disk 9,4,3 has its centre (9, 4) outside of frames"),
        (
            "masks",
            &[("ring", "3,-0.6,1,9")],
            "the ring 3,-0.6,1,9 has its centre (3, -0.6) outside",
        ),
        ("com", &[("cy", "8")], "the region around (cy, cx) has its centre (8, 6) outside"),
        ("com", &[("cy", "80"), ("r", "3")], "the region around (cy, cx) covers no pixel"),
        ("com", &[("ri", "20")], "the region around (cy, cx) covers no pixel"),
    ] {
        let found = doubts(name, given);
        assert!(found.contains(expected), "{given:?}: {found}");
        assert!(!found.contains('|'), "{given:?}: {found}");
    }
}

#[test]
fn masks_of_zeros_are_counted() {
    let mut cells = vec![0u16; 3 * 8 * 12];
    cells[150] = 256;
    let given = |shape: &[usize], cells: &[u16]| {
        let array = NativeArray::try_new(shape, cells.to_vec()).unwrap();
        let mut masks = Parameters::new(reduction("masks").unwrap());
        masks.set("masks", Value::Arrays(vec![GivenArray { array, path: None }])).unwrap();
        masks.doubts(&[8, 12]).unwrap()
    };
    let found = given(&[3, 8, 12], &cells);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("mask 0 of the 3") && found[1].starts_with("mask 2 of the 3"));
    assert_eq!(given(&[8, 12], &cells[..96]).len(), 1);
    assert!(given(&[8, 12], &cells[96..192]).is_empty());
    assert!(given(&[5], &[1; 5]).is_empty());
}
