//! The middle one of several values, by exchanges that do not depend on the values: so it is found for
//! many windows at once, by vector instructions.

/// For so many windows at once.
pub(super) const AT_ONCE: usize = 256;

/// The exchanges that bring the middle one of `n` values to place `n / 2`.
#[derive(Debug)]
pub(super) struct MiddleOf {
    exchanges: Vec<Exchange>,
    middle: usize,
}

/// The smaller one of two values comes to `low`, the larger one to `high`.
#[derive(Debug)]
struct Exchange {
    low: usize,
    high: usize,
    needed: Needed,
}

/// Which of the two is looked at again.
#[derive(Clone, Copy, Debug)]
enum Needed {
    Low,
    High,
    Both,
}

impl MiddleOf {
    /// For `n` values, 1 or more: those exchanges of a network that the middle one depends on.
    pub(super) fn new(n: usize) -> Self {
        let middle = n / 2;
        let mut is_needed = vec![false; n];
        if let Some(middle) = is_needed.get_mut(middle) {
            *middle = true;
        }
        let mut exchanges = Vec::new();
        let all = if n == 9 { OF_9.to_vec() } else { sorting(n) };
        for (low, high) in all.into_iter().rev() {
            let needed = match (is_needed[low], is_needed[high]) {
                (false, false) => continue,
                (true, false) => Needed::Low,
                (false, true) => Needed::High,
                (true, true) => Needed::Both,
            };
            (is_needed[low], is_needed[high]) = (true, true);
            exchanges.push(Exchange { low, high, needed });
        }
        exchanges.reverse();
        MiddleOf { exchanges, middle }
    }

    /// The middle value at each place of `lines`, of which there are `n`, and which are exchanged.
    #[inline(always)]
    pub(super) fn find<'l, K: Ord + Copy>(
        &self,
        lines: &'l mut [[K; AT_ONCE]],
    ) -> Option<&'l [K; AT_ONCE]> {
        for exchange in &self.exchanges {
            let Ok([low, high]) = lines.get_disjoint_mut([exchange.low, exchange.high]) else {
                return None;
            };
            let both = low.iter_mut().zip(high);
            match exchange.needed {
                Needed::Low => both.for_each(|(low, high)| *low = (*low).min(*high)),
                Needed::High => both.for_each(|(low, high)| *high = (*low).max(*high)),
                Needed::Both => both.for_each(|(low, high)| {
                    (*low, *high) = ((*low).min(*high), (*low).max(*high));
                }),
            }
        }
        lines.get(self.middle)
    }
}

/// Fewer than those of the network that sorts nine values: A. W. Paeth, "Median finding on a 3 × 3 grid", Graphics
/// Gems (1990).
#[rustfmt::skip]
const OF_9: [(usize, usize); 19] = [
    (1, 2), (4, 5), (7, 8), (0, 1), (3, 4), (6, 7), (1, 2), (4, 5), (7, 8), (0, 3),
    (5, 8), (4, 7), (3, 6), (1, 4), (2, 5), (4, 7), (4, 2), (6, 4), (4, 2),
];

/// The exchanges that sort `n` values: K. E. Batcher, "Sorting networks and their applications" (1968), in the
/// order of algorithm M of D. E. Knuth, The Art of Computer Programming, volume 3, section 5.2.2.
fn sorting(n: usize) -> Vec<(usize, usize)> {
    let mut exchanges = Vec::new();
    let largest = n.next_power_of_two() / 2;
    let mut step = largest;
    while step > 0 {
        let (mut next, mut parity, mut distance) = (largest, 0, step);
        loop {
            let lows = (0..n.saturating_sub(distance)).filter(|low| low & step == parity);
            exchanges.extend(lows.map(|low| (low, low + distance)));
            if next == step {
                break;
            }
            distance = next - step;
            next /= 2;
            parity = step;
        }
        step /= 2;
    }
    exchanges
}
