//! What every request must pass before anything is done for it.
//!
//! A browser runs the pages of others on the machine of a user, and these reach what only this machine reaches. Such a page
//! - can have a name of its own resolve to 127.0.0.1: so the host that a request names must be an address, `localhost`, or a name that
//!   the server was given;
//! - can send a form or a plain POST anywhere, with the password that the browser knows: so a POST must have a type of content that
//!   no form has, and no request may come from another origin;
//! - can frame this one and have its buttons clicked: so it may not.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, PoisonError};

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN,
    REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::fault::Fault;
use crate::gate::Gate;
use crate::peer::{Accepted, Peer};

/// The type of content of every POST. A form cannot have it, and a script of another origin may only send it if it is allowed to,
/// which it never is.
pub(crate) const SQL_TYPE: &str = "application/sql";
/// Who sent a request.
#[derive(Clone)]
pub(crate) struct User {
    /// Empty where there are no users.
    pub(crate) name: String,
    pub(crate) reads_only: bool,
}

/// Headers of every answer.
fn headers() -> [(HeaderName, &'static str); 5] {
    [
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ]
}

/// Passes a request on, or answers why not.
pub(crate) async fn guard(
    State(gate): State<Arc<Gate>>,
    Extension(peer): Extension<Arc<Peer>>,
    mut request: Request,
    next: Next,
) -> Response {
    let checked = check(&gate, &request);
    let admitted = match checked {
        Ok(()) => log_in(&gate, &peer, request.headers()).await,
        Err(fault) => Err(fault),
    };
    let mut response = match admitted {
        Ok(user) => {
            request.extensions_mut().insert(user);
            next.run(request).await
        }
        Err(fault) => {
            let is_unknown = fault.status == StatusCode::UNAUTHORIZED;
            let mut response = fault.into_response();
            if is_unknown {
                let asked = HeaderValue::from_static("Basic realm=\"Tierra\", charset=\"UTF-8\"");
                response.headers_mut().insert(WWW_AUTHENTICATE, asked);
            }
            response
        }
    };
    for (name, value) in headers() {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
        .headers_mut()
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Refuses what no honest client of this server sends.
fn check(gate: &Gate, request: &Request) -> Result<(), Fault> {
    let headers = request.headers();
    if request.uri().authority().is_some() {
        let message = "the server is no proxy: name a path";
        return Err(Fault::new(StatusCode::BAD_REQUEST, message));
    }
    let host = check_host(headers, &gate.names)?;
    check_origin(headers, host)?;
    match *request.method() == Method::POST {
        true => check_type(headers),
        false => Ok(()),
    }
}

/// The only value of a header.
fn single(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// The host that the request names, if it is a name of this server.
fn check_host<'a>(headers: &'a HeaderMap, names: &[String]) -> Result<&'a str, Fault> {
    let Some(host) = single(headers, HOST) else {
        let message = "a request has one header Host";
        return Err(Fault::new(StatusCode::BAD_REQUEST, message));
    };
    match is_own(host, names) {
        true => Ok(host),
        false => Err(Fault::new(
            StatusCode::MISDIRECTED_REQUEST,
            format!("'{host}' is no name of this server: give it with --http-name"),
        )),
    }
}

/// Whether a host, with or without a port, is an address or one of these names. Addresses are not looked up, so nobody else can
/// have them mean this server.
fn is_own(host: &str, names: &[String]) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else {
            return false;
        };
        let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_number);
        return is_port && address.parse::<Ipv6Addr>().is_ok();
    }
    let name = match host.split_once(':') {
        Some((name, port)) if is_number(port) => name,
        Some(_) => return false,
        None => host,
    };
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|own| own.eq_ignore_ascii_case(name))
}

fn is_number(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

/// Refuses what a page of another origin sent.
fn check_origin(headers: &HeaderMap, host: &str) -> Result<(), Fault> {
    if !headers.contains_key(ORIGIN) {
        return Ok(());
    }
    let origin = single(headers, ORIGIN).unwrap_or_default();
    let own = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    match own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
        true => Ok(()),
        false => Err(Fault::new(
            StatusCode::FORBIDDEN,
            format!("requests from pages of '{origin}' are refused"),
        )),
    }
}

