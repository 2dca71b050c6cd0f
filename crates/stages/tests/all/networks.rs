//! The exchanges that find the middle one of several values.

use crate::middle::{AT_ONCE, MiddleOf};

/// Rows of 0 and 1, of which the middle ones are found for many at a time. An exchange network that finds them
/// for all rows of 0 and 1 does so for all values.
fn check(n: usize, rows: impl Iterator<Item = u64>) {
    let network = MiddleOf::new(n);
    let rows: Vec<u64> = rows.collect();
    for rows in rows.chunks(AT_ONCE) {
        let mut lines = vec![[false; AT_ONCE]; n];
        for (i, row) in rows.iter().enumerate() {
            lines.iter_mut().enumerate().for_each(|(k, line)| line[i] = row >> k & 1 == 1);
        }
        let found = network.find(&mut lines).unwrap();
        for (row, found) in rows.iter().zip(found) {
            assert_eq!(*found, row.count_ones() as usize > n / 2, "{n}: {row:b}");
        }
    }
}

#[test]
fn the_middle_one_is_found() {
    for n in (1..=15).step_by(2) {
        check(n, 0..1 << n);
    }
    for n in (17..=63).step_by(2) {
        // As many 1 as 0 but for one, as in the rows that are hardest, in orders that jump.
        let jump = |seed: u64| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        let all = (1 << n) - 1;
        check(n, (0..2000).map(|seed| (jump(seed) ^ jump(seed << 7)) & all));
        check(
            n,
            (0..=n).flat_map(|ones| {
                let run: u64 = if ones == 0 { 0 } else { all >> (n - ones) };
                (0..n).map(move |by| (run << by | run >> (n - by)) & all)
            }),
        );
    }
}

#[test]
fn what_is_not_needed_is_left_out() {
    let exchanges = |n| format!("{:?}", MiddleOf::new(n)).matches("Exchange {").count();
    assert_eq!([1, 9, 25].map(exchanges), [0, 19, 113]);
}
