//! Generic netlink messages, as bytes (`include/uapi/linux/netlink.h` and `genetlink.h`).
//!
//! ```text
//!  length u32 | kind u16 | flags u16 | sequence u32 | port u32     the header
//!  command u8 | version u8 | reserved u16                          the generic header
//!  length u16 | kind u16 | value, padded to 4 bytes                attributes
//! ```
//!
//! Numbers have the machine's byte order. Lengths include their headers.

use core::fmt;

/// The bytes of a message's header.
pub const HEADER_BYTES: usize = 16;
/// The bytes of the generic header behind it.
pub const GENERIC_HEADER_BYTES: usize = 4;
/// The bytes of an attribute's header.
pub const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// The bytes of an error's number.
const ERROR_BYTES: usize = 4;

/// The kind of a message without content.
const KIND_NOOP: u16 = 1;
/// The kind of a message that ends a request: an error, or 0 as acknowledgement.
const KIND_ERROR: u16 = 2;
/// The kinds below this are netlink's own.
const KIND_FIRST_FAMILY: u16 = 0x10;

/// A request, to be acknowledged.
const FLAGS_REQUEST: u16 = 1 | 4;
/// The bits of an attribute's kind; the others are flags.
const ATTRIBUTE_KIND: u16 = 0x3fff;
/// The flag of an attribute that consists of attributes.
const NESTED: u16 = 1 << 15;

/// Messages, attributes and their padding begin at multiples of this.
const ALIGNMENT: usize = 4;

/// Attributes, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// Adds an attribute.
    ///
    /// # Panics
    /// If the value is longer than a length can say: all values are bounded where they are made.
    pub fn put(&mut self, kind: u16, value: &[u8]) {
        let length = u16::try_from(ATTRIBUTE_HEADER_BYTES + value.len()).expect("a short value");
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(ALIGNMENT), 0);
    }

    /// Adds a number.
    pub fn put_u32(&mut self, kind: u16, value: u32) {
        self.put(kind, &value.to_ne_bytes());
    }

    /// Adds a number.
    pub fn put_u64(&mut self, kind: u16, value: u64) {
        self.put(kind, &value.to_ne_bytes());
    }

    /// Adds a text. It ends with a zero byte.
    pub fn put_text(&mut self, kind: u16, text: &str) {
        self.put(kind, &[text.as_bytes(), &[0]].concat());
    }

    /// Adds attributes as one attribute.
    pub fn put_nested(&mut self, kind: u16, nested: &Self) {
        self.put(kind | NESTED, &nested.0);
    }
}

/// A request of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The family's number.
    pub family: u16,
    /// The command.
    pub command: u8,
    /// The version of the family.
    pub version: u8,
    /// The arguments.
    pub attributes: Attributes,
}

impl Request {
    /// The bytes of the request, which asks for an acknowledgement.
    pub fn encode(&self, sequence: u32) -> Vec<u8> {
        let bytes = HEADER_BYTES + GENERIC_HEADER_BYTES + self.attributes.0.len();
        let length = u32::try_from(bytes).expect("attributes are short");
        let mut out = Vec::with_capacity(bytes);
        out.extend_from_slice(&length.to_ne_bytes());
        out.extend_from_slice(&self.family.to_ne_bytes());
        out.extend_from_slice(&FLAGS_REQUEST.to_ne_bytes());
        out.extend_from_slice(&sequence.to_ne_bytes());
        // The kernel fills the port in.
        out.extend_from_slice(&0_u32.to_ne_bytes());
        out.extend_from_slice(&[self.command, self.version, 0, 0]);
        out.extend_from_slice(&self.attributes.0);
        out
    }
}

/// Bytes that are no netlink messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kernel's netlink message is malformed")
    }
}

impl std::error::Error for Malformed {}

/// A message of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The sequence number of the request that it answers; 0 for an event.
    pub sequence: u32,
    /// Its content.
    pub content: Content<'a>,
}

/// The content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// The request was carried out, and this is the last message about it.
    Done,
    /// The request failed with this error number of the system, which is positive.
    Failed(i32),
    /// A message of a family.
    Family {
        /// The family's number.
        family: u16,
        /// The command.
        command: u8,
        /// The attributes, for [`attributes`].
        attributes: &'a [u8],
    },
    /// A message without meaning here.
    Other,
}

