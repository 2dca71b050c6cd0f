//! Random changes of inputs, without knowledge of what they lead to.

use framefold_testkit::Random;

/// Words that headers are known to be sensitive to.
const WORDS: &[&[u8]] = &[
    &[0],
    &[1],
    &[0x7F],
    &[0x80],
    &[0xFF],
    &[0; 4],
    &[0xFF; 4],
    &[0xFF, 0xFF, 0xFF, 0x7F],
    &[0, 0, 0, 0x80],
    &[0; 8],
    &[0xFF; 8],
    &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F],
    b"0",
    b"-1",
    b"99999999999999999999",
    b"18446744073709551615",
    b"1e308",
    b"nan",
    b"\n",
    b"../",
];

/// Makes inputs from others. The same seed makes the same ones.
#[derive(Clone, Debug)]
pub struct Mutator(Random);

impl Mutator {
    /// A mutator that starts from `seed`.
    pub fn new(seed: u64) -> Self {
        Mutator(Random::new(seed))
    }

    /// One of `seeds`, with a few changes, some of them taken from another one.
    pub fn input(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let Some(seed) = seeds.get(self.0.below(seeds.len())) else { return Vec::new() };
        let mut data = seed.clone();
        if self.0.below(4) > 0 {
            // Options are left as they were, more often than not.
            let at = self.0.below(16);
            if let Some(choice) = data.get_mut(at).filter(|_| self.0.below(3) == 0) {
                *choice = self.0.bits().to_le_bytes()[0];
            }
        }
        for _ in 0..1 + self.0.below(4) {
            self.change(&mut data, seeds);
        }
        data
    }

    fn change(&mut self, data: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        if data.is_empty() {
            return;
        }
        let at = self.place(data.len());
        match self.0.below(8) {
            0 => data[at] = self.0.bits().to_le_bytes()[0],
            1 => data[at] ^= 1 << self.0.below(8),
            2 => data[at] = data[at].wrapping_add_signed([-1, 1, -16, 16][self.0.below(4)]),
            3 | 4 => {
                let word = WORDS[self.0.below(WORDS.len())];
                let end = (at + word.len()).min(data.len());
                data[at..end].copy_from_slice(&word[..end - at]);
            }
            5 => {
                let end = (at + 1 + self.0.below(16)).min(data.len());
                data.drain(at..end);
            }
            6 => {
                let word = WORDS[self.0.below(WORDS.len())];
                data.splice(at..at, word.iter().copied());
            }
            _ => {
                let Some(other) = seeds.get(self.0.below(seeds.len())) else { return };
                let from = self.0.below(other.len().max(1)).min(other.len());
                let n = (1 + self.0.below(32)).min(other.len() - from).min(data.len() - at);
                data[at..at + n].copy_from_slice(&other[from..from + n]);
            }
        }
    }

    /// A place after the options; nearer to the start, where headers are, more often than not.
    fn place(&mut self, len: usize) -> usize {
        let end = if self.0.below(2) == 0 { len.min(1024) } else { len };
        16.min(end - 1) + self.0.below(end.saturating_sub(16).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_inputs() {
        let seeds = [vec![7; 100], vec![9; 3], vec![]];
        let inputs = |seed| {
            let mut mutator = Mutator::new(seed);
            (0..500).map(|_| mutator.input(&seeds)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(1).iter().any(|input| input.len() > 100));
    }
}