/// Refuses a POST that a form could send.
fn check_type(headers: &HeaderMap) -> Result<(), Fault> {
    let given = single(headers, CONTENT_TYPE).unwrap_or_default();
    let kind = given.split(';').next().unwrap_or_default().trim();
    match kind.eq_ignore_ascii_case(SQL_TYPE) {
        true => Ok(()),
        false => Err(Fault::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("a POST needs the header Content-Type: {SQL_TYPE}"),
        )),
    }
}

/// Who sent the request. The password is checked once for a connection, as long as it stays the same.
async fn log_in(gate: &Arc<Gate>, peer: &Peer, headers: &HeaderMap) -> Result<User, Fault> {
    let Some(users) = &gate.users else {
        return Ok(User {
            name: String::new(),
            reads_only: false,
        });
    };
    let known_as = |name: String| User {
        reads_only: users.reads_only(&name),
        name,
    };
    let unknown = || {
        let message = "a user and a password are needed";
        Fault::new(StatusCode::UNAUTHORIZED, message)
    };
    let accepted = || peer.accepted.lock().unwrap_or_else(PoisonError::into_inner);
    let header = single(headers, AUTHORIZATION).unwrap_or_default();
    let known = accepted().clone();
    if let Some(known) = known.filter(|known| known.header == header.as_bytes()) {
        return Ok(known_as(known.user));
    }
    let Some((user, password)) = credentials(header) else {
        return Err(unknown());
    };
    let _turn = gate.checks.acquire().await;
    let (checked, name) = (Arc::clone(gate), user.clone());
    let is_right = tokio::task::spawn_blocking(move || {
        let users = checked.users.as_ref();
        users.is_some_and(|users| users.is_password(&name, &password))
    });
    if !is_right.await.unwrap_or(false) {
        tracing::info!(user, "a login failed");
        return Err(unknown());
    }
    *accepted() = Some(Accepted {
        header: header.as_bytes().to_vec(),
        user: user.clone(),
    });
    Ok(known_as(user))
}

/// The user and the password of Basic authentication.
fn credentials(header: &str) -> Option<(String, String)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_or_own_names() {
        let names = ["db.example".to_owned()];
        for host in [
            "localhost",
            "LOCALHOST:7433",
            "127.0.0.1:7433",
            "10.1.2.3",
            "[::1]:7433",
            "[::1]",
            "db.example:80",
            "DB.example",
        ] {
            assert!(is_own(host, &names), "{host}");
        }
        for host in [
            "",
            "evil.example:7433",
            "localhost.evil.example",
            "db.example.evil.example",
            "127.0.0.1.evil.example",
            "evil.example:127.0.0.1",
            "localhost:",
            "localhost:99999",
            "localhost:7433:1",
            "[::1",
            "[::1]x",
            "[evil.example]:7433",
            "::1",
            "0x7f.1",
            "user@localhost",
            "localhost ",
        ] {
            assert!(!is_own(host, &names), "{host}");
        }
    }

    #[test]
    fn an_origin_is_that_of_the_host() {
        let with = |origin: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
            check_origin(&headers, "localhost:7433").is_ok()
        };
        assert!(check_origin(&HeaderMap::new(), "localhost:7433").is_ok());
        assert!(with("http://localhost:7433") && with("https://LOCALHOST:7433"));
        for origin in [
            "null",
            "",
            "http://localhost",
            "http://localhost:7434",
            "http://evil.example",
            "http://localhost:7433.evil.example",
            "file://localhost:7433",
        ] {
            assert!(!with(origin), "{origin}");
        }
    }

    #[test]
    fn credentials_are_read_as_they_are_sent() {
        let encoded = |text: &str| format!("basic {}", STANDARD.encode(text));
        assert_eq!(
            credentials(&encoded("ö:a:b")),
            Some(("ö".into(), "a:b".into()))
        );
        for header in ["", "Basic", "Basic !", "Bearer eDp5", &encoded("x")] {
            assert_eq!(credentials(header), None, "{header}");
        }
    }
}
