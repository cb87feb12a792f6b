//! Settings from files and command lines.
//!
//! All errors are reported at once. What the command line says comes before what a file says, also where the file's
//! line cannot be used: `--config redis.conf --daemonize no` reads a file that says `daemonize yes`.

use std::path::Path;

use super::change::{ChangeError, is_setting};
use super::{Config, ConfigError};

/// The location of settings that come from no file.
const COMMAND_LINE: &str = "the command line";

/// A setting as it was given: a line of a file, or a flag and the words behind it.
struct GivenSetting {
    /// In small letters.
    name: String,
    words: Vec<String>,
    /// File and line, or the command line.
    location: String,
}

impl Config {
    /// The settings of a command line: those of the file after `--config`, wherever that is, and then its own.
    ///
    /// # Errors
    /// Where the file cannot be read or settings are wrong: all of them.
    pub fn from_arguments(
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let (files, flags): (Vec<GivenSetting>, Vec<GivenSetting>) = flags(arguments)?
            .into_iter()
            .partition(|flag| flag.name == "config");
        let mut refused = Vec::new();
        for GivenSetting {
            name,
            words,
            location,
        } in files
        {
            match &words[..] {
                [path] => refused.extend(config.add_file(Path::new(path))?),
                [] => return Err(ConfigError::NoValue { location, name }),
                _ => {
                    let why = "takes the name of one file".into();
                    return Err(ConfigError::Invalid {
                        location,
                        name,
                        why,
                    });
                }
            }
        }
        refused.retain(|error| !flags.iter().any(|flag| error.is_about(&flag.name)));
        refused.extend(flags.into_iter().filter_map(|flag| config.add(flag).err()));
        config.checked(refused)?;
        Ok(config)
    }

    /// Adds the settings of a file to these.
    ///
    /// # Errors
    /// Where it cannot be read or lines of it are wrong; the error names all of these, and the others are added.
    pub fn read(&mut self, path: &Path) -> Result<(), ConfigError> {
        let refused = self.add_file(path)?;
        self.checked(refused)
    }

    /// Adds settings given as `--name value`, with as many words of a value as there are.
    ///
    /// # Errors
    /// Where some are wrong: all of these.
    pub fn add_arguments(
        &mut self,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<(), ConfigError> {
        let flags = flags(arguments)?.into_iter();
        let refused = flags.filter_map(|flag| self.add(flag).err()).collect();
        self.checked(refused)
    }

    /// All that is wrong, now that settings have been added: these were refused, and the others may not go together.
    fn checked(&self, mut refused: Vec<ConfigError>) -> Result<(), ConfigError> {
        let together = self.placement.check();
        let together = together.map_err(|(name, why)| ConfigError::Together { name, why });
        refused.extend(together.err());
        ConfigError::all(refused)
    }

    /// Adds what can be used of a file. What is wrong with the rest.
    fn add_file(&mut self, path: &Path) -> Result<Vec<ConfigError>, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
            path: path.into(),
            error,
        })?;
        let mut refused = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                let location = format!("{} line {}", path.display(), number + 1);
                refused.extend(
                    given(line, location)
                        .and_then(|given| self.add(given))
                        .err(),
                );
            }
        }
        self.file = Some(path.into());
        Ok(refused)
    }

    fn add(&mut self, given: GivenSetting) -> Result<(), ConfigError> {
        let GivenSetting {
            name,
            words,
            location,
        } = given;
        if words.is_empty() && is_setting(&name) {
            return Err(ConfigError::NoValue { location, name });
        }
        self.set(&name, &words).map_err(|refused| match refused {
            ChangeError::Unknown => ConfigError::Unknown { location, name },
            ChangeError::Immutable => ConfigError::Invalid {
                location,
                name,
                why: "cannot be changed".into(),
            },
            ChangeError::Invalid(why) => ConfigError::Invalid {
                location,
                name,
                why,
            },
        })
    }
}

/// One line of a file: a name and a value, whose words may be quoted.
fn given(line: &str, location: String) -> Result<GivenSetting, ConfigError> {
    let mut bytes = line.as_bytes().to_vec();
    let mut ranges = Vec::new();
    let split = crate::protocol::split_line(&mut bytes, |start, len| {
        ranges.push(start..start + len);
    });
    if split.is_err() {
        return Err(ConfigError::Quotes { location });
    }
    let mut words = ranges
        .into_iter()
        .map(|range| String::from_utf8_lossy(&bytes[range]).into_owned());
    let name = words.next().unwrap_or_default().to_ascii_lowercase();
    let words = words.collect();
    Ok(GivenSetting {
        name,
        words,
        location,
    })
}

