//! Who may connect, and who of them may only read: a file of users, with PostgreSQL's SCRAM verifiers in place of passwords.
//!
//! ```toml
//! alice = "SCRAM-SHA-256$4096:c2FsdA==$StoredKey:ServerKey"
//! grafana = { verifier = "SCRAM-SHA-256$4096:c2FsdA==$StoredKey:ServerKey", read-only = true }
//! ```
//! Invariant: a right is what the file says in words that are known. Anything else in it is an error, and no user.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pgwire::api::auth::sasl::scram::{SCRAM_ITERATIONS, ScramSecret, gen_salted_password};
use toml::de::{DeTable, DeValue};

use crate::random::random;

/// Bytes of a salt, as in PostgreSQL.
const SALT_BYTES: usize = 16;
/// Bytes of a key: those of SHA-256.
const KEY_BYTES: usize = 32;
/// Fewer iterations are refused (RFC 7677), and more would let a file stop every login.
const ITERATIONS: std::ops::RangeInclusive<usize> = 4_096..=10_000_000;

/// Why a file of users cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It is no TOML.
    #[error("{}: {message}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// It has no users.
    #[error(
        "{}: there are no users in it: add a line that `tierra user NAME` prints", .0.display()
    )]
    Empty(PathBuf),
    /// A user's value is no verifier.
    #[error(
        "{}: the value of user '{user}' is no verifier: `tierra user {user}` makes one from a password", file.display()
    )]
    Verifier {
        /// The file.
        file: PathBuf,
        /// The user.
        user: String,
    },
    /// A user has something that users do not have.
    #[error(
        "{}: user '{user}' has '{key}', but a user has only a 'verifier' in quotes, and 'read-only' that is true or false", file.display()
    )]
    Key {
        /// The file.
        file: PathBuf,
        /// The user.
        user: String,
        /// What it has.
        key: String,
    },
}

/// The users of a server.
#[derive(Clone)]
pub struct Users {
    users: HashMap<String, User>,
    /// Makes the salts of users that do not exist, so that these are the same each time.
    secret: [u8; 32],
}

/// A user.
#[derive(Clone, PartialEq, Eq)]
struct User {
    verifier: Verifier,
    reads_only: bool,
}

/// What proves a password without being it.
#[derive(Clone, PartialEq, Eq)]
struct Verifier {
    iterations: usize,
    salt: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.users.keys()).finish()
    }
}

impl Users {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or is wrong.
    pub fn read(file: &Path) -> Result<Self, UsersError> {
        let text = fs::read_to_string(file).map_err(|source| UsersError::Io {
            file: file.to_path_buf(),
            source,
        })?;
        Self::parse(file, &text)
    }

    fn parse(file: &Path, text: &str) -> Result<Self, UsersError> {
        let syntax = |message: String| UsersError::Syntax {
            file: file.to_path_buf(),
            message,
        };
        let table = DeTable::parse(text).map_err(|error| syntax(error.to_string()))?;
        let mut users = HashMap::new();
        for (name, value) in table.into_inner() {
            let name = name.into_inner().into_owned();
            let user = User::of(file, &name, value.into_inner())?;
            users.insert(name, user);
        }
        if users.is_empty() {
            return Err(UsersError::Empty(file.to_path_buf()));
        }
        let secret = random().map_err(|error| syntax(error.to_string()))?;
        Ok(Self { users, secret })
    }

    /// Whether `user` may only read. One who does not exist may not even do that.
    pub fn reads_only(&self, user: &str) -> bool {
        self.users.get(user).is_none_or(|user| user.reads_only)
    }

    /// What the proof of `user` is compared with. A user who does not exist has one that nothing proves, so that the answers do
    /// not tell who exists.
    pub(crate) fn secret_of(&self, user: &str) -> ScramSecret {
        let Verifier {
            iterations,
            salt,
            stored_key,
            server_key,
        } = match self.users.get(user) {
            Some(user) => user.verifier.clone(),
            None => self.nobody(user),
        };
        ScramSecret::Verifier {
            salt,
            iterations,
            stored_key,
            server_key,
        }
    }

