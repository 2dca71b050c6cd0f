//! What lies around slices.

use crate::window::Window;
use framefold_core::SigSlice;

#[test]
fn edges_are_mirrors() {
    let seen = |len: usize| {
        let sig = SigSlice::try_within(vec![0], vec![len], &[len]).unwrap();
        Window::new(&sig, &[len], &[4]).unwrap().axes.remove(0).places
    };
    // From 4 before the first pixel on.
    assert_eq!(seen(3), [2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0]);
    assert_eq!(seen(1), [0; 9]);
}

#[test]
fn only_what_is_needed_is_read() {
    let sig = SigSlice::try_within(vec![4, 0], vec![3, 2], &[20, 10]).unwrap();
    let window = Window::new(&sig, &[20, 10], &[2, 1]).unwrap();
    assert_eq!((window.read.origin(), window.read.shape()), (&[2, 0][..], &[7, 3][..]));
    assert_eq!(window.axes[0].places, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(window.axes[1].places, [0, 0, 1, 2]);
}