/// The settings of a command line.
fn flags(arguments: impl IntoIterator<Item = String>) -> Result<Vec<GivenSetting>, ConfigError> {
    let mut flags = Vec::new();
    let mut arguments = arguments.into_iter().peekable();
    while let Some(argument) = arguments.next() {
        let Some(name) = argument.strip_prefix("--") else {
            let next = arguments.next_if(|word| !word.starts_with("--"));
            return Err(bare(argument, next));
        };
        let (name, mut words) = match name.split_once('=') {
            Some((name, value)) => (name, vec![value.to_string()]),
            None => (name, Vec::new()),
        };
        while let Some(word) = arguments.next_if(|word| !word.starts_with("--")) {
            words.push(word);
        }
        flags.push(GivenSetting {
            name: name.to_ascii_lowercase(),
            words,
            location: COMMAND_LINE.into(),
        });
    }
    Ok(flags)
}

/// What is wrong with a word that stands where a flag should be, as Redis takes a file there.
fn bare(word: String, next: Option<String>) -> ConfigError {
    let name = word.trim_start_matches('-').to_ascii_lowercase();
    let instead = if is_setting(&name) || name == "config" {
        // Passwords are for no log.
        let value = next.filter(|_| name != "requirepass");
        let value = value.unwrap_or_else(|| "VALUE".into());
        format!("--{name} {value}")
    } else if word.ends_with(".conf") || Path::new(&word).is_file() {
        format!("--config {word}")
    } else {
        let (location, name) = (COMMAND_LINE.into(), word);
        return ConfigError::Unknown { location, name };
    };
    ConfigError::Bare { word, instead }
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
            config.output_limits.normal,
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
                "FILE line 2: there is no setting prot (--help lists those there are)",
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
        // What is wrong with settings of placement is known as early.
        for (text, line) in [
            ("memory-alloc-policy foo\n", 1),
            ("port 1\ndram-pmem-ratio 1\n", 2),
            ("near-memory lots\n", 1),
            ("far-memory lots\n", 1),
        ] {
            let name = text
                .lines()
                .nth(line - 1)
                .unwrap()
                .split(' ')
                .next()
                .unwrap();
            let start = format!("FILE line {line}: {name}: argument must be ");
            let error = read(text).err().unwrap();
            assert!(error.starts_with(&start), "{error}");
        }
        let error = read("dynamic-threshold-min 20000\n").err();
        let expected =
            "dynamic-threshold-min: 20000 is above dynamic-threshold-max, which is 10000";
        assert_eq!(error.as_deref(), Some(expected));
        assert!(read("dynamic-threshold-min 20000\ndynamic-threshold-max 20000\n").is_ok());
        assert!(
            Config::default()
                .read(Path::new("/nowhere"))
                .unwrap_err()
                .to_string()
                .starts_with("cannot read the configuration /nowhere")
        );
    }

    #[test]
    fn only_settings_of_several_words_take_several() {
        let error = |text| read(text).err();
        for (line, count) in [
            ("requirepass a b", 2),
            ("port 1 2 3", 3),
            ("near-memory 8 gb", 2),
        ] {
            let name = line.split(' ').next().unwrap();
            let expected = format!(
                "FILE line 1: {name}: takes one value, not {count}: quotes keep words together"
            );
            assert_eq!(error(line), Some(expected));
        }
        let config = read("requirepass 'a b'\nbind 127.0.0.1 ::1\nemulate optane, misses=4\ndram-pmem-ratio 2 5\nclient-output-buffer-limit normal 0 0 0\noom-score-adj-values 0 200 800\n").unwrap();
        assert_eq!((&*config.requirepass, config.bind.len()), ("a b", 2));
        assert_eq!(
            (
                config.emulate.unwrap().misses_in_flight,
                config.placement.ratio
            ),
            (4, (2, 5))
        );
        assert_eq!(config.ignored, ["oom-score-adj-values"]);
    }

    /// Lines that Debian's redis.conf has, with comments and blanks between them as there.
    const DEBIAN: &str = "# Redis configuration file example.\n\nbind 127.0.0.1 -::1\nprotected-mode yes\nport 6379\n\
        tcp-backlog 511\n\n# unixsocket /run/redis/redis-server.sock\ndaemonize yes\npidfile /run/redis/redis-server.pid\n\
        loglevel notice\nlogfile /var/log/redis/redis-server.log\ndatabases 16\n\
        proc-title-template \"{title} {listen-addr} {server-mode}\"\nstop-writes-on-bgsave-error yes\n\
        dbfilename dump.rdb\ndir /var/lib/redis\noom-score-adj-values 0 200 800\nappendonly no\n \n\
        client-output-buffer-limit normal 0 0 0\nclient-output-buffer-limit replica 256mb 64mb 60\n\
        client-output-buffer-limit pubsub 32mb 8mb 60\njemalloc-bg-thread yes\n";

    fn with_file(text: &str, flags: &[&str]) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("redis.conf").display().to_string();
        std::fs::write(&path, text).unwrap();
        let words = ["--config", &path].into_iter().chain(flags.iter().copied());
        Config::from_arguments(words.map(String::from))
            .map_err(|error| error.to_string().replace(&path, "FILE"))
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let expected = "2 settings cannot be used:\n  FILE line 9: daemonize: Tierra has only 'no'\n  \
            FILE line 12: logfile: Tierra has only ''\n\
            What the command line says (--NAME VALUE) comes before what a file says.";
        assert_eq!(with_file(DEBIAN, &[]).err().as_deref(), Some(expected));
        let error = with_file("prot 1\nhz x\n", &["--hz", "y", "--bnid", "z"]).err();
        let error = error.unwrap();
        let lines: Vec<&str> = error.lines().map(str::trim).collect();
        assert!(lines[0].starts_with("3 settings"), "{error}");
        assert!(
            lines[1].starts_with("FILE line 1: there is no setting prot"),
            "{error}"
        );
        assert!(lines[2].starts_with("the command line: hz: "), "{error}");
        assert!(
            lines[3].starts_with("the command line: there is no setting bnid"),
            "{error}"
        );
    }

    #[test]
    fn debians_file_is_read_with_the_flags_of_the_document() {
        let document = include_str!("../../../../docs/kv.md");
        let flags = ["--daemonize", "no", "--logfile", ""];
        let written = "--config kv.conf --daemonize no --logfile ''";
        assert!(document.contains(written), "docs/kv.md says how it is read");
        let config = with_file(DEBIAN, &flags).unwrap();
        assert_eq!((config.port, config.bind.len()), (6379, 2));
        for ignored in ["pidfile", "dir", "dbfilename", "jemalloc-bg-thread"] {
            assert!(
                config.ignored.iter().any(|name| name == ignored),
                "{ignored}"
            );
        }
    }

    #[test]
    fn an_old_name_is_the_same_setting() {
        let text = "hash-max-ziplist-entries many\n";
        assert!(with_file(text, &[]).is_err());
        let config = with_file(text, &["--hash-max-listpack-entries", "7"]).unwrap();
        assert_eq!(config.placement.hash_packed_entries_max, 7);
    }

    #[test]
    fn a_file_may_be_named_anywhere_and_flags_come_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kv.conf").display().to_string();
        std::fs::write(&path, "port 7000\nhz 20\n").unwrap();
        let words = ["--hz", "30", "--config", &path].map(String::from);
        let config = Config::from_arguments(words).unwrap();
        assert_eq!((config.port, config.hz), (7000, 30));
        let config = Config::from_arguments([format!("--config={path}")]).unwrap();
        assert_eq!((config.port, config.hz), (7000, 20));
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
                "port 7103 --hz 10",
                "the command line: port cannot stand alone: write --port 7103",
            ),
            (
                "-PORT",
                "the command line: -PORT cannot stand alone: write --port VALUE",
            ),
            (
                "requirepass s3cret",
                "the command line: requirepass cannot stand alone: write --requirepass VALUE",
            ),
            (
                "r.conf --port 7103",
                "the command line: r.conf cannot stand alone: write --config r.conf",
            ),
            (
                "nothing",
                "the command line: there is no setting nothing (--help lists those there are)",
            ),
            (
                "--port 7103 --help",
                "the command line: there is no setting help (--help lists those there are)",
            ),
            (
                "--port 7103 r.conf",
                "the command line: port: takes one value, not 2: quotes keep words together",
            ),
            (
                "--nothing 1",
                "the command line: there is no setting nothing (--help lists those there are)",
            ),
        ] {
            assert_eq!(
                config.add_arguments(words(text)).unwrap_err().to_string(),
                error
            );
        }
    }
}