    /// Whether this is the password of `user`. It is derived as SCRAM does, which takes milliseconds by design, also for a user who does
    /// not exist.
    pub fn is_password(&self, user: &str, password: &str) -> bool {
        let known = self.users.get(user).map(|user| user.verifier.clone());
        let Verifier {
            iterations,
            salt,
            stored_key,
            ..
        } = known.unwrap_or_else(|| self.nobody(user));
        let salted = gen_salted_password(password, &salt, iterations);
        let derived = ScramSecret::verifier_from_salted_password(salt, salted, iterations);
        let ScramSecret::Verifier {
            stored_key: derived,
            ..
        } = derived
        else {
            unreachable!("a verifier was asked for");
        };
        // All bytes are compared, so that the time does not tell how many are right.
        let differences = derived.iter().zip(&stored_key).map(|(a, b)| a ^ b);
        derived.len() == stored_key.len() && differences.fold(0, |all, one| all | one) == 0
    }

    fn nobody(&self, user: &str) -> Verifier {
        // One iteration of the derivation is a keyed hash.
        let mut salt = gen_salted_password(user, &self.secret, 1);
        salt.truncate(SALT_BYTES);
        Verifier {
            iterations: SCRAM_ITERATIONS,
            salt,
            // No password with this hash is known.
            stored_key: random::<KEY_BYTES>().map_or(vec![0; KEY_BYTES], Vec::from),
            server_key: vec![0; KEY_BYTES],
        }
    }
}

impl User {
    /// What the file says of the user with this name.
    fn of(file: &Path, name: &str, value: DeValue<'_>) -> Result<Self, UsersError> {
        let (mut verifier, mut reads_only) = (None, false);
        match value {
            DeValue::String(text) => verifier = Verifier::parse(&text),
            DeValue::Table(table) => {
                for (key, value) in table {
                    match (&*key.into_inner(), value.into_inner()) {
                        ("verifier", DeValue::String(text)) => verifier = Verifier::parse(&text),
                        ("read-only", DeValue::Boolean(is_so)) => reads_only = is_so,
                        (key, _) => {
                            return Err(UsersError::Key {
                                file: file.to_path_buf(),
                                user: name.to_owned(),
                                key: key.to_owned(),
                            });
                        }
                    }
                }
            }
            _ => {}
        }
        let verifier = verifier.ok_or_else(|| UsersError::Verifier {
            file: file.to_path_buf(),
            user: name.to_owned(),
        })?;
        Ok(Self {
            verifier,
            reads_only,
        })
    }
}

impl Verifier {
    /// Reads `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`.
    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("SCRAM-SHA-256$")?;
        let (first, second) = rest.split_once('$')?;
        let (iterations, salt) = first.split_once(':')?;
        let (stored, server) = second.split_once(':')?;
        let key = |text: &str| STANDARD.decode(text).ok();
        let verifier = Self {
            iterations: iterations.parse().ok()?,
            salt: key(salt)?,
            stored_key: key(stored)?,
            server_key: key(server)?,
        };
        let is_whole = ITERATIONS.contains(&verifier.iterations)
            && !verifier.salt.is_empty()
            && verifier.stored_key.len() == KEY_BYTES
            && verifier.server_key.len() == KEY_BYTES;
        is_whole.then_some(verifier)
    }
}

