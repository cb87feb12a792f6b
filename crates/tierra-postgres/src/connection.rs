//! One client's connection: its messages, one after the other, in a session of its own.
//!
//! While a statement runs, the connection waits for three things at once: the statement, its time limit, and the client's end. So a
//! client that was killed stops its query.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tierra_sql::{Session, SqlError, TransactionState};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::cancel::CancelKey;
use crate::error::{Fault, Severity};
use crate::login::Client;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::statement::{Planned, Portal};
use crate::wire::frame::Message;
use crate::wire::messages::Put;
use crate::wire::{MESSAGE_MOST_BYTES, Wire, WireError};

use pgwire::messages::startup::Authentication;

/// The time between two attempts to stop a statement, which may be between two of its parts.
const AGAIN: Duration = Duration::from_millis(50);
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
    deadline: Option<Instant>,
    shared: Arc<Shared>,
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
    let opened = Session::new(Arc::clone(&shared.database), &shared.options.session);
    let session = opened.map(Arc::new);
    let made = session.map_err(Fault::from).and_then(|session| {
        let key = shared.cancels.register(&session);
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
    let mut connection = Connection {
        wire,
        session,
        settings: Settings::new(&user),
        statements: HashMap::new(),
        portals: HashMap::new(),
        key,
        user,
        deadline: None,
        shared: Arc::clone(&shared),
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
            let name = name.replace(
                |letter: char| !letter.is_ascii_alphanumeric() && !"._".contains(letter),
                "",
            );
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
                Err(WireError::Wrong {
                    fault,
                    kind: Some(kind),
                }) => {
                    self.report(&fault);
                    is_skipping = kind != b'Q';
                    if !is_skipping {
                        self.ready();
                    }
                    continue;
                }
                Err(error) => return error.into(),
            };
            let is_extended = !matches!(message, Message::Query(_));
            is_idle = false;
            let answered = match message {
                Message::Terminate => return Stop::Gone,
                Message::Sync => {
                    is_skipping = false;
                    self.ready();
                    is_idle = true;
                    continue;
                }
                // Of a COPY that has failed.
                Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => continue,
                _ if is_skipping => continue,
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
            match answered {
                Ok(()) => {}
                Err(Stop::Fault(fault)) if !fault.is_fatal() => {
                    self.report(&fault);
                    is_skipping = is_extended;
                    if let Err(error) = self.wire.send().await {
                        return error.into();
                    }
                }
                Err(end) => return end,
            }
            if !is_extended {
                self.ready();
                is_idle = true;
            }
        }
    }

    /// The next message. A client that waits is told when the server stops.
    async fn next_message(&mut self, is_idle: bool) -> Result<Message, WireError> {
        let idle = self.settings.idle_timeout();
        let idle = idle.filter(|_| is_idle && self.session.transaction() != TransactionState::None);
        let end = |code, message: &str| WireError::Wrong {
            fault: Fault::fatal(code, message),
            kind: None,
        };
        let mut stopping = self.shared.stopping.clone();
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop), if is_idle => {
                Err(end("57P01", "terminating connection due to administrator command"))
            }
            message = self.wire.next(MESSAGE_MOST_BYTES) => message,
            () = sleep(idle.unwrap_or_default()), if idle.is_some() => {
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
            self.portals.retain(|_, portal| portal.is_held);
            let told = self.settings.end_transaction();
            self.tell(&told);
        }
        self.wire.output().ready(state);
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

    /// Starts the time of a statement.
    pub(crate) fn start_clock(&mut self) {
        let most = self.settings.statement_timeout();
        self.deadline = most.map(|most| Instant::now() + most);
    }

    /// The result of `work`, a part of a statement, which is stopped when its time is over or the client is gone.
    pub(crate) async fn watched<T>(
        &mut self,
        work: impl Future<Output = Result<T, SqlError>>,
    ) -> Result<T, Stop> {
        let session = Arc::clone(&self.session);
        let queries = self.shared.queries.clone();
        let mut work = pin!(work);
        // The tasks that it starts run where queries do.
        let mut work = poll_fn(move |context| {
            let _within = queries.enter();
            work.as_mut().poll(context)
        });
        let (mut is_late, mut is_gone) = (false, false);
        loop {
            let deadline = self.deadline.filter(|_| !is_late);
            tokio::select! {
                biased;
                done = &mut work => return match done {
                    _ if is_gone => Err(Stop::Gone),
                    Err(SqlError::Cancelled) => Err(cancelled(is_late).into()),
                    done => Ok(done?),
                },
                () = self.wire.gone(), if !is_gone => {
                    is_gone = true;
                    session.interrupt();
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    is_late = true;
                    session.interrupt();
                }
                () = sleep(AGAIN), if is_late || is_gone => session.interrupt(),
            }
        }
    }

    /// The same for work that the session does not see, which `cancel` stops.
    pub(crate) async fn watched_for<T>(
        &mut self,
        work: impl Future<Output = T>,
        cancel: impl Future<Output = ()>,
    ) -> Result<T, Stop> {
        let deadline = self.deadline;
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = cancel => Err(cancelled(false).into()),
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                Err(cancelled(true).into())
            }
        }
    }

    /// The next message of a COPY.
    pub(crate) async fn next_of_copy(
        &mut self,
        cancel: impl Future<Output = ()>,
    ) -> Result<Message, Stop> {
        let deadline = self.deadline;
        tokio::select! {
            biased;
            () = cancel => Err(cancelled(false).into()),
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                Err(cancelled(true).into())
            }
            message = self.wire.next(MESSAGE_MOST_BYTES) => Ok(message?),
        }
    }

    /// Sends what waits if it is much. A client that does not read within the statement's time is given up: it would be in the middle
    /// of a message.
    pub(crate) async fn send_if_full(&mut self) -> Result<(), Stop> {
        match self.deadline {
            None => Ok(self.wire.send_if_full().await?),
            Some(deadline) => match timeout_at(deadline, self.wire.send_if_full()).await {
                Ok(sent) => Ok(sent?),
                Err(_) => Err(Stop::Gone),
            },
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

fn cancelled(is_late: bool) -> Fault {
    Fault::new(
        "57014",
        match is_late {
            true => "canceling statement due to statement timeout",
            false => "canceling statement due to user request",
        },
    )
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
