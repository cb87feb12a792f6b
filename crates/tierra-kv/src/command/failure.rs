//! Why a command did not do what it was asked, in Redis's words.

use crate::keyspace::MemoryFull;

/// The text of an error reply, from its first word in capitals on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Static(&'static str),
    Owned(Vec<u8>),
}

/// What a command ends with. A reply has been written, or a failure is to be.
pub(crate) type Outcome = Result<(), Failure>;

impl Failure {
    pub(crate) const SYNTAX: Self = Self::Static("ERR syntax error");
    pub(crate) const INTEGER: Self = Self::Static("ERR value is not an integer or out of range");
    pub(crate) const FLOAT: Self = Self::Static("ERR value is not a valid float");
    pub(crate) const TYPE: Self =
        Self::Static("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(crate) const OVERFLOW: Self = Self::Static("ERR increment or decrement would overflow");
    pub(crate) const NOT_FINITE: Self = Self::Static("ERR increment would produce NaN or Infinity");
    pub(crate) const NO_KEY: Self = Self::Static("ERR no such key");
    pub(crate) const DATABASE: Self = Self::Static("ERR DB index is out of range");
    pub(crate) const SAME_OBJECT: Self =
        Self::Static("ERR source and destination objects are the same");
    pub(crate) const MEMORY: Self =
        Self::Static("OOM command not allowed when used memory > 'maxmemory'.");
    pub(crate) const TIERS: Self = Self::Static(
        "OOM near and far memory are full (INFO tiers): delete keys, or raise near-memory or far-memory",
    );
    pub(crate) const NO_AUTH: Self = Self::Static("NOAUTH Authentication required.");
    pub(crate) const PASSWORD: Self =
        Self::Static("WRONGPASS invalid username-password pair or user is disabled.");

    pub(crate) const MONITOR: Self = Self::Static("ERR Replica can't interact with the keyspace");

    /// An argument as messages repeat it: up to its first zero byte, where C's text ends.
    pub(crate) fn shown(arg: &[u8]) -> &[u8] {
        arg.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    pub(crate) fn arity(name: &str) -> Self {
        format!("ERR wrong number of arguments for '{name}' command").into()
    }

    /// A subcommand with arguments that it does not take, where the number of words is not all that is wrong.
    pub(crate) fn subcommand(container: &str, given: &[u8]) -> Self {
        let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
        text.extend(Self::shown(given).iter().take(128));
        text.extend_from_slice(format!("'. Try {} HELP.", container.to_uppercase()).as_bytes());
        Self::Owned(text)
    }

    pub(crate) fn expiry(name: &str) -> Self {
        format!("ERR invalid expire time in '{name}' command").into()
    }

    pub(crate) fn text(&self) -> &[u8] {
        match self {
            Self::Static(text) => text.as_bytes(),
            Self::Owned(text) => text,
        }
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Owned(text.into_bytes())
    }
}

impl From<&'static str> for Failure {
    fn from(text: &'static str) -> Self {
        Self::Static(text)
    }
}

impl From<MemoryFull> for Failure {
    fn from(_: MemoryFull) -> Self {
        Self::TIERS
    }
}