/// The verifier of a password, for a file of users.
///
/// # Errors
/// If the system has no random numbers.
pub fn verifier(password: &str) -> io::Result<String> {
    let salt = random::<SALT_BYTES>()?.to_vec();
    let salted = gen_salted_password(password, &salt, SCRAM_ITERATIONS);
    let secret = ScramSecret::verifier_from_salted_password(salt, salted, SCRAM_ITERATIONS);
    let ScramSecret::Verifier {
        salt,
        iterations,
        stored_key,
        server_key,
    } = secret
    else {
        unreachable!("a verifier was asked for");
    };
    Ok(format!(
        "SCRAM-SHA-256${iterations}:{}${}:{}",
        STANDARD.encode(salt),
        STANDARD.encode(stored_key),
        STANDARD.encode(server_key)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verifier_is_read_as_it_is_written() {
        let text = verifier("secret").unwrap();
        let users = Users::parse(Path::new("u"), &format!("alice = \"{text}\"\n")).unwrap();
        let again = Verifier::parse(&text).unwrap();
        assert!(users.users["alice"].verifier == again);
        assert_ne!(text, verifier("secret").unwrap(), "the salts differ");
        assert!(!format!("{users:?}").contains("SCRAM"));
    }

    /// What PostgreSQL 15 stores for the password `pencil`.
    #[test]
    fn a_verifier_is_that_of_postgresql() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let salted = gen_salted_password("pencil", &salt, 4096);
        let secret = ScramSecret::verifier_from_salted_password(salt, salted, 4096);
        let ScramSecret::Verifier {
            stored_key,
            server_key,
            ..
        } = secret
        else {
            panic!()
        };
        assert_eq!(
            STANDARD.encode(stored_key),
            "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
        );
        assert_eq!(
            STANDARD.encode(server_key),
            "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
    }

    #[test]
    fn a_password_is_its_users_alone() {
        let text = format!(
            "alice = \"{}\"\nbob = \"{}\"\n",
            verifier("secret").unwrap(),
            verifier("").unwrap()
        );
        let users = Users::parse(Path::new("u"), &text).unwrap();
        assert!(users.is_password("alice", "secret") && users.is_password("bob", ""));
        for (user, password) in [
            ("alice", ""),
            ("alice", "secret "),
            ("bob", "secret"),
            ("carol", "secret"),
            ("carol", ""),
            ("", ""),
        ] {
            assert!(!users.is_password(user, password), "{user} {password}");
        }
    }

    #[test]
    fn what_is_no_verifier_is_refused() {
        let good = verifier("x").unwrap();
        for text in [
            "",
            "alice = \"secret\"",
            "alice = \"\"",
            "alice = 1",
            "alice = ",
            &format!("alice = \"{}\"", good.replace("4096", "1")),
            &format!("alice = \"{}\"", &good[..good.len() - 8]),
            "alice = {}",
            "alice = { read-only = true }",
            "alice = { verifier = \"secret\" }",
        ] {
            assert!(Users::parse(Path::new("u"), text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_right_is_what_the_file_says_in_known_words() {
        let good = verifier("x").unwrap();
        let users = |more: &str| {
            let text = format!("alice = \"{good}\"\nbob = {{ verifier = \"{good}\"{more} }}\n");
            Users::parse(Path::new("u"), &text)
        };
        for (more, reads_only) in [
            ("", false),
            (", read-only = false", false),
            (", read-only = true", true),
        ] {
            let users = users(more).unwrap();
            assert_eq!(users.reads_only("bob"), reads_only, "{more}");
            assert!(!users.reads_only("alice") && users.reads_only("carol"));
            assert!(users.is_password("bob", "x"));
        }
        for more in [
            ", read-only = \"true\"",
            ", read-only = 1",
            ", read_only = true",
            ", readonly = true",
            ", rights = \"read\"",
            ", read-only = true, read-only = false",
        ] {
            assert!(users(more).is_err(), "{more}");
        }
        let table = format!("[bob]\nverifier = \"{good}\"\nread-only = true\n");
        let users = Users::parse(Path::new("u"), &table).unwrap();
        assert!(users.reads_only("bob"));
    }

    #[test]
    fn nobody_has_the_same_salt_twice_and_no_password() {
        let text = format!("alice = \"{}\"", verifier("x").unwrap());
        let users = Users::parse(Path::new("u"), &text).unwrap();
        let salt = |user| users.nobody(user).salt;
        assert_eq!(salt("bob"), salt("bob"));
        assert_ne!(salt("bob"), salt("carol"));
        assert_eq!(salt("bob").len(), SALT_BYTES);
    }
}
