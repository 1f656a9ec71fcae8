//! The encoding of values as bytes.
//!
//! Unsigned numbers are in groups of seven bits, the lowest first; each byte but the last has its
//! high bit set (LEB128). Signed numbers are mapped to unsigned ones first (0, −1, 1, −2, …). A
//! value that is incomplete or invalid is a [`FormatError`].

use core::num::NonZeroU32;
use std::sync::Arc;

use engine::PolicyName;
use units::{Angle, DiskTime, Duration, Extent, Instant, Lba, Sectors, Share};

use crate::limits::LIST_MAX;

/// Invalid bytes: what was expected there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatError(pub &'static str);

impl core::fmt::Display for FormatError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "expected {}", self.0)
    }
}

/// The input that is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a>(pub(crate) &'a [u8]);

impl<'a> Source<'a> {
    pub(crate) fn byte(&mut self) -> Result<u8, FormatError> {
        let (first, rest) = self.0.split_first().ok_or(FormatError("another byte"))?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], FormatError> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(FormatError("more bytes"))?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn number(&mut self) -> Result<u64, FormatError> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(FormatError("a number of at most 64 bits"))
    }

    pub(crate) fn signed(&mut self) -> Result<i64, FormatError> {
        let folded = self.number()?;
        let half = (folded >> 1).cast_signed();
        Ok(if folded & 1 == 0 { half } else { !half })
    }
}

pub(crate) fn put_number(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    to.push(number.to_le_bytes()[0]);
}

pub(crate) fn put_signed(number: i64, to: &mut Vec<u8>) {
    put_number(((number << 1) ^ (number >> 63)).cast_unsigned(), to);
}

/// A value with an encoding.
pub(crate) trait Coded: Sized {
    fn put(&self, to: &mut Vec<u8>);
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError>;
}

/// A struct is encoded as its fields in order. One list encodes and decodes it, and the compiler
/// checks that it is complete.
macro_rules! fields {
    ($($type:ty { $($field:ident),* $(,)? })*) => { $(
        impl Coded for $type {
            fn put(&self, to: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.put(to);)*
            }
            fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
                $(let $field = Coded::take(from)?;)*
                Ok(Self { $($field),* })
            }
        }
    )* };
}
pub(crate) use fields;

/// An enum is encoded as the index in this list.
macro_rules! choices {
    ($($type:ty as $what:literal { $($choice:path),* $(,)? })*) => { $(
        impl Coded for $type {
            fn put(&self, to: &mut Vec<u8>) {
                let all = [$($choice),*];
                let index = all.iter().position(|choice| choice == self);
                let index = index.expect("it is in the list");
                to.push(u8::try_from(index).expect("choices are few"));
            }
            fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
                let all = [$($choice),*];
                all.get(usize::from(from.byte()?)).copied().ok_or(FormatError($what))
            }
        }
    )* };
}
pub(crate) use choices;

/// A policy is encoded as its index in [`PolicyName::ALL`].
impl Coded for PolicyName {
    fn put(&self, to: &mut Vec<u8>) {
        let index = Self::ALL.iter().position(|policy| policy == self);
        let index = index.expect("every policy is in the list");
        to.push(u8::try_from(index).expect("policies are few"));
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        let policy = Self::ALL.get(usize::from(from.byte()?)).copied();
        policy.ok_or(FormatError("a policy"))
    }
}

/// A quantity is encoded as its number.
macro_rules! numbers {
    ($($type:ty, $to:expr, $from:expr;)*) => { $(
        impl Coded for $type {
            fn put(&self, to: &mut Vec<u8>) {
                put_number($to(self), to);
            }
            fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
                from.number().and_then($from)
            }
        }
    )* };
}

fn small(number: u64) -> Result<u32, FormatError> {
    u32::try_from(number).map_err(|_| FormatError("a number of at most 32 bits"))
}

