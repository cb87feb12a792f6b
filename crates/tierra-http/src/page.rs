//! The pages: files that need nothing from elsewhere. They are in the binary, so that a page fits the server that answers it.

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::routing::get;

/// A path, its type of content and its bytes.
type File = (&'static str, &'static str, &'static [u8]);

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What the page of a database has for itself.
pub(crate) const DATABASE: &[File] = &[
    ("/", HTML, include_bytes!("../page/index.html")),
    ("/app.js", SCRIPT, include_bytes!("../page/app.js")),
    ("/sql.js", SCRIPT, include_bytes!("../page/sql.js")),
];

/// What the page of a server of records has for itself.
pub(crate) const RECORDS: &[File] = &[
    ("/", HTML, include_bytes!("../page/kv.html")),
    ("/kv.js", SCRIPT, include_bytes!("../page/kv.js")),
];

/// What both have.
const BOTH: &[File] = &[
    ("/style.css", CSS, include_bytes!("../page/style.css")),
    ("/chart.js", SCRIPT, include_bytes!("../page/chart.js")),
    ("/format.js", SCRIPT, include_bytes!("../page/format.js")),
    ("/samples.js", SCRIPT, include_bytes!("../page/samples.js")),
    (
        "/icon.svg",
        "image/svg+xml",
        include_bytes!("../page/icon.svg"),
    ),
];

/// The routes of a page. A browser asks for its files again each time: another version may answer.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(own: &'static [File]) -> Router<S> {
    own.iter().chain(BOTH).fold(Router::new(), |routes, file| {
        let (path, kind, bytes) = *file;
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static(kind)),
            (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        ];
        let answer = move || {
            let headers = headers.clone();
            async move { (headers, bytes) }
        };
        routes.route(path, get(answer))
    })
}
