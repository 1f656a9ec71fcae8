//! Aligned memory for direct access, without unsafe code: allocated longer, and used from the first
//! aligned byte.

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

    /// Its length.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its first `len` bytes.
    ///
    /// # Panics
    /// If it is shorter.
    pub fn bytes(&mut self, len: usize) -> &mut [u8] {
        assert!(len <= self.len, "a transfer fits its buffer");
        &mut self.bytes[self.from..self.from + len]
    }
}
