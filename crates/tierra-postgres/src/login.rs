//! From a new socket to a client who may run statements: TLS, the startup message, the password.
//!
//! Invariant: a client that fails here has had nothing executed, and nothing that it sent afterwards is read. Not one byte that came
//! before TLS is taken for one inside it: packets are read to their ends and no further.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use pgwire::api::auth::sasl::scram::ScramServerAuth;
use pgwire::messages::startup::Authentication;
use pgwire::tokio::server::MaybeTls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::error::Fault;
use crate::shared::Shared;
use crate::tls::PROTOCOL;
use crate::wire::frame::{Body, Message};
use crate::wire::messages::Put;
use crate::wire::{LOGIN_MOST_BYTES, Wire, WireError};

const SCRAM: &str = "SCRAM-SHA-256";
const SCRAM_BOUND: &str = "SCRAM-SHA-256-PLUS";
/// Numbers that stand in place of the protocol's version.
const WANTS_TLS: u32 = 80_877_103;
const WANTS_GSS: u32 = 80_877_104;
const CANCEL: u32 = 80_877_102;
/// Version 3.0.
const VERSION: i32 = 3 << 16;
/// The first byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// A client who has logged in.
pub(crate) struct Client {
    pub(crate) wire: Wire,
    pub(crate) user: String,
    /// Settings that the client wants from the start.
    pub(crate) settings: BTreeMap<String, String>,
}

/// Lets a client in; `None` if it only had a request to cancel, was refused, or has gone.
pub(crate) async fn login(socket: TcpStream, shared: &Shared) -> Option<Client> {
    match start(socket, shared).await {
        Ok(client) => client,
        Err(error) => {
            tracing::debug!(%error, "a connection ended before its login");
            None
        }
    }
}

async fn start(socket: TcpStream, shared: &Shared) -> io::Result<Option<Client>> {
    let tls = shared.options.tls.as_ref();
    let mut stream = MaybeTls::Plain(socket);
    let (mut asked_tls, mut asked_gss) = (false, false);
    if let (MaybeTls::Plain(socket), Some(_)) = (&stream, tls) {
        let mut first = [0];
        // TLS without asking for it first, as clients of PostgreSQL 17 can.
        if socket.peek(&mut first).await? == 1 && first[0] == TLS_HANDSHAKE {
            stream = secured(stream, shared).await?;
            asked_tls = true;
            let MaybeTls::Tls(secure) = &stream else {
                return Ok(None);
            };
            // Another protocol's client must not be taken for one of ours.
            if secure.get_ref().1.alpn_protocol() != Some(PROTOCOL) {
                return Ok(None);
            }
        }
    }
    let (version, mut body) = loop {
        let (code, mut body) = packet(&mut stream).await?;
        match code {
            WANTS_TLS if !asked_tls => {
                asked_tls = true;
                if tls.is_some() {
                    stream.write_all(b"S").await?;
                    stream = secured(stream, shared).await?;
                } else {
                    stream.write_all(b"N").await?;
                }
            }
            WANTS_GSS if !asked_gss => {
                asked_gss = true;
                stream.write_all(b"N").await?;
            }
            CANCEL => {
                if let (Ok(process), Ok(secret)) = (body.u32(), body.u32()) {
                    let (process, secret) = (process.cast_signed(), secret.cast_signed());
                    shared.cancels.cancel(process, secret);
                }
                return Ok(None);
            }
            version => break (version, body),
        }
    };
    let is_secure = matches!(stream, MaybeTls::Tls(_));
    let mut wire = Wire::new(stream);
    match greet(&mut wire, is_secure, version, &mut body, shared).await {
        Ok((user, settings)) => Ok(Some(Client {
            wire,
            user,
            settings,
        })),
        Err(WireError::Gone) => Ok(None),
        Err(WireError::Wrong { fault, .. }) => {
            let fault = Fault {
                severity: crate::error::Severity::Fatal,
                ..fault
            };
            wire.output().fault(&fault);
            wire.close().await;
            Ok(None)
        }
    }
}

async fn secured(stream: MaybeTls, shared: &Shared) -> io::Result<MaybeTls> {
    match (stream, &shared.options.tls) {
        (MaybeTls::Plain(socket), Some(tls)) => {
            let secure = tls.acceptor.accept(socket).await?;
            Ok(MaybeTls::Tls(Box::new(secure)))
        }
        _ => Err(io::Error::other("TLS inside TLS")),
    }
}

