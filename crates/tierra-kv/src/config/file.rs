//! Settings from files and command lines.

use std::path::{Path, PathBuf};

use super::{Config, Refused};

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A quote that is not closed.
    #[error("{place}: unbalanced quotes")]
    Quotes {
        /// File and line.
        place: String,
    },
    /// A name without a value.
    #[error("{place}: {name} needs a value")]
    NoValue {
        /// File and line, or the command line.
        place: String,
        /// The setting.
        name: String,
    },
    /// There is no such setting.
    #[error("{place}: there is no setting {name} (docs/kv.md lists those there are)")]
    Unknown {
        /// File and line, or the command line.
        place: String,
        /// What was taken for a setting.
        name: String,
    },
    /// The value of a setting is wrong.
    #[error("{place}: {name}: {why}")]
    Invalid {
        /// File and line, or the command line.
        place: String,
        /// The setting.
        name: String,
        /// What is wrong.
        why: String,
    },
}

impl Config {
    /// The settings of a command line: those of the file after `--config`, wherever that is, and then its own.
    ///
    /// # Errors
    /// Where the file cannot be read or a setting is wrong.
    pub fn from_arguments(
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let mut arguments: Vec<String> = arguments.into_iter().collect();
        if let Some(at) = arguments.iter().position(|word| word == "--config") {
            if at + 1 == arguments.len() {
                let (place, name) = ("the command line".into(), "config".into());
                return Err(ConfigError::NoValue { place, name });
            }
            config.read(Path::new(&arguments[at + 1]))?;
            arguments.drain(at..at + 2);
        }
        config.add_arguments(arguments)?;
        Ok(config)
    }

    /// Adds the settings of a file to these.
    ///
    /// # Errors
    /// Where it cannot be read or a line of it is wrong; the error names the line.
    pub fn read(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
            path: path.into(),
            error,
        })?;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                self.line(line, &format!("{} line {}", path.display(), number + 1))?;
            }
        }
        self.file = Some(path.into());
        Ok(())
    }

    /// One line of a file: a name and a value, whose words may be quoted.
    fn line(&mut self, line: &str, place: &str) -> Result<(), ConfigError> {
        let mut bytes = line.as_bytes().to_vec();
        let mut ranges = Vec::new();
        crate::protocol::split_line(&mut bytes, |start, len| ranges.push(start..start + len))
            .map_err(|_| ConfigError::Quotes {
                place: place.into(),
            })?;
        let words: Vec<_> = ranges
            .into_iter()
            .map(|range| String::from_utf8_lossy(&bytes[range]).into_owned())
            .collect();
        match words.split_first() {
            Some((name, [])) => Err(ConfigError::NoValue {
                place: place.into(),
                name: name.clone(),
            }),
            Some((name, values)) => self.add(name, &values.join(" "), place),
            None => Ok(()),
        }
    }

    /// Adds settings given as `--name value`, with as many words of a value as there are.
    ///
    /// # Errors
    /// Where one is wrong.
    pub fn add_arguments(
        &mut self,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<(), ConfigError> {
        let place = "the command line";
        let mut arguments = arguments.into_iter().peekable();
        while let Some(argument) = arguments.next() {
            let Some(name) = argument.strip_prefix("--") else {
                return Err(ConfigError::Unknown {
                    place: place.into(),
                    name: argument,
                });
            };
            let (name, mut words) = match name.split_once('=') {
                Some((name, value)) => (name, vec![value.to_string()]),
                None => (name, Vec::new()),
            };
            while let Some(word) = arguments.next_if(|word| !word.starts_with("--")) {
                words.push(word);
            }
            if words.is_empty() {
                return Err(ConfigError::NoValue {
                    place: place.into(),
                    name: name.into(),
                });
            }
            self.add(name, &words.join(" "), place)?;
        }
        Ok(())
    }

    fn add(&mut self, name: &str, value: &str, place: &str) -> Result<(), ConfigError> {
        let name = name.to_ascii_lowercase();
        self.set(&name, value).map_err(|refused| match refused {
            Refused::Unknown => ConfigError::Unknown {
                place: place.into(),
                name,
            },
            Refused::Immutable => ConfigError::Invalid {
                place: place.into(),
                name,
                why: "cannot be changed".into(),
            },
            Refused::Invalid(why) => ConfigError::Invalid {
                place: place.into(),
                name,
                why,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kv.conf");
        std::fs::write(&path, text).unwrap();
        let mut config = Config::default();
        config.read(&path).map_err(|error| {
            error
                .to_string()
                .replace(&*path.display().to_string(), "FILE")
        })?;
        Ok(config)
    }

    #[test]
    fn files_are_read_as_redis_reads_them() {
        let config = read("# a comment\n\nport 7000\nBIND 127.0.0.1 -::1\nrequirepass \"a b\"\nmaxmemory 2gb\nmaxmemory-policy volatile-TTL\nmaxmemory-samples 10\nsave \"\"\nclient-output-buffer-limit normal 1mb 1kb 5\n").unwrap();
        assert_eq!(
            (
                config.port,
                config.bind.len(),
                &*config.requirepass,
                config.maxmemory
            ),
            (7000, 2, "a b", 2 << 30)
        );
        assert_eq!(
            (config.maxmemory_policy.name(), config.maxmemory_samples),
            ("volatile-ttl", 10)
        );
        assert_eq!(
            config.output_limit,
            super::super::OutputLimit {
                hard_bytes: 1 << 20,
                soft_bytes: 1024,
                soft_s: 5
            }
        );
    }

    #[test]
    fn what_is_wrong_names_its_line() {
        for (text, error) in [
            (
                "port 1\nprot 2\n",
                "FILE line 2: there is no setting prot (docs/kv.md lists those there are)",
            ),
            ("port\n", "FILE line 1: port needs a value"),
            (
                "port x\n",
                "FILE line 1: port: argument couldn't be parsed into an integer",
            ),
            ("requirepass \"x\n", "FILE line 1: unbalanced quotes"),
            (
                "appendonly yes\n",
                "FILE line 1: appendonly: Tierra has only 'no'",
            ),
        ] {
            assert_eq!(read(text).err().as_deref(), Some(error));
        }
        assert!(
            Config::default()
                .read(Path::new("/nowhere"))
                .unwrap_err()
                .to_string()
                .starts_with("cannot read the configuration /nowhere")
        );
    }

    #[test]
    fn a_file_may_be_named_anywhere_and_flags_come_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kv.conf").display().to_string();
        std::fs::write(&path, "port 7000\nhz 20\n").unwrap();
        let words = ["--hz", "30", "--config", &path].map(String::from);
        let config = Config::from_arguments(words).unwrap();
        assert_eq!((config.port, config.hz), (7000, 30));
        let error = Config::from_arguments(["--config".into()]).unwrap_err();
        assert_eq!(error.to_string(), "the command line: config needs a value");
    }

    #[test]
    fn command_lines_name_settings() {
        let mut config = Config::default();
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        config
            .add_arguments(words("--port 7001 --bind 127.0.0.1 ::1 --maxclients=5"))
            .unwrap();
        assert_eq!(
            (config.port, config.bind.len(), config.maxclients),
            (7001, 2, 5)
        );
        for (text, error) in [
            ("--port", "the command line: port needs a value"),
            (
                "port 1",
                "the command line: there is no setting port (docs/kv.md lists those there are)",
            ),
            (
                "--nothing 1",
                "the command line: there is no setting nothing (docs/kv.md lists those there are)",
            ),
        ] {
            assert_eq!(
                config.add_arguments(words(text)).unwrap_err().to_string(),
                error
            );
        }
    }
}
