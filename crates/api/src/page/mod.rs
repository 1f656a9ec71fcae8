//! The page: the daemon's state in a browser, live, and changes of it.
//!
//! ```text
//!  index.html, page.css           what is there before a script runs
//!  app.js ── live.js              the connection: /v1/events, login, reconnection
//!     ├───── disks.js             each disk's time: reserved, used, left
//!     ├───── volumes.js           the table of volumes
//!     ├───── promises.js          what was kept of contracts: /v1/promises
//!     ├───── detail.js            a volume's requests: /v1/trace, breakdown, heat map
//!     ├───── pool.js              the pool's space and relocations
//!     ├───── forms.js             would it fit, and changes
//!     │       └─ placement.js     where a volume of the pool lies
//!     └───── dom.js, format.js    elements and words
//! ```
//!
//! Its scripts are plain modules: nothing is built, and nothing is loaded from elsewhere, which
//! the content policy of every file enforces. They use the API as any client does and have no
//! rights of their own. The files hold no data of the daemon, and are served without the token.

use std::sync::LazyLock;

use axum::Router;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::limits::PAGE_BYTES_MAX;

/// A file of the page.
#[derive(Clone, Copy, Debug)]
struct File {
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! files {
    ($(($path:literal, $type:ident, $name:literal)),+ $(,)?) => {
        &[$(File {
            path: $path,
            content_type: $type,
            bytes: include_bytes!(concat!("files/", $name)),
        }),+]
    };
}

const FILES: &[File] = files![
    ("/", HTML, "index.html"),
    ("/page/page.css", CSS, "page.css"),
    ("/page/icon.svg", SVG, "icon.svg"),
    ("/page/app.js", SCRIPT, "app.js"),
    ("/page/live.js", SCRIPT, "live.js"),
    ("/page/disks.js", SCRIPT, "disks.js"),
    ("/page/volumes.js", SCRIPT, "volumes.js"),
    ("/page/promises.js", SCRIPT, "promises.js"),
    ("/page/detail.js", SCRIPT, "detail.js"),
    ("/page/pool.js", SCRIPT, "pool.js"),
    ("/page/forms.js", SCRIPT, "forms.js"),
    ("/page/placement.js", SCRIPT, "placement.js"),
    ("/page/dom.js", SCRIPT, "dom.js"),
    ("/page/format.js", SCRIPT, "format.js"),
];

const fn size() -> usize {
    let (mut sum, mut at) = (0, 0);
    while at < FILES.len() {
        sum += FILES[at].bytes.len();
        at += 1;
    }
    sum
}

const _: () = assert!(size() <= PAGE_BYTES_MAX);

/// Scripts, styles and connections of this origin alone; no frame around the page.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                              img-src 'self'; connect-src 'self'; base-uri 'none'; \
                              form-action 'none'; frame-ancestors 'none'";

/// What every file is sent with. `no-cache`: a browser asks each time whether its copy is current.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-cache"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The tag of each file, a checksum of its content.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    FILES.iter().map(|file| format!("\"{:016x}\"", checksum::crc64(file.bytes))).collect()
});

/// Whether the page has a file of this path.
pub(crate) fn has(path: &str) -> bool {
    FILES.iter().any(|file| file.path == path)
}

/// The routes of the page's files.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let numbered = FILES.iter().enumerate();
    numbered.fold(Router::new(), |router, (number, file)| {
        router.route(file.path, get(async move |headers: HeaderMap| answer(number, &headers)))
    })
}

fn answer(number: usize, headers: &HeaderMap) -> Response {
    let (file, tag) = (FILES[number], TAGS[number].as_str());
    let has_it = |given: &str| given.split(',').any(|given| given.trim() == tag);
    let known = headers.get(header::IF_NONE_MATCH).and_then(|given| given.to_str().ok());
    let tagged = [(header::ETAG, tag)];
    if known.is_some_and(has_it) {
        return (StatusCode::NOT_MODIFIED, HEADERS, tagged).into_response();
    }
    (HEADERS, tagged, [(header::CONTENT_TYPE, file.content_type)], file.bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(file: &File) -> &str {
        str::from_utf8(file.bytes).expect("UTF-8")
    }

    #[test]
    fn nothing_is_inline_and_nothing_is_from_elsewhere() {
        for file in FILES {
            let text = text(file);
            // The names of XML namespaces are no addresses.
            let text = text.replace("http://www.w3.org/", "");
            for banned in ["http://", "https://", "innerHTML", "eval(", "<style", " style=\""] {
                assert!(!text.contains(banned), "{}: {banned}", file.path);
            }
            assert!(!text.contains("<script>"), "{}", file.path);
        }
    }

    #[test]
    fn every_imported_module_is_served() {
        for file in FILES.iter().filter(|file| file.content_type == SCRIPT) {
            for part in text(file).split("from \"./").skip(1) {
                let name = part.split('"').next().expect("a name");
                assert!(has(&format!("/page/{name}")), "{}: {name}", file.path);
            }
        }
    }
}
