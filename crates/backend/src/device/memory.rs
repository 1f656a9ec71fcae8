//! Memory that direct access takes: it begins on a boundary. Made without unsafe code, by asking
//! for more and leaving out what lies before the boundary.

/// A buffer whose bytes begin on a multiple of its alignment.
#[derive(Debug)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

impl AlignedBuffer {
    /// `len` zeroes. `align` is a power of two.
    ///
    /// # Panics
    /// If it is not.
    pub fn new(len: usize, align: usize) -> Self {
        let bytes = vec![0; len + align];
        let from = bytes.as_ptr().align_offset(align);
        assert!(from < align, "bytes can be aligned");
        Self { bytes, from, len }
    }

    /// How much it holds.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds nothing.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first `len` of it.
    ///
    /// # Panics
    /// If it is shorter.
    pub fn bytes(&mut self, len: usize) -> &mut [u8] {
        assert!(len <= self.len, "a transfer fits its buffer");
        &mut self.bytes[self.from..self.from + len]
    }
}
