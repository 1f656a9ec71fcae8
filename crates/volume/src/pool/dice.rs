//! Numbers that look like chance and follow from a seed (`SplitMix64`): a `random` layout is stored as its seed.

/// A sequence of such numbers.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The sequence of that seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// The next number, under `end`.
    ///
    /// # Panics
    /// If nothing is under `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        assert!(end > 0, "there is a number to draw");
        let drawn = u128::from(self.draw()) * u128::from(end);
        u32::try_from(drawn >> 64).expect("less than its end")
    }
}
