//! Clients' identities, by certificate (section "TLS support"). The encryption is rustls's, which
//! is sans-IO as the session is.

use core::fmt;
use core::str::FromStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::limits::NAME_BYTES_MAX;

const FINGERPRINT_BYTES: usize = 32;

/// The SHA-256 of a certificate, as it is in the handshake.
pub type Fingerprint = [u8; FINGERPRINT_BYTES];

/// The identity that a client has proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The common name of its certificate's subject, if it has exactly one.
    pub common_name: Option<String>,
    /// Its certificate's fingerprint.
    pub fingerprint: Fingerprint,
}

impl Identity {
    /// The identity of a verified certificate.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
        let mut fingerprint = [0; FINGERPRINT_BYTES];
        fingerprint.copy_from_slice(digest.as_ref());
        let parsed = webpki::EndEntityCert::try_from(certificate).ok();
        let common_name = parsed.and_then(|parsed| common_name(parsed.subject()));
        Self { common_name, fingerprint }
    }
}

/// A client by its certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientName {
    /// The common name of its subject.
    CommonName(String),
    /// Its fingerprint: this certificate and no other.
    Fingerprint(Fingerprint),
}

impl ClientName {
    pub(crate) fn is_of(&self, client: &Identity) -> bool {
        match self {
            Self::CommonName(name) => client.common_name.as_ref() == Some(name),
            Self::Fingerprint(fingerprint) => client.fingerprint == *fingerprint,
        }
    }
}

/// A text that names no client. Its message says what is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientNameError;

impl fmt::Display for ClientNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected `CN=` and a name, or `sha256:` and 64 hexadecimal digits")
    }
}

impl std::error::Error for ClientNameError {}

impl FromStr for ClientName {
    type Err = ClientNameError;

    /// Reads `CN=NAME` or `sha256:DIGITS`, the digits with colons between the bytes or without, as
    /// `openssl x509 -fingerprint` prints them.
    fn from_str(text: &str) -> Result<Self, ClientNameError> {
        if let Some(name) = text.strip_prefix("CN=") {
            let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
            return if fits { Ok(Self::CommonName(name.to_owned())) } else { Err(ClientNameError) };
        }
        let digits = text.strip_prefix("sha256:").ok_or(ClientNameError)?;
        let digits: Vec<u8> = digits.bytes().filter(|byte| *byte != b':').collect();
        let mut fingerprint = [0; FINGERPRINT_BYTES];
        if digits.len() != 2 * FINGERPRINT_BYTES {
            return Err(ClientNameError);
        }
        for (byte, pair) in fingerprint.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(ClientNameError);
            let value = digit(pair[0])? << 4 | digit(pair[1])?;
            *byte = u8::try_from(value).map_err(|_| ClientNameError)?;
        }
        Ok(Self::Fingerprint(fingerprint))
    }
}

/// One element of DER: its tag, its contents, and the rest. Lengths of up to 64 KiB, more than a
/// name has.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => {
            let (length, rest) = rest.split_first_chunk()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    let (contents, behind) = rest.split_at_checked(length)?;
    Some((*tag, contents, behind))
}

/// The only common name in a subject (RFC 5280, section 4.1.2.4: a sequence of sets of pairs of
/// type and value). Several are ambiguous, and none is returned.
fn common_name(subject: &[u8]) -> Option<String> {
    const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
    const UTF8_STRING: u8 = 0x0c;
    const PRINTABLE_STRING: u8 = 0x13;
    const IA5_STRING: u8 = 0x16;
    let (mut sets, mut found) = (subject, None);
    while !sets.is_empty() {
        let (_, mut pairs, behind) = element(sets)?;
        sets = behind;
        while !pairs.is_empty() {
            let (_, pair, behind) = element(pairs)?;
            pairs = behind;
            let (_, kind, value) = element(pair)?;
            let (tag, text, _) = element(value)?;
            if kind != COMMON_NAME {
                continue;
            }
            let is_text = matches!(tag, UTF8_STRING | PRINTABLE_STRING | IA5_STRING);
            let text = core::str::from_utf8(text).ok().filter(|_| is_text)?;
            if found.replace(text.to_owned()).is_some() {
                return None;
            }
        }
    }
    found
}