/// The messages of one datagram. Ends after the first malformed one.
#[derive(Clone, Debug)]
pub struct Messages<'a>(pub &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let message = split(&mut self.0).ok_or(Malformed);
        if message.is_err() {
            self.0 = &[];
        }
        Some(message)
    }
}

/// Takes the first message off.
fn split<'a>(bytes: &mut &'a [u8]) -> Option<Message<'a>> {
    let whole = usize::try_from(u32_at(bytes, 0)?).ok()?;
    let body = bytes.get(HEADER_BYTES..whole)?;
    let (kind, sequence) = (u16_at(bytes, 4)?, u32_at(bytes, 8)?);
    let content = match kind {
        KIND_ERROR => match i32::from_ne_bytes(*body.first_chunk::<ERROR_BYTES>()?) {
            0 => Content::Done,
            number => Content::Failed(number.checked_neg()?),
        },
        KIND_NOOP..KIND_FIRST_FAMILY => Content::Other,
        family => {
            let command = *body.first()?;
            let attributes = body.get(GENERIC_HEADER_BYTES..)?;
            Content::Family { family, command, attributes }
        }
    };
    // The padding of the last message may be absent.
    let next = whole.next_multiple_of(ALIGNMENT).min(bytes.len());
    *bytes = &bytes[next..];
    Some(Message { sequence, content })
}

/// Iterates over attributes: kinds without flags, and values. Ends after the first malformed one.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = Result<(u16, &[u8]), Malformed>> {
    let mut left = bytes;
    core::iter::from_fn(move || {
        if left.is_empty() {
            return None;
        }
        let attribute = split_attribute(&mut left).ok_or(Malformed);
        if attribute.is_err() {
            left = &[];
        }
        Some(attribute)
    })
}

fn split_attribute<'a>(bytes: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let whole = usize::from(u16_at(bytes, 0)?);
    let kind = u16_at(bytes, 2)? & ATTRIBUTE_KIND;
    let value = bytes.get(ATTRIBUTE_HEADER_BYTES..whole)?;
    let next = whole.next_multiple_of(ALIGNMENT).min(bytes.len());
    *bytes = &bytes[next..];
    Some((kind, value))
}

