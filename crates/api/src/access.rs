//! Which requests are served: by the token, by a browser's cookie, and by where a browser's page
//! comes from.
//!
//! On a Unix socket the file's permissions are the access control. A browser reaches such a socket
//! through a forwarded port without any credential, so a page of another origin must not: its
//! requests carry another `Origin` ([`refuse_other_origins`]), or another `Host`, if its name was
//! made to resolve to this machine ([`refuse_other_hosts`]). On TCP a request needs the token, or
//! the cookie that a browser gets for it; a browser sends that cookie only to the host that has
//! set it.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use host::WallTime;

use crate::page;
use crate::problem::Problem;
use crate::token::Token;

/// The path of the resource by which a browser exchanges the token for a cookie.
pub(crate) const SESSION: &str = "/v1/session";

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The name of the session's cookie. Cookies do not belong to a port: daemons on several ports of
/// one host have cookies of their own.
pub(crate) fn cookie_name(headers: &HeaderMap) -> String {
    let port = authority(headers).and_then(|host| host.port_u16());
    port.map_or_else(|| "spindle".to_owned(), |port| format!("spindle-{port}"))
}

/// Whether the browser has reached this server by HTTPS, through a proxy.
pub(crate) fn is_https(headers: &HeaderMap) -> bool {
    text(headers, &header::ORIGIN).is_some_and(|origin| origin.starts_with("https://"))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The host that the request is for, if it names a valid one.
fn authority(headers: &HeaderMap) -> Option<Authority> {
    text(headers, &header::HOST)?.parse().ok()
}

fn forbidden(message: String) -> Response {
    Problem::new(StatusCode::FORBIDDEN, "forbidden", message).into_response()
}

/// Refuses what a page of another origin has sent. The files of the page are for everyone: a link
/// to them is followed.
pub(crate) async fn refuse_other_origins(request: Request, next: Next) -> Response {
    let headers = request.headers();
    if page::has(request.uri().path()) {
        return next.run(request).await;
    }
    if let Some(origin) = headers.get(header::ORIGIN) {
        let host = text(headers, &header::HOST).unwrap_or_default();
        let origin = origin.to_str().unwrap_or_default();
        let from = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
        if from.is_none_or(|from| !from.eq_ignore_ascii_case(host)) {
            let origin = origin.escape_default();
            return forbidden(format!("found a page of `{origin}`, expected one of this host"));
        }
    }
    if text(headers, &FETCH_SITE).is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return forbidden("found a page of another site, expected one of this host".to_owned());
    }
    next.run(request).await
}

/// Refuses requests for a host by a name that can be another's.
pub(crate) async fn refuse_other_hosts(request: Request, next: Next) -> Response {
    let host = text(request.headers(), &header::HOST).unwrap_or_default();
    if is_own(host) {
        return next.run(request).await;
    }
    forbidden(format!(
        "found the host `{}`, expected `localhost` or an address: by another name a page of \
         another site could reach this socket",
        host.escape_default()
    ))
}

/// Whether a request for this host may reach a Unix socket: `localhost`, an address, or a name
/// without a dot and without a port, as clients of Unix sockets write one. A browser that uses a
/// forwarded port names it.
fn is_own(host: &str) -> bool {
    if host.is_empty() {
        return true;
    }
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok()
        || name == "localhost"
        || name.ends_with(".localhost")
        || (!name.contains('.') && authority.port().is_none())
}

/// Passes a request on if it carries the token or the cookie of a session, or needs neither: the
/// files of the page, and the exchange of the token for a cookie.
pub(crate) async fn authorise(
    State(token): State<Token>,
    mut request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let is_login = request.uri().path() == SESSION && request.method() == Method::POST;
    let is_open = is_login || page::has(request.uri().path());
    if is_open || has_token(headers, &token) || has_session(&request, &token) {
        request.extensions_mut().insert(token);
        return next.run(request).await;
    }
    let message = "expected the header `Authorization: Bearer TOKEN`, with the token of the \
                   daemon's token file";
    let problem = Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", message);
    ([(header::WWW_AUTHENTICATE, "Bearer")], problem).into_response()
}

fn has_token(headers: &HeaderMap, token: &Token) -> bool {
    let given = headers.get(header::AUTHORIZATION).map(header::HeaderValue::as_bytes);
    let given = given.and_then(|value| value.strip_prefix(b"Bearer "));
    given.is_some_and(|given| token.matches(given))
}

/// Whether the request has the cookie of a session. One that can change something must say where
/// it comes from, too, which [`refuse_other_origins`] has compared.
fn has_session(request: &Request, token: &Token) -> bool {
    let headers = request.headers();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !reads && !headers.contains_key(header::ORIGIN) {
        return false;
    }
    let name = cookie_name(headers);
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut pairs =
        cookies.filter_map(|cookies| cookies.to_str().ok()).flat_map(|all| all.split(';'));
    pairs.any(|pair| {
        let value = pair.trim().split_once('=').filter(|(given, _)| *given == name);
        value.is_some_and(|(_, value)| token.has_session(value, WallTime::now()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unix_socket_is_reached_by_addresses_and_by_names_that_are_no_others() {
        for own in [
            "",
            "localhost",
            "localhost:8080",
            "LOCALHOST:1",
            "a.localhost:8080",
            "127.0.0.1:8080",
            "[::1]:8080",
            "192.168.1.2",
            "spindle",
        ] {
            assert!(is_own(own), "{own}");
        }
        for other in ["example.org", "example.org:8080", "storage:8080", "localhost.example.org"] {
            assert!(!is_own(other), "{other}");
        }
    }
}
