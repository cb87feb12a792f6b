//! The page: files that need nothing from elsewhere. They are in the binary, so that the page fits the server that answers it.

use std::sync::Arc;

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::routing::get;

use crate::shared::Shared;

/// A path, its type of content and its bytes.
const FILES: [(&str, &str, &[u8]); 7] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_bytes!("../page/index.html"),
    ),
    (
        "/style.css",
        "text/css; charset=utf-8",
        include_bytes!("../page/style.css"),
    ),
    (
        "/app.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../page/app.js"),
    ),
    (
        "/chart.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../page/chart.js"),
    ),
    (
        "/format.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../page/format.js"),
    ),
    (
        "/sql.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../page/sql.js"),
    ),
    (
        "/icon.svg",
        "image/svg+xml",
        include_bytes!("../page/icon.svg"),
    ),
];

/// The routes of the files. A browser asks for them again each time: another version may answer.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    FILES.into_iter().fold(Router::new(), |routes, file| {
        let (path, kind, bytes) = file;
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
