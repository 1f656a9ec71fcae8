//! How a client names an export.

use nbd::Address;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters with a meaning in a URI are escaped: volume names may have blanks.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// The NBD URI of `export` on `address`.
pub fn uri(address: &Address, export: &str) -> String {
    let export = utf8_percent_encode(export, ESCAPED);
    match address {
        Address::Unix(path) => {
            let path = path.display().to_string();
            format!("nbd+unix:///{export}?socket={}", utf8_percent_encode(&path, ESCAPED))
        }
        Address::Tcp(address) => format!("nbd://{address}/{export}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_has_no_blanks_and_nothing_that_a_client_would_read_otherwise() {
        let address = Address::Unix("/tmp/a b/nbd.sock".into());
        let expected = "nbd+unix:///stream%201%2C%20x%3F?socket=/tmp/a%20b/nbd.sock";
        assert_eq!(uri(&address, "stream 1, x?"), expected);
    }
}
