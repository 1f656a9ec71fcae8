//! Little-endian integers to bytes and back. Reading never panics: missing bytes are a
//! [`Malformed`].

use core::fmt;

/// Bytes with a valid checksum and invalid contents: written by other software, or by a defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The offset in the body.
    pub at: usize,
    /// What is wrong, and what is expected.
    pub what: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at, self.what)
    }
}

impl core::error::Error for Malformed {}

/// Appends numbers.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.0.extend(value);
    }

    /// `value`, then zeroes up to `width`.
    pub(crate) fn padded(&mut self, value: &[u8], width: usize) {
        assert!(value.len() <= width, "a field holds its value");
        self.0.extend(value);
        let end = self.0.len() + width - value.len();
        self.0.resize(end, 0);
        assert!(self.0.len() >= width, "the field has its width");
    }

    /// A count, which a limit keeps far below 2³².
    pub(crate) fn count(&mut self, value: usize) {
        self.u32(u32::try_from(value).expect("every count has a limit"));
    }
}

/// Takes numbers from the front.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn refuse(&self, what: &'static str) -> Malformed {
        Malformed { at: self.at, what }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        assert!(self.at <= self.bytes.len(), "reading stays within the bytes");
        let rest = &self.bytes[self.at..];
        let (head, _) = rest.split_at_checked(len).ok_or(self.refuse("ends too early"))?;
        self.at += len;
        assert_eq!(head.len(), len, "as many bytes as were asked for");
        assert!(self.at <= self.bytes.len(), "reading stays within the bytes");
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let bytes = self.take(N)?;
        Ok(bytes.try_into().expect("as many as were taken"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A count of at most `max`.
    pub(crate) fn count(&mut self, max: usize, what: &'static str) -> Result<usize, Malformed> {
        assert!(u32::try_from(max).is_ok(), "a limit fits its field");
        let count = self.u32()? as usize;
        if count > max { Err(self.refuse(what)) } else { Ok(count) }
    }

    /// `width` bytes that are all zero.
    pub(crate) fn zeroes(&mut self, width: usize) -> Result<(), Malformed> {
        let bytes = self.take(width)?;
        if bytes.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(self.refuse("is to be zero")) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }
}
