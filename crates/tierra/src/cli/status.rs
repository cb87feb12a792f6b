//! The exit statuses of commands.
//!
//! | status | |
//! |---|---|
//! | 0 | success; checked data is intact, with all the copies it should have |
//! | 1 | failure: the message says why |
//! | 2 | the command line is wrong |
//! | 3 | damage was found and repaired: now all data is intact |
//! | 4 | all data can be read, but a tier is missing or a copy is damaged |
//! | 5 | data is lost: no copy of it is left, or none is present |
//! | 130 | Ctrl-C |

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Clean = 0,
    Failed = 1,
    Usage = 2,
    Repaired = 3,
    Degraded = 4,
    Lost = 5,
    Interrupted = 130,
}

/// The same as text, for `--help`.
pub(crate) const HELP: &str = "\
Exit status: 0 all is well, 1 an error, 2 a wrong command line, 3 damage was repaired,\n\
4 all data can be read but a tier is missing or a copy is damaged, 5 data are lost, 130 Ctrl-C";

impl From<Status> for u8 {
    fn from(status: Status) -> Self {
        status as u8
    }
}
