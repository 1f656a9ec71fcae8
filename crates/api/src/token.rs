//! The token that authorises clients over TCP, and the cookie that a browser gets for it.
//!
//! The cookie's value is an expiry time and its HMAC under the token: the server keeps no sessions,
//! and a restarted daemon with the same token accepts it until it expires. It does not contain the
//! token.

use std::fmt::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use host::WallTime;
use ring::hmac;
use subtle::ConstantTimeEq;

use crate::limits::{SESSION_MAX, TOKEN_BYTES_MAX, TOKEN_BYTES_MIN};

/// The token that authorises a client over TCP.
#[derive(Clone)]
pub struct Token(Arc<[u8]>);

/// A token that cannot be used. The message says what is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenError(String);

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TokenError {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Reads the token in a file; white space around it is not part of it.
    ///
    /// # Errors
    /// The file cannot be read, users other than its owner may read it, or it has no token.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let refused = |found: &str| {
            let expected = format!(
                "a file that only its owner can read, with {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} \
                 printable characters"
            );
            TokenError(format!("{}: found {found}, expected {expected}", path.display()))
        };
        let found = std::fs::metadata(path).map_err(|error| refused(&error.to_string()))?;
        if found.permissions().mode() & 0o077 != 0 {
            return Err(refused(&format!("mode {:o}", found.permissions().mode() & 0o777)));
        }
        if found.len() > TOKEN_BYTES_MAX as u64 {
            return Err(refused("a longer one"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| refused(&error.to_string()))?;
        let token = text.trim();
        let lengths = TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX;
        if !lengths.contains(&token.len()) || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(refused("another content"));
        }
        Ok(Self(token.as_bytes().into()))
    }

    /// Whether `given` equals the token. The comparison takes constant time.
    pub(crate) fn matches(&self, given: &[u8]) -> bool {
        self.0.ct_eq(given).into()
    }

    /// A session that begins now: the value of its cookie.
    pub(crate) fn session(&self, now: WallTime) -> String {
        let expiry = now.seconds().saturating_add(SESSION_MAX.as_secs());
        let tag = hmac::sign(&self.key(), signed(expiry).as_bytes());
        let mut session = format!("{expiry}.");
        for byte in tag.as_ref() {
            write!(session, "{byte:02x}").expect("writing to a string does not fail");
        }
        session
    }

    /// Whether the value of a cookie is that of a session that has not expired.
    pub(crate) fn has_session(&self, value: &str, now: WallTime) -> bool {
        let Some((expiry, hex)) = value.split_once('.') else { return false };
        let Ok(expiry) = expiry.parse::<u64>() else { return false };
        let last = now.seconds().saturating_add(SESSION_MAX.as_secs());
        let Some(tag) = bytes_of(hex) else { return false };
        (now.seconds() + 1..=last).contains(&expiry)
            && hmac::verify(&self.key(), signed(expiry).as_bytes(), &tag).is_ok()
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }
}

/// The text that a session's HMAC is of.
fn signed(expiry: u64) -> String {
    format!("spindle session until {expiry}")
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| {
        let text = str::from_utf8(pair).ok().filter(|text| text.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token {
        Token(text.as_bytes().into())
    }

    #[test]
    fn a_session_lasts_until_its_expiry_and_no_longer() {
        let (token, begin) = (token("0123456789abcdef"), WallTime::from_seconds(1_000));
        let session = token.session(begin);
        assert!(token.has_session(&session, begin));
        let end = 1_000 + SESSION_MAX.as_secs();
        assert!(token.has_session(&session, WallTime::from_seconds(end - 1)));
        assert!(!token.has_session(&session, WallTime::from_seconds(end)));
    }

    #[test]
    fn a_session_of_another_token_or_with_a_changed_character_is_none() {
        let (ours, begin) = (token("0123456789abcdef"), WallTime::from_seconds(1_000));
        let session = ours.session(begin);
        assert!(!token("0123456789abcdeg").has_session(&session, begin));
        for at in 0..session.len() {
            let mut changed = session.clone().into_bytes();
            changed[at] ^= 1;
            let changed = String::from_utf8(changed).expect("ASCII");
            assert!(!ours.has_session(&changed, begin), "{changed}");
        }
        for invalid in ["", ".", "1", "1.", "x.00", "99999999999999999999.00", "1100.0é"] {
            assert!(!ours.has_session(invalid, begin), "{invalid}");
        }
    }

    #[test]
    fn a_session_does_not_contain_the_token() {
        let session = token("0123456789abcdef").session(WallTime::from_seconds(1_000));
        assert!(!session.contains("0123456789abcdef"), "{session}");
    }
}