numbers! {
    u32, |n: &u32| u64::from(*n), small;
    Instant, |n: &Instant| n.as_nanos(), |n| Ok(Instant::from_nanos(n));
    Duration, |n: &Duration| n.as_nanos(), |n| Ok(Duration::from_nanos(n));
    Lba, |n: &Lba| n.0, |n| Ok(Lba(n));
    Sectors, |n: &Sectors| n.0, |n| Ok(Sectors(n));
    Angle, |n: &Angle| u64::from(n.0), |n| small(n).map(Angle);
    NonZeroU32, |n: &NonZeroU32| u64::from(n.get()), |n| {
        small(n).and_then(|n| NonZeroU32::new(n).ok_or(FormatError("a number above 0")))
    };
    Share, |n: &Share| u64::from(n.ppb()), |n| {
        let ppb = small(n).ok().filter(|ppb| *ppb <= Share::ALL.ppb());
        ppb.map(Share::from_ppb).ok_or(FormatError("a share of at most the whole"))
    };
}

impl Coded for u64 {
    fn put(&self, to: &mut Vec<u8>) {
        put_number(*self, to);
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        from.number()
    }
}

impl Coded for DiskTime {
    fn put(&self, to: &mut Vec<u8>) {
        put_signed(self.as_nanos(), to);
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        from.signed().map(Self::from_nanos)
    }
}

impl Coded for bool {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(FormatError("0 or 1")),
        }
    }
}

impl Coded for Extent {
    fn put(&self, to: &mut Vec<u8>) {
        self.start.put(to);
        self.len.put(to);
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        let (start, len) = (Lba::take(from)?, Sectors::take(from)?);
        start
            .0
            .checked_add(len.0)
            .map(|_| Self::new(start, len))
            .ok_or(FormatError("sectors that a disk can have"))
    }
}

impl<T: Coded> Coded for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        bool::take(from)?.then(|| T::take(from)).transpose()
    }
}

impl<T: Coded> Coded for Arc<T> {
    fn put(&self, to: &mut Vec<u8>) {
        T::put(self, to);
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        T::take(from).map(Self::new)
    }
}

impl<A: Coded, B: Coded> Coded for (A, B) {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

impl<T: Coded> Coded for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u64).put(to);
        for value in self {
            value.put(to);
        }
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        let len = usize::try_from(from.number()?).ok().filter(|len| *len <= LIST_MAX);
        (0..len.ok_or(FormatError("a shorter list"))?).map(|_| T::take(from)).collect()
    }
}

impl<T: Coded + Copy, const N: usize> Coded for [T; N] {
    fn put(&self, to: &mut Vec<u8>) {
        for value in self {
            value.put(to);
        }
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        let values = (0..N).map(|_| T::take(from)).collect::<Result<Vec<T>, _>>()?;
        values.try_into().map_err(|_| FormatError("as many values as there are"))
    }
}

impl Coded for String {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u64).put(to);
        to.extend_from_slice(self.as_bytes());
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        let len = usize::try_from(from.number()?).map_err(|_| FormatError("a shorter text"))?;
        let text =
            core::str::from_utf8(from.bytes(len)?).map_err(|_| FormatError("text in UTF-8"))?;
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_comes_back(number: u64, signed: i64) {
            let mut bytes = Vec::new();
            put_number(number, &mut bytes);
            put_signed(signed, &mut bytes);
            let mut input = Source(&bytes);
            prop_assert_eq!((input.number(), input.signed()), (Ok(number), Ok(signed)));
            prop_assert!(input.0.is_empty());
        }
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_none() {
        let ten = [[0x80; 9].as_slice(), &[2]].concat();
        assert_eq!(Source(&ten).number(), Err(FormatError("a number of at most 64 bits")));
        assert_eq!(Source(&[0x80; 12]).number(), Err(FormatError("a number of at most 64 bits")));
        assert_eq!(Source(&[0x80]).number(), Err(FormatError("another byte")));
    }
}
