//! What a device is connected to, as the kernel keeps it: `/sys/block/nbdN/backend`.

use core::fmt;
use core::str::FromStr;

use nbd::Address;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Begins each identifier, and distinguishes it from those of other programs.
const PREFIX: &str = "spindle:";

/// The characters of a name that are escaped. The text is one line of sysfs without `@`.
const NAME_ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// The characters of an address that are escaped.
const ADDRESS_ESCAPED: &AsciiSet =
    &NAME_ESCAPED.remove(b'/').remove(b':').remove(b'[').remove(b']');

/// A volume of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// The volume's name.
    pub volume: String,
    /// Where its server listens.
    pub server: Address,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let volume = utf8_percent_encode(&self.volume, NAME_ESCAPED);
        let server = self.server.to_string();
        write!(f, "{PREFIX}{volume}@{}", utf8_percent_encode(&server, ADDRESS_ESCAPED))
    }
}

/// The text is the identifier of another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign;

impl FromStr for Backend {
    type Err = Foreign;

    fn from_str(text: &str) -> Result<Self, Foreign> {
        let (volume, server) =
            text.strip_prefix(PREFIX).and_then(|text| text.split_once('@')).ok_or(Foreign)?;
        let decoded = |text: &str| {
            let decoded = percent_decode_str(text).decode_utf8();
            decoded.map(String::from).map_err(|_| Foreign)
        };
        let server = decoded(server)?.parse().map_err(|_| Foreign)?;
        Ok(Self { volume: decoded(volume)?, server })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_one_readable_line() {
        let backend = |volume: &str, server: &str| Backend {
            volume: volume.into(),
            server: server.parse().expect("an address"),
        };
        let shown = backend("vm-1", "unix:/run/spindle/nbd.sock").to_string();
        assert_eq!(shown, "spindle:vm-1@unix:/run/spindle/nbd.sock");
        assert_eq!(backend("vm-1", "[::1]:10809").to_string(), "spindle:vm-1@[::1]:10809");
        let odd = backend("a@b c\n", "unix:/tmp/x y@z").to_string();
        assert_eq!(odd, "spindle:a%40b%20c%0A@unix:/tmp/x%20y%40z");
    }

    #[test]
    fn identifiers_of_other_programs_are_not_taken_for_ones_own() {
        for text in
            ["", "spindle:", "spindle:a", "rbd:a@1.2.3.4:5", "spindle:a@b", "spindle:%ff@/x"]
        {
            assert_eq!(text.parse::<Backend>(), Err(Foreign), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_volume_is_read_back(volume in "\\PC{1,80}", path in "/[^\0]{0,80}") {
            let backend = Backend { volume, server: Address::Unix(path.into()) };
            let text = backend.to_string();
            prop_assert!(text.is_ascii());
            prop_assert!(!text.contains(char::is_whitespace));
            prop_assert_eq!(text.parse(), Ok(backend));
        }
    }
}
