//! One client's connection: its messages, one after the other, in a session of its own.

use std::collections::HashMap;
use std::sync::Arc;

use tierra_sql::{Session, SessionOptions, SqlError, TransactionState};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cancel::CancelKey;
use crate::error::{Fault, Severity};
use crate::login::Client;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::statement::{Planned, Portal};
use crate::watch::until;
use crate::wire::frame::Message;
use crate::wire::messages::Put;
use crate::wire::{MESSAGE_MOST_BYTES, Wire, WireError};

use pgwire::messages::startup::Authentication;

/// The name of the statement and the portal that have none.
pub(crate) const UNNAMED: &str = "";

/// Why a message was not answered to its end.
pub(crate) enum Stop {
    /// The client is told why.
    Fault(Fault),
    /// The client is gone.
    Gone,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Self {
        Self::Fault(error.into())
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        WireError::from(error).into()
    }
}

impl From<WireError> for Stop {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Gone => Self::Gone,
            WireError::Wrong {
                fault,
                kind: Some(_),
            } => Self::Fault(fault),
            WireError::Wrong { fault, kind: None } => Self::Fault(Fault {
                severity: Severity::Fatal,
                ..fault
            }),
        }
    }
}

/// A connection.
pub(crate) struct Connection {
    pub(crate) wire: Wire,
    pub(crate) session: Arc<Session>,
    pub(crate) settings: Settings,
    pub(crate) statements: HashMap<String, Arc<Planned>>,
    pub(crate) portals: HashMap<String, Portal>,
    pub(crate) key: CancelKey,
    user: String,
    /// When the running statement is to end.
    pub(crate) deadline: Option<Instant>,
    pub(crate) shared: Arc<Shared>,
    /// Its own: a clone is counted where all connections count theirs.
    stopping: watch::Receiver<bool>,
    /// While a text's last statement is not committed: its tag, which is told then.
    pub(crate) late_tag: Option<Option<String>>,
    /// Whether the open transaction is that of a text of several statements, which nobody has begun.
    pub(crate) of_text: bool,
}

/// Serves a client who has logged in, until one of the two ends it.
pub(crate) async fn serve(client: Client, shared: Arc<Shared>) {
    let Client {
        mut wire,
        user,
        settings,
    } = client;
    let Ok(_place) = shared.room.try_acquire() else {
        let most = shared.options.connections_most;
        wire.output().fault(
            &Fault::fatal(
                "53300",
                format!("there are {most} connections, the most of this server"),
            )
            .with_hint("--max-connections"),
        );
        return wire.close().await;
    };
    let users = shared.options.users.as_ref();
    let options = SessionOptions {
        reads_only: users.is_some_and(|users| users.reads_only(&user)),
        shares_threads: true,
        ..shared.options.session.clone()
    };
    let opened = Session::new(Arc::clone(&shared.database), &options);
    let session = opened.map(Arc::new);
    let made = session.map_err(Fault::from).and_then(|session| {
        let key = shared.cancels.register(&user);
        let key = key.map_err(|error| Fault::new("58000", error.to_string()))?;
        Ok((session, key))
    });
    let (session, key) = match made {
        Ok(made) => made,
        Err(fault) => {
            wire.output().fault(&Fault {
                severity: Severity::Fatal,
                ..fault
            });
            return wire.close().await;
        }
    };
    let own_settings = Settings::new(&user, !session.reads_only());
    let mut connection = Connection {
        wire,
        session,
        settings: own_settings,
        statements: HashMap::new(),
        portals: HashMap::new(),
        key,
        user,
        deadline: None,
        shared: Arc::clone(&shared),
        stopping: shared.stopping.clone(),
        late_tag: None,
        of_text: false,
    };
    let end = match connection.begin(&settings).await {
        Ok(()) => connection.talk().await,
        Err(Stop::Fault(fault)) => Stop::Fault(Fault {
            severity: Severity::Fatal,
            ..fault
        }),
        Err(Stop::Gone) => Stop::Gone,
    };
    if let Stop::Fault(fault) = end {
        connection.wire.output().fault(&fault);
        connection.wire.close().await;
    }
}

