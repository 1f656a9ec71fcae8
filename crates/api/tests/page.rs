//! The page and its sessions: what is served to a browser, and to which pages.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use common::{CONFIG, Served, TOKEN, faulty};
use nbd::Address;
use serde_json::{Value, json};
use spindle_api::limits::SESSION_MAX;

/// A reply: its status, its head and its body.
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    /// The value of a header.
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

fn exchange(mut stream: impl Read + Write, line: &str, headers: &[&str], body: &str) -> Reply {
    let headers: String = headers.iter().flat_map(|header| [header, "\r\n"]).collect();
    let length = body.len();
    write!(
        stream,
        "{line} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

fn tcp(served: &Served, line: &str, headers: &[&str], body: &str) -> Reply {
    let Address::Tcp(address) = served.tcp else { panic!("it is TCP") };
    let stream = TcpStream::connect(address).expect("it listens");
    let host = format!("Host: {HOST}");
    exchange(stream, line, &[&[host.as_str()], headers].concat(), body)
}

fn unix(served: &Served, line: &str, headers: &[&str]) -> Reply {
    let stream = UnixStream::connect(served.directory.path().join("api.sock"));
    exchange(stream.expect("it listens"), line, headers, "")
}

const HOST: &str = "storage.example.org:8080";

/// The cookie of a session, as a browser sends it.
fn session(served: &Served) -> String {
    let body = json!({ "token": TOKEN }).to_string();
    let reply = tcp(served, "POST /v1/session", &[], &body);
    assert_eq!(reply.status, 204, "{}", reply.body);
    let cookie = reply.header("set-cookie").expect("a cookie");
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(cookie.contains(&format!("Max-Age={}", SESSION_MAX.as_secs())), "{cookie}");
    assert!(!cookie.contains(TOKEN) && !cookie.contains("Secure"), "{cookie}");
    format!("Cookie: other=1; {}", cookie.split(';').next().expect("a pair"))
}

#[test]
fn the_page_is_served_without_the_token_and_data_is_not() {
    let served = Served::start(CONFIG);
    let page = tcp(&served, "GET /", &[], "");
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(!page.body.contains("hgst-7k8"), "it has no data");
    let script = tcp(&served, "GET /page/app.js", &[], "");
    let tag = script.header("etag").expect("a tag").to_owned();
    let again = tcp(&served, "GET /page/app.js", &[&format!("If-None-Match: {tag}")], "");
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let other = tcp(&served, "GET /page/app.js", &["If-None-Match: \"0\""], "");
    assert_eq!(other.status, 200);
    assert_eq!(tcp(&served, "GET /v1/disks", &[], "").status, 401);
    assert_eq!(tcp(&served, "GET /page/../v1/disks", &[], "").status, 401);
    served.stop();
}

#[test]
fn a_browser_exchanges_the_token_for_a_cookie_that_reads_and_changes() {
    let served = Served::start(CONFIG);
    let cookie = session(&served);
    let origin = format!("Origin: http://{HOST}");
    assert_eq!(tcp(&served, "GET /v1/disks", &[&cookie], "").status, 200);
    let change = json!({ "reserve": "40%" }).to_string();
    let line = "PATCH /v1/volumes/a";
    assert_eq!(tcp(&served, line, &[&cookie], &change).status, 401, "it has no origin");
    assert_eq!(tcp(&served, line, &[&cookie, &origin], &change).status, 200);
    for wrong in ["x".repeat(TOKEN.len()), String::new()] {
        let body = json!({ "token": wrong }).to_string();
        let reply = tcp(&served, "POST /v1/session", &[], &body);
        assert_eq!((reply.status, reply.header("set-cookie")), (401, None));
    }
    let forged = cookie.replace('.', "0.");
    assert_eq!(tcp(&served, "GET /v1/disks", &[&forged], "").status, 401);
    let out = tcp(&served, "DELETE /v1/session", &[&cookie, &origin], "");
    assert!(out.header("set-cookie").expect("a cookie").contains("Max-Age=0"), "{}", out.head);
    // Behind a proxy with TLS the cookie is for TLS alone.
    let body = json!({ "token": TOKEN }).to_string();
    let reply = tcp(&served, "POST /v1/session", &[&format!("Origin: https://{HOST}")], &body);
    assert!(reply.header("set-cookie").expect("a cookie").ends_with("; Secure"), "{}", reply.head);
    served.stop();
}

#[test]
fn a_restarted_daemon_accepts_the_sessions_of_its_token() {
    let served = Served::start(CONFIG);
    let cookie = session(&served);
    let served = Served::again(served.stop());
    assert_eq!(tcp(&served, "GET /v1/disks", &[&cookie], "").status, 200);
    served.stop();
}

#[test]
fn pages_of_other_origins_and_other_names_reach_no_data() {
    let served = Served::start(CONFIG);
    let cookie = session(&served);
    for foreign in ["Origin: http://example.org", "Origin: null", "Sec-Fetch-Site: cross-site"] {
        assert_eq!(tcp(&served, "GET /v1/disks", &[&cookie, foreign], "").status, 403, "{foreign}");
        let local = ["Host: localhost:8080", foreign];
        assert_eq!(unix(&served, "GET /v1/disks", &local).status, 403, "{foreign}");
        assert_eq!(unix(&served, "POST /v1/pool/rebalance", &local).status, 403, "{foreign}");
        assert_eq!(unix(&served, "GET /metrics", &local).status, 403, "{foreign}");
        assert_eq!(tcp(&served, "GET /", &[foreign], "").status, 200, "a link is followed");
    }
    let rebound = ["Host: example.org:8080", "Origin: http://example.org:8080"];
    let reply = unix(&served, "GET /v1/disks", &rebound);
    assert_eq!(reply.status, 403);
    let problem: Value = serde_json::from_str(&reply.body).expect("JSON");
    assert_eq!(problem["error"]["code"], "forbidden");
    let own = ["Host: localhost:8080", "Origin: http://localhost:8080"];
    assert_eq!(unix(&served, "GET /v1/disks", &own).status, 200);
    served.stop();
}

#[test]
fn a_change_is_checked_before_it_is_made_and_the_check_changes_nothing() {
    let served = Served::start(CONFIG);
    let check = |body: &Value| {
        let answer = served.client.post("volumes/a/admission", body).expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["admission"].clone()
    };
    assert_eq!(check(&json!({ "reserve": "60%" })), json!({ "fits": true }));
    assert_eq!(common::set(&served, "b", &json!({ "reserve": "30%" })).status, 200);
    let refused = check(&json!({ "reserve": "80%" }));
    assert_eq!((&refused["fits"], &refused["reason"]["code"]), (&json!(false), &json!("refused")));
    assert_eq!(common::volume(&served, "a")["reserve"], "50%");
    let wrong = served.client.post("volumes/a/admission", &json!({ "reserve": "much" }));
    faulty(&wrong.expect("an answer"), 422, "invalid", Some("reserve"));
    let missing = served.client.post("volumes/none/admission", &json!({}));
    faulty(&missing.expect("an answer"), 404, "missing", Some("name"));
    served.stop();
}