/// How connections are encrypted.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Whether TLS is required: without it, every option is refused.
    pub required: bool,
    /// Certificates and versions.
    pub config: Arc<ServerConfig>,
}

/// The files for TLS, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those between it and the authority that its clients trust.
    pub certificate: PathBuf,
    /// The key of the server's certificate.
    pub key: PathBuf,
    /// Authorities that sign clients' certificates. With them, a client without such a certificate
    /// is refused; `None`: no certificate is requested.
    pub client_authorities: Option<PathBuf>,
}

/// Why TLS cannot be set up.
#[derive(Debug)]
pub struct TlsError {
    file: PathBuf,
    why: String,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.file.display(), self.why)
    }
}

impl std::error::Error for TlsError {}

impl Tls {
    /// Reads the files. TLS is of version 1.2 or 1.3.
    ///
    /// # Errors
    /// A file cannot be read, or what is in it cannot be used; the error names it.
    pub fn read(files: &TlsFiles, required: bool) -> Result<Self, TlsError> {
        let refused = |file: &Path, why: &dyn fmt::Display| TlsError {
            file: file.to_owned(),
            why: why.to_string(),
        };
        let certificates = |file: &Path| {
            let bytes = fs::read(file).map_err(|error| refused(file, &error))?;
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
            match all {
                Ok(all) if all.is_empty() => {
                    Err(refused(file, &"expected certificates in PEM, found none"))
                }
                all => all.map_err(|error| refused(file, &error)),
            }
        };
        let chain = certificates(&files.certificate)?;
        let key = fs::read(&files.key).map_err(|error| refused(&files.key, &error))?;
        let key =
            PrivateKeyDer::from_pem_slice(&key).map_err(|error| refused(&files.key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(&files.certificate, &error))?;
        let builder = match &files.client_authorities {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(file)? {
                    roots.add(certificate).map_err(|error| refused(file, &error))?;
                }
                let roots = Arc::new(roots);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                builder.with_client_cert_verifier(
                    verifier.build().map_err(|error| refused(file, &error))?,
                )
            }
        };
        let config = builder
            .with_single_cert(chain, key)
            .map_err(|error| refused(&files.certificate, &error))?;
        Ok(Self { required, config: Arc::new(config) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_named_by_subject_or_by_fingerprint() {
        assert_eq!("CN=vm 7".parse(), Ok(ClientName::CommonName("vm 7".into())));
        let digits = "AB:cd:".to_owned() + &"00".repeat(30);
        let mut expected = [0; 32];
        (expected[0], expected[1]) = (0xab, 0xcd);
        assert_eq!(format!("sha256:{digits}").parse(), Ok(ClientName::Fingerprint(expected)));
        for wrong in
            ["", "vm", "CN=", "sha256:", "sha256:00", &format!("sha256:{}", "g".repeat(64))]
        {
            assert_eq!(wrong.parse::<ClientName>(), Err(ClientNameError), "{wrong}");
        }
    }

    #[test]
    fn one_common_name_counts_and_two_do_not() {
        let pair = |oid: u8, tag: u8, text: &[u8]| {
            let len = |bytes: usize| u8::try_from(bytes).expect("short");
            let value = [&[0x06, 3, 0x55, 4, oid, tag, len(text.len())][..], text].concat();
            let pair = [&[0x30, len(value.len())][..], &value].concat();
            [&[0x31, len(pair.len())][..], &pair].concat()
        };
        let (unit, name) = (pair(11, 0x0c, b"disks"), pair(3, 0x13, b"vm"));
        assert_eq!(common_name(&[&unit[..], &name].concat()), Some("vm".into()));
        assert_eq!(common_name(&unit), None);
        assert_eq!(common_name(&[&name[..], &name].concat()), None);
        for end in 1..name.len() {
            assert_eq!(common_name(&name[..end]), None, "cut at {end}");
        }
    }
}
