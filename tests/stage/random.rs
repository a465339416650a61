//! Repeatable randomness: the same seed gives the same moments.

use std::time::Duration;

use crate::failure::{During, Result};

/// splitmix64: small, and good enough to choose moments.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..limit`; 0 where there is none.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.next().checked_rem(limit as u64).unwrap_or_default() as usize
    }

    /// Whether the one case in `cases` has come.
    pub(crate) fn one_in(&mut self, cases: usize) -> bool {
        self.below(cases) == 0
    }

    /// A moment in `0..limit`.
    pub(crate) fn moment(&mut self, limit: Duration) -> Duration {
        limit.mul_f64((self.next() >> 11) as f64 / (1u64 << 53) as f64)
    }
}

/// A fresh seed, short enough to type.
pub(crate) fn seed() -> Result<u64> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes)
        .map_err(|error| crate::Failure::new(error.to_string()))
        .during("random seed")?;
    Ok(u64::from(u32::from_ne_bytes(bytes)))
}
