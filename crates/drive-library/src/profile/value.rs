//! Values of a profile's file.

use drive_profile::HeadOrder;
use drive_profile::findings::{AccessPattern, LimitedQuantity, RotationVerdict};
use drive_profile::findings::{OutlierReason, Stage};
use units::{Angle, Bytes, Duration, Lba, Op, Sectors, Share};

use input::InputError;
use input::TIME_MAX;
use input::{Value, list, size_text};

use super::name::Name;
use crate::file::exact_time;

/// A type that is written as one TOML value and reads back as the same value.
pub(super) trait Written: Sized {
    /// The accepted values, for messages.
    const EXPECTED: &'static str;

    /// The accepted values, for the list of keys.
    fn shape() -> String {
        Self::EXPECTED.to_owned()
    }

    /// The value as TOML.
    fn text(&self) -> String;

    /// The value from TOML.
    fn read(value: &Value<'_>) -> Result<Self, InputError>;
}

/// TOML's integers are signed and have 64 bits.
const INTEGER_MAX: u64 = i64::MAX.unsigned_abs();

/// Implements [`Written`] for unsigned integers.
macro_rules! integers {
    ($($type:ty: $max:expr),+) => {
        $(impl Written for $type {
            const EXPECTED: &'static str = "a whole number";

            fn text(&self) -> String {
                self.to_string()
            }

            fn read(value: &Value<'_>) -> Result<Self, InputError> {
                let number = value.integer(0..=$max, "")?;
                Ok(Self::try_from(number).expect("within its range"))
            }
        })+
    };
}

integers!(u64: INTEGER_MAX, u32: u32::MAX.into());

/// Implements [`Written`] for a wrapper of an integer.
macro_rules! wrappers {
    ($($type:path, $integer:ty: $expected:literal;)+) => {
        $(impl Written for $type {
            const EXPECTED: &'static str = $expected;

            fn text(&self) -> String {
                self.0.text()
            }

            fn read(value: &Value<'_>) -> Result<Self, InputError> {
                <$integer>::read(value).map($type)
            }
        })+
    };
}

wrappers! {
    Lba, u64: "the number of a sector";
    // As in drive files.
    Angle, u32: "a whole number of 2^-32 of a revolution";
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

impl Written for Share {
    const EXPECTED: &'static str = "a share from \"0%\" to \"100%\"";

    fn text(&self) -> String {
        format!("\"{self}\"")
    }

    fn read(value: &Value<'_>) -> Result<Self, InputError> {
        value.share()
    }
}

/// A type whose values are written as names.
pub(super) trait Named: Copy + PartialEq + 'static {
    /// The values' description, for messages.
    const EXPECTED: &'static str;

    /// Each value with its name.
    fn names() -> Vec<(Self, Name)>;
}

impl<T: Named> Written for T {
    const EXPECTED: &'static str = <T as Named>::EXPECTED;

    fn shape() -> String {
        format!("one of {}", list(T::names().iter().map(|(_, name)| name.current), '"'))
    }

    fn text(&self) -> String {
        let names = T::names();
        let (_, name) = names.iter().find(|(one, _)| one == self).expect("each value has a name");
        format!("\"{}\"", name.current)
    }

    fn read(value: &Value<'_>) -> Result<Self, InputError> {
        let text = value.text(Self::shape())?;
        let found = T::names().into_iter().find(|(_, name)| name.is(text));
        found.map(|(one, _)| one).ok_or_else(|| value.refuse(Self::shape()))
    }
}

/// Implements [`Named`]. An earlier name stands beside the current one: `("new", "old")`.
macro_rules! by_name {
    ($type:ty, $expected:literal, $($value:ident = $name:expr),+ $(,)?) => {
        impl Named for $type {
            const EXPECTED: &'static str = $expected;

            fn names() -> Vec<(Self, Name)> {
                vec![$((Self::$value, Name::from($name))),+]
            }
        }
    };
}

by_name!(
    Op,
    "an operation",
    Read = "read",
    Write = "write",
    Flush = "flush",
    Trim = "trim",
    WriteZeroes = "write-zeroes",
    Seek = "seek",
);
by_name!(AccessPattern, "an access pattern", Sequential = "sequential", Random = "random");
by_name!(LimitedQuantity, "the limited quantity", Commands = "commands", Bytes = "bytes");
by_name!(
    RotationVerdict,
    "whether the device rotates",
    TooFast = ("not-rotating-fast", "not-rotating-at-once"),
    Uniform = ("not-rotating-uniform", "not-rotating-level"),
    MayRotate = "may-be-rotating",
);
by_name!(
    OutlierReason,
    "the reason for the exclusion",
    Failed = "failed",
    Late = "late",
    Remapped = ("remapped", "elsewhere"),
);
by_name!(
    HeadOrder,
    "the order of heads",
    Up = "up",
    UpOnEven = "up-on-even",
    DownOnEven = "down-on-even",
);

impl Named for Stage {
    const EXPECTED: &'static str = "a stage of the measurement";

    fn names() -> Vec<(Self, Name)> {
        let name = |stage: Self| match stage {
            Self::RateLimit => Name::from((stage.name(), "provisioned")),
            _ => stage.name().into(),
        };
        Self::ALL.map(|stage| (stage, name(stage))).into()
    }
}