impl Connection {
    /// Takes the settings of the startup message, and tells the client that it is in.
    async fn begin(
        &mut self,
        settings: &std::collections::BTreeMap<String, String>,
    ) -> Result<(), Stop> {
        for (name, value) in settings {
            match name.as_str() {
                "options" => {
                    for (name, value) in options(value) {
                        self.begin_setting(&name, &value).await?;
                    }
                }
                name => self.begin_setting(name, value).await?,
            }
        }
        self.tell_application();
        let output = self.wire.output();
        output.authentication(Authentication::Ok);
        for (name, value) in self.settings.reported() {
            output.setting(name, value);
        }
        output.key(self.key.process, self.key.secret);
        Ok(())
    }

    async fn begin_setting(&mut self, name: &str, value: &str) -> Result<(), Stop> {
        if name.contains('.') {
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._".contains(letter);
            if !name.chars().all(is_name) {
                let message = format!("unrecognized configuration parameter \"{name}\"");
                return Err(Fault::new("42704", message).into());
            }
            let value = value.replace('\'', "''");
            self.session.sql(&format!("SET {name} = '{value}'")).await?;
            return Ok(());
        }
        Ok(self.settings.begin(name, value)?)
    }

    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// Has `tierra_sessions` say which program it is.
    pub(crate) fn tell_application(&self) {
        self.session
            .set_client(&self.user, self.settings.application());
    }

    /// Answers messages until one of the two sides ends.
    async fn talk(&mut self) -> Stop {
        // After an error what follows is passed over, up to the next Sync.
        let mut is_skipping = false;
        let mut is_idle = true;
        self.ready();
        loop {
            if is_idle && let Err(error) = self.wire.send().await {
                return error.into();
            }
            let message = match self.next_message(is_idle).await {
                Ok(message) => message,
                // Of a COPY that has failed, or behind an error.
                Err(WireError::Wrong {
                    kind: Some(kind), ..
                }) if is_skipping || kind == b'f' => continue,
                Err(WireError::Wrong {
                    fault,
                    kind: Some(kind),
                }) => {
                    self.report(&fault);
                    // What a Query or a function call is, is one message, and answered to its end.
                    is_idle = matches!(kind, b'Q' | b'F');
                    is_skipping = !is_idle;
                    if is_idle {
                        self.ready();
                    } else if let Err(error) = self.wire.send().await {
                        return error.into();
                    }
                    continue;
                }
                Err(error) => return error.into(),
            };
            match message {
                Message::Terminate => return Stop::Gone,
                Message::Sync => {}
                // Of a COPY that has failed.
                Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => continue,
                _ if is_skipping => continue,
                _ => {}
            }
            let is_query = matches!(message, Message::Query(_));
            is_idle = false;
            self.key.current.begin();
            let answered = match message {
                Message::Sync => {
                    is_skipping = false;
                    is_idle = true;
                    self.ready();
                    Ok(())
                }
                Message::Flush => self.wire.send().await.map_err(Stop::from),
                Message::Password(_) => {
                    Err(Fault::protocol("a password that was not asked for").into())
                }
                Message::Query(text) => {
                    self.start_clock();
                    self.query(&text).await
                }
                message => self.extended(message).await,
            };
            self.deadline = None;
            self.key.current.end();
            // A client that asks much before it reads must not fill the memory.
            let answered = match answered {
                Ok(()) => self.send_if_full().await,
                failed => failed,
            };
            match answered {
                Ok(()) => {}
                Err(Stop::Fault(fault)) if !fault.is_fatal() => {
                    self.report(&fault);
                    is_skipping = !is_query;
                    if let Err(error) = self.wire.send().await {
                        return error.into();
                    }
                }
                Err(end) => return end,
            }
            if is_query {
                self.ready();
                is_idle = true;
            }
        }
    }

