//! TLS as the session sees it: when it begins, and what is refused without it.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::ResolvesServerCertUsingSni;

use super::*;
use crate::proto::tls::{ClientName, Identity, Tls};

fn offering(required: bool, clients: Option<&[&str]>) -> Timeline {
    let mut export = Export::new(ExportId(3), "vol", Bytes(SIZE));
    let named = |name: &&str| ClientName::CommonName((*name).to_owned());
    export.clients = clients.map(|names| names.iter().map(named).collect());
    let mut timeline = Timeline::new(vec![export]);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("there are")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
    timeline.settings.tls = Some(Tls { required, config: Arc::new(config) });
    timeline.feed(&u32::from(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    timeline
}

impl Timeline {
    fn secure(&mut self, name: Option<&str>) {
        self.option(option::STARTTLS, &[]);
        assert_eq!(self.said(), replies(option::STARTTLS, &[(rep::ACK, &[])]));
        assert_eq!(self.events, [Event::StartTls]);
        assert!(!self.session.wants_input() && self.session.is_in_handshake());
        self.events.clear();
        let client =
            |name: &str| Identity { common_name: Some(name.to_owned()), fingerprint: [0; 32] };
        self.session.tls_established(name.map(client));
    }

    fn kind_of(&mut self, option: u32, data: &[u8]) -> u32 {
        self.option(option, &[data]);
        let said = self.said();
        u32::from_be_bytes([said[12], said[13], said[14], said[15]])
    }
}

#[test]
fn without_a_certificate_tls_is_refused() {
    let mut timeline = Timeline::in_handshake();
    assert_eq!(timeline.kind_of(option::STARTTLS, &[]), rep::ERR_POLICY);
    assert_eq!(timeline.kind_of(option::INFO, &info_data(b"nosuch", &[])), rep::ERR_UNKNOWN);
}

#[test]
fn where_tls_is_required_nothing_is_said_before() {
    let mut timeline = offering(true, None);
    let big = vec![0; OPTION_BYTES_MAX + 1];
    for option in [option::LIST, option::INFO, option::GO, option::STRUCTURED_REPLY, 10, 42] {
        for data in [&b""[..], &info_data(b"vol", &[]), &big] {
            timeline.option(option, &[data]);
            assert_eq!(timeline.said(), replies(option, &[(rep::ERR_TLS_REQD, &[])]));
        }
    }
    timeline.secure(None);
    assert_eq!(timeline.kind_of(option::STARTTLS, &[]), rep::ERR_INVALID, "once is enough");
    timeline.option(option::GO, &[&info_data(b"vol", &[])]);
    assert_eq!(timeline.events, [Event::Opened(ExportId(3))]);
    let mut timeline = offering(true, None);
    timeline.option(option::EXPORT_NAME, &[b"vol"]);
    assert_eq!(timeline.events, [Event::Close(CloseReason::NotAllowed)]);
}

#[test]
fn tls_restarts_the_negotiation() {
    let mut timeline = offering(false, None);
    timeline.option(option::EXTENDED_HEADERS, &[]);
    timeline.said();
    timeline.secure(None);
    assert_eq!(timeline.kind_of(option::EXTENDED_HEADERS, &[]), rep::ACK);
}

#[test]
fn a_client_that_is_not_named_sees_no_export() {
    let info = info_data(b"vol", &[]);
    for (name, sees) in [(None, false), (Some("mallory"), false), (Some("vm"), true)] {
        let mut timeline = offering(true, Some(&["host", "vm"]));
        timeline.secure(name);
        timeline.option(option::LIST, &[]);
        let listed = timeline.said();
        assert_eq!(listed.windows(3).any(|bytes| bytes == b"vol"), sees);
        let expected = if sees { rep::INFO } else { rep::ERR_UNKNOWN };
        assert_eq!(timeline.kind_of(option::INFO, &info), expected);
        assert_eq!(timeline.kind_of(option::INFO, &info_data(b"", &[])), expected);
        timeline.option(option::EXPORT_NAME, &[b"vol"]);
        let opened = timeline.events == [Event::Opened(ExportId(3))];
        assert_eq!(opened, sees, "{name:?}");
    }
}

#[test]
fn what_is_for_others_and_what_is_not_there_look_alike_without_tls() {
    let mut timeline = offering(false, Some(&["vm"]));
    for name in [&b"vol"[..], b"nosuch", b""] {
        let kind = timeline.kind_of(option::INFO, &info_data(name, &[]));
        assert_eq!(kind, rep::ERR_TLS_REQD);
    }
    timeline.option(option::LIST, &[]);
    assert_eq!(timeline.said(), replies(option::LIST, &[(rep::ACK, &[])]));
}