/// A packet of the kind that comes before the login: its length, a number, and what follows.
async fn packet(stream: &mut MaybeTls) -> io::Result<(u32, Body)> {
    let len = stream.read_u32().await? as usize;
    if !(8..=LOGIN_MOST_BYTES).contains(&len) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a startup packet of {len} bytes"),
        ));
    }
    let mut bytes = vec![0; len - 4];
    stream.read_exact(&mut bytes).await?;
    let mut body = Body(Bytes::from(bytes));
    let code = body.u32();
    Ok((code.map_err(|_| io::ErrorKind::InvalidData)?, body))
}

fn refused(fault: Fault) -> WireError {
    WireError::Wrong { fault, kind: None }
}

/// Reads the startup message and the password; returns the user and the settings.
async fn greet(
    wire: &mut Wire,
    is_secure: bool,
    version: u32,
    body: &mut Body,
    shared: &Shared,
) -> Result<(String, BTreeMap<String, String>), WireError> {
    if version >> 16 != 3 {
        return Err(refused(Fault::new(
            "0A000",
            format!(
                "protocol {}.{} is not supported: use 3.0",
                version >> 16,
                version & 0xffff
            ),
        )));
    }
    let mut settings = BTreeMap::new();
    loop {
        let name = body.text().map_err(refused)?;
        if name.is_empty() {
            break;
        }
        settings.insert(name, body.text().map_err(refused)?);
    }
    let unknown: Vec<String> = settings
        .keys()
        .filter(|name| name.starts_with("_pq_."))
        .cloned()
        .collect();
    if version.cast_signed() != VERSION || !unknown.is_empty() {
        settings.retain(|name, _| !unknown.contains(name));
        wire.output().protocol(VERSION, unknown);
    }
    let Some(user) = settings.remove("user").filter(|user| !user.is_empty()) else {
        return Err(refused(Fault::new(
            "28000",
            "the startup message names no user",
        )));
    };
    if settings
        .remove("replication")
        .is_some_and(|value| !matches!(value.as_str(), "false" | "off" | "no" | "0"))
    {
        return Err(refused(Fault::unsupported("replication")));
    }
    // A directory is one database, whatever it is called.
    settings.remove("database");
    if shared.options.requires_tls && !is_secure {
        return Err(refused(
            Fault::new("28000", "this server takes no connections without TLS")
                .with_hint("connect with sslmode=require"),
        ));
    }
    if let Some(users) = &shared.options.users {
        let plain = ScramServerAuth::new();
        let bound = shared.options.tls.as_ref().filter(|_| is_secure);
        let scram = bound.map_or(&plain, |tls| &tls.scram);
        prove(wire, scram, users.secret_of(&user), &user).await?;
    }
    Ok((user, settings))
}

/// Has the client prove that it knows the password.
async fn prove(
    wire: &mut Wire,
    scram: &ScramServerAuth,
    secret: pgwire::api::auth::sasl::scram::ScramSecret,
    user: &str,
) -> Result<(), WireError> {
    let wrong = || {
        refused(Fault::new(
            "28P01",
            format!("password authentication failed for user \"{user}\""),
        ))
    };
    let mut methods = vec![SCRAM.to_owned()];
    if scram.supports_channel_binding() {
        methods.insert(0, SCRAM_BOUND.to_owned());
    }
    wire.output().authentication(Authentication::SASL(methods));
    wire.send().await?;
    let mut first = Body(password(wire).await?);
    let method = first.text().map_err(refused)?;
    let message = first.value().map_err(refused)?.ok_or_else(wrong)?;
    // A method that is not the message's own would leave the binding unchecked.
    let is_bound = message.starts_with(b"p=");
    let is_offered = match method.as_str() {
        SCRAM => !is_bound,
        SCRAM_BOUND => is_bound && scram.supports_channel_binding(),
        _ => false,
    };
    if !is_offered || !first.0.is_empty() {
        return Err(refused(Fault::protocol(
            "a method of authentication that was not offered",
        )));
    }
    let answer = scram.on_client_first_message_with_secret(&message, secret);
    let (challenge, waiting) = answer.map_err(|_| wrong())?;
    wire.output()
        .authentication(Authentication::SASLContinue(challenge.into()));
    wire.send().await?;
    let proof = password(wire).await?;
    let answer = waiting.on_client_final_message(&proof).map_err(|error| {
        tracing::info!(user, %error, "a login failed");
        wrong()
    })?;
    wire.output()
        .authentication(Authentication::SASLFinal(answer.into()));
    Ok(())
}

async fn password(wire: &mut Wire) -> Result<Bytes, WireError> {
    match wire.next(LOGIN_MOST_BYTES).await? {
        Message::Password(bytes) => Ok(bytes),
        Message::Terminate => Err(WireError::Gone),
        _ => Err(refused(Fault::protocol("expected a password"))),
    }
}
