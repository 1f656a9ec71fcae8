//! Values of a profile's file.

use drive_profile::findings::{AccessPattern, LimitedQuantity, RotationVerdict};
use drive_profile::findings::{OutlierReason, Stage};
use units::{Angle, Bytes, Duration, Lba, Op, Sectors, Share};

use input::InputError;
use input::TIME_MAX;
use input::{Value, list, size_text};

use crate::file::exact_time;

/// A type that is written as one TOML value and reads back as the same value.
pub(super) trait Written: Sized {
    /// The accepted values, for messages.
    const EXPECTED: &'static str;

    /// The value as TOML.
    fn text(&self) -> String;

    /// The value from TOML.
    fn read(value: &Value<'_>) -> Result<Self, InputError>;
}

impl Written for u64 {
    const EXPECTED: &'static str = "a whole number";

    fn text(&self) -> String {
        self.to_string()
    }

    fn read(value: &Value<'_>) -> Result<Self, InputError> {
        // TOML's integers are signed.
        value.integer(0..=i64::MAX.unsigned_abs(), "")
    }
}

impl Written for u32 {
    const EXPECTED: &'static str = "a whole number";

    fn text(&self) -> String {
        self.to_string()
    }

    fn read(value: &Value<'_>) -> Result<Self, InputError> {
        let number = value.integer(0..=Self::MAX.into(), "")?;
        Ok(Self::try_from(number).expect("within its range"))
    }
}

impl Written for bool {
    const EXPECTED: &'static str = "true or false";

    fn text(&self) -> String {
        self.to_string()
    }

    fn read(value: &Value<'_>) -> Result<Self, InputError> {
        value.boolean()
    }
}

impl Written for String {
    const EXPECTED: &'static str = "a text";

    fn text(&self) -> String {
        toml::Value::from(self.as_str()).to_string()
    }

    fn read(value: &Value<'_>) -> Result<Self, InputError> {
        value.text(Self::EXPECTED).map(str::to_owned)
    }
}

impl Written for Duration {
    const EXPECTED: &'static str = "a time such as \"8333us\"";

    fn text(&self) -> String {
        exact_time(*self)
    }

    fn read(value: &Value<'_>) -> Result<Self, InputError> {
        value.duration(Self::ZERO..=TIME_MAX, "")
    }
}

impl Written for Bytes {
    const EXPECTED: &'static str = "a size such as \"256KiB\"";

    fn text(&self) -> String {
        format!("\"{}\"", size_text(*self))
    }

    fn read(value: &Value<'_>) -> Result<Self, InputError> {
        value.quantity(Self::EXPECTED)
    }
}

impl Written for Sectors {
    const EXPECTED: &'static str = "a size of whole sectors such as \"256KiB\"";

    fn text(&self) -> String {
        self.bytes().text()
    }

    fn read(value: &Value<'_>) -> Result<Self, InputError> {
        let bytes: Bytes = value.quantity(Self::EXPECTED)?;
        bytes.sectors_exact().ok_or_else(|| value.refuse(Self::EXPECTED))
    }
}

impl Written for Lba {
    const EXPECTED: &'static str = "the number of a sector";

    fn text(&self) -> String {
        self.0.to_string()
    }

    fn read(value: &Value<'_>) -> Result<Self, InputError> {
        u64::read(value).map(Self)
    }
}

impl Written for Share {
    const EXPECTED: &'static str = "a share from \"0%\" to \"100%\"";

    fn text(&self) -> String {
        format!("\"{self}\"")
    }

    fn read(value: &Value<'_>) -> Result<Self, InputError> {
        value.share()
    }
}

/// In 2⁻³² of a revolution, as in drive files.
impl Written for Angle {
    const EXPECTED: &'static str = "a whole number of 2^-32 of a turn";

    fn text(&self) -> String {
        self.0.to_string()
    }

    fn read(value: &Value<'_>) -> Result<Self, InputError> {
        u32::read(value).map(Self)
    }
}

/// The value of this name.
pub(super) fn named<T: Copy>(
    value: &Value<'_>,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, InputError> {
    let expected = || format!("one of {}", list(all.iter().map(|one| name(*one)), '"'));
    let text = value.text(expected())?;
    all.iter().copied().find(|one| name(*one) == text).ok_or_else(|| value.refuse(expected()))
}

/// Implements [`Written`] for an enum by the names of its variants.
macro_rules! by_name {
    ($type:ty, $expected:literal, $($value:path = $name:literal),+ $(,)?) => {
        impl Written for $type {
            const EXPECTED: &'static str = $expected;

            fn text(&self) -> String {
                match self {
                    $($value => concat!("\"", $name, "\"").to_owned(),)+
                }
            }

            fn read(value: &Value<'_>) -> Result<Self, InputError> {
                named(value, &[$($value),+], |one| match one {
                    $($value => $name,)+
                })
            }
        }
    };
}
pub(super) use by_name;

by_name!(
    Op,
    "what a command does",
    Op::Read = "read",
    Op::Write = "write",
    Op::Flush = "flush",
    Op::Trim = "trim",
    Op::WriteZeroes = "write-zeroes",
    Op::Seek = "seek",
);
by_name!(
    AccessPattern,
    "where commands go",
    AccessPattern::Sequential = "sequential",
    AccessPattern::Random = "random",
);
by_name!(
    LimitedQuantity,
    "what is counted",
    LimitedQuantity::Commands = "commands",
    LimitedQuantity::Bytes = "bytes",
);
by_name!(
    RotationVerdict,
    "whether anything turns",
    RotationVerdict::TooFast = "not-rotating-at-once",
    RotationVerdict::Uniform = "not-rotating-level",
    RotationVerdict::MayRotate = "may-be-rotating",
);
by_name!(
    OutlierReason,
    "why it was kept out",
    OutlierReason::Failed = "failed",
    OutlierReason::Late = "late",
    OutlierReason::Remapped = "elsewhere",
);

impl Written for Stage {
    const EXPECTED: &'static str = "what is measured";

    fn text(&self) -> String {
        format!("\"{}\"", self.name())
    }

    fn read(value: &Value<'_>) -> Result<Self, InputError> {
        named(value, &Self::ALL, Self::name)
    }
}