/// The value of the first attribute of this kind.
///
/// # Errors
/// If an attribute before it is malformed.
pub fn attribute(bytes: &[u8], kind: u16) -> Result<Option<&[u8]>, Malformed> {
    for each in attributes(bytes) {
        let (found, value) = each?;
        if found == kind {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// A value that is a number of 16 bits.
///
/// # Errors
/// If it has another length.
pub fn number_u16(value: &[u8]) -> Result<u16, Malformed> {
    value.try_into().map(u16::from_ne_bytes).map_err(|_| Malformed)
}

/// A value that is a number of 32 bits.
///
/// # Errors
/// If it has another length.
pub fn number_u32(value: &[u8]) -> Result<u32, Malformed> {
    value.try_into().map(u32::from_ne_bytes).map_err(|_| Malformed)
}

/// A value that is a text, with or without the zero byte at its end.
pub fn text(value: &[u8]) -> &[u8] {
    value.strip_suffix(&[0]).unwrap_or(value)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The bytes of numbers that a little-endian machine would send; the test compares on any.
    fn header(length: u32, kind: u16, flags: u16, sequence: u32) -> Vec<u8> {
        let mut out = length.to_ne_bytes().to_vec();
        out.extend_from_slice(&kind.to_ne_bytes());
        out.extend_from_slice(&flags.to_ne_bytes());
        out.extend_from_slice(&sequence.to_ne_bytes());
        out.extend_from_slice(&[0; 4]);
        out
    }

    #[test]
    fn a_request_has_these_bytes() {
        let mut attributes = Attributes::default();
        attributes.put_text(2, "nbd");
        attributes.put(7, &[9]);
        let request = Request { family: 16, command: 3, version: 1, attributes };
        let mut expected = header(36, 16, 5, 77);
        expected.extend_from_slice(&[3, 1, 0, 0]);
        expected.extend_from_slice(&8_u16.to_ne_bytes());
        expected.extend_from_slice(&2_u16.to_ne_bytes());
        expected.extend_from_slice(b"nbd\0");
        expected.extend_from_slice(&5_u16.to_ne_bytes());
        expected.extend_from_slice(&7_u16.to_ne_bytes());
        expected.extend_from_slice(&[9, 0, 0, 0]);
        assert_eq!(request.encode(77), expected);
    }

    #[test]
    fn answers_are_told_apart() {
        let mut bytes = header(20, 2, 0, 5);
        bytes.extend_from_slice(&0_i32.to_ne_bytes());
        bytes.extend(header(20, 2, 0, 6));
        bytes.extend_from_slice(&(-16_i32).to_ne_bytes());
        bytes.extend(header(16, 3, 0, 7));
        bytes.extend(header(28, 0x1f, 0, 0));
        bytes.extend_from_slice(&[4, 1, 0, 0]);
        bytes.extend_from_slice(&8_u16.to_ne_bytes());
        bytes.extend_from_slice(&1_u16.to_ne_bytes());
        bytes.extend_from_slice(&2_u32.to_ne_bytes());
        let found: Vec<_> = Messages(&bytes).map(|message| message.expect("whole")).collect();
        assert_eq!(found[0], Message { sequence: 5, content: Content::Done });
        assert_eq!(found[1], Message { sequence: 6, content: Content::Failed(16) });
        assert_eq!(found[2], Message { sequence: 7, content: Content::Other });
        let Content::Family { family: 0x1f, command: 4, attributes } = found[3].content else {
            panic!("{:?}", found[3]);
        };
        let index = attribute(attributes, 1).expect("whole").expect("there");
        assert_eq!(number_u32(index), Ok(2));
        assert_eq!(attribute(attributes, 9), Ok(None));
    }

    #[test]
    fn lengths_beyond_the_message_or_below_a_header_are_malformed() {
        for length in [0, 1, 15, 21, u32::MAX] {
            let mut bytes = header(length, 0x1f, 0, 1);
            bytes.extend_from_slice(&[0; 4]);
            let found: Vec<_> = Messages(&bytes).collect();
            assert_eq!(found, [Err(Malformed)], "{length}");
        }
        for length in [0_u16, 3, 9, u16::MAX] {
            let bytes = [&length.to_ne_bytes()[..], &[1, 0, 0, 0, 0, 0]].concat();
            assert_eq!(attributes(&bytes).collect::<Vec<_>>(), [Err(Malformed)], "{length}");
        }
        // The least of all numbers has no positive counterpart.
        let mut least = header(20, 2, 0, 1);
        least.extend_from_slice(&i32::MIN.to_ne_bytes());
        assert_eq!(Messages(&least).next(), Some(Err(Malformed)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_their_end(bytes in vec(any::<u8>(), 0..200)) {
            for message in Messages(&bytes).flatten() {
                if let Content::Family { attributes: inner, .. } = message.content {
                    prop_assert!(attributes(inner).count() <= bytes.len());
                }
            }
            prop_assert!(Messages(&bytes).count() <= 1 + bytes.len() / HEADER_BYTES);
            prop_assert!(attributes(&bytes).count() <= 1 + bytes.len() / ATTRIBUTE_HEADER_BYTES);
        }

        #[test]
        fn what_is_put_is_found(values in proptest::collection::vec(
            (1_u16..100, proptest::collection::vec(any::<u8>(), 0..40)), 0..10))
        {
            let mut built = Attributes::default();
            for (kind, value) in &values {
                built.put(*kind, value);
            }
            let request = Request { family: 0x1f, command: 1, version: 1, attributes: built };
            let bytes = request.encode(9);
            let message = Messages(&bytes).next().expect("one").expect("whole");
            let Content::Family { attributes: inner, .. } = message.content else {
                return Err(TestCaseError::fail("no message of a family"));
            };
            let found: Vec<_> = attributes(inner).flatten().collect();
            let put: Vec<_> = values.iter().map(|(kind, value)| (*kind, &value[..])).collect();
            prop_assert_eq!(found, put);
        }
    }
}