    /// The next message. A client is told when the server stops, before its next statement or in place of what it has not sent.
    async fn next_message(&mut self, is_idle: bool) -> Result<Message, WireError> {
        // Of a statement that has begun, or of several that were sent together.
        if !is_idle && let Some(message) = self.wire.received(MESSAGE_MOST_BYTES)? {
            return Ok(message);
        }
        let waits = is_idle && self.session.transaction() != TransactionState::None;
        let idle = waits.then(|| self.settings.idle_timeout()).flatten();
        let idle_end = idle.map(|idle| Instant::now() + idle);
        let end = |code, message: &str| WireError::Wrong {
            fault: Fault::fatal(code, message),
            kind: None,
        };
        let stopped = || {
            end(
                "57P01",
                "terminating connection due to administrator command",
            )
        };
        let next = self.wire.next(MESSAGE_MOST_BYTES);
        let stop = self.stopping.wait_for(|stop| *stop);
        if !is_idle {
            return tokio::select! {
                biased;
                message = next => message,
                _ = stop => Err(stopped()),
            };
        }
        tokio::select! {
            biased;
            _ = stop => Err(stopped()),
            message = next => message,
            () = until(idle_end) => {
                Err(end("25P03", "terminating connection due to idle-in-transaction timeout"))
            }
        }
    }

    /// Tells the client of an error. What the session did not see fails its transaction, too.
    fn report(&mut self, fault: &Fault) {
        self.session.fail_transaction();
        self.wire.output().fault(fault);
    }

    pub(crate) fn warn(&mut self, code: &'static str, message: &str) {
        self.wire.output().notice(&Fault::warning(code, message));
    }

    /// Says that the next statement may come, and in which transaction.
    fn ready(&mut self) {
        let state = self.session.transaction();
        if state == TransactionState::None {
            self.end_of_transaction(false);
        }
        self.wire.output().ready(state);
    }

    /// Says that a statement is done.
    pub(crate) fn complete(&mut self, tag: &str) {
        match &mut self.late_tag {
            Some(late) => *late = Some(tag.to_owned()),
            None => self.wire.output().complete(tag),
        }
    }

    /// Ends what lives no longer than a transaction, which `is_committed` or rolled back.
    pub(crate) fn end_of_transaction(&mut self, is_committed: bool) {
        self.portals
            .retain(|_, portal| portal.is_held && (is_committed || !portal.is_new));
        let told = self.settings.end_transaction();
        self.tell(&told);
    }

    /// Tells the client of settings that changed.
    pub(crate) fn tell(&mut self, settings: &[(&'static str, String)]) {
        for (name, value) in settings {
            self.wire.output().setting(name, value);
            if *name == "application_name" {
                self.tell_application();
            }
        }
    }

    /// Refuses all but the end of a transaction that has failed.
    pub(crate) fn check_transaction(&self) -> Result<(), Fault> {
        match self.session.transaction() {
            TransactionState::Failed => Err(Fault::new(
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
            )),
            TransactionState::None | TransactionState::Open => Ok(()),
        }
    }
}

/// The settings in `options` of the startup message: `-c name=value` and `--name=value`.
fn options(text: &str) -> Vec<(String, String)> {
    let mut words = text.split_ascii_whitespace();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            Some("") => words.next().unwrap_or_default(),
            Some(setting) => setting,
            // Unknown to the settings, which say so.
            None => word,
        };
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        found.push((name.to_owned(), value.to_owned()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_startup_message_are_settings() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            options("-c statement_timeout=5 -csearch_path=public --tierra.threads=2"),
            [
                pair("statement_timeout", "5"),
                pair("search_path", "public"),
                pair("tierra.threads", "2")
            ]
        );
        assert_eq!(options(""), []);
    }
}
