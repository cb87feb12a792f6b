//! The names of a command's arguments, for COMMAND DOCS and redis-cli's hints.
//!
//! ```text
//!  key value [condition<NX|XX>@2.6.12] [GET] [LIMIT offset_count(offset:integer count:integer)] (field value)*
//! ```
//!
//! A name is that of a string unless a type follows; `key` is a key. In capitals is what has to be typed, alone or before
//! an argument. `<>` is one of several, `()` all of them, `[]` none or that; `*` any number, `+` with its word each time.
//! `@` is the version that brought it, `!` the one that no longer recommends it.

use crate::protocol::Reply;

/// An argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Argument<'a> {
    name: String,
    kind: &'a str,
    /// What has to be typed before it.
    token: &'a str,
    since: &'a str,
    deprecated_since: &'a str,
    is_optional: bool,
    is_multiple: bool,
    is_token_multiple: bool,
    arguments: Vec<Argument<'a>>,
}

/// The arguments that a text describes.
///
/// # Errors
/// What is left where the text cannot be understood; a test reads all there are.
pub(super) fn parse(text: &str) -> Result<Vec<Argument<'_>>, &str> {
    let mut parser = Parser(text);
    let arguments = parser.arguments(' ')?;
    if parser.0.is_empty() {
        Ok(arguments)
    } else {
        Err(parser.0)
    }
}

struct Parser<'a>(&'a str);

impl<'a> Parser<'a> {
    fn take(&mut self, expected: char) -> bool {
        let rest = self.0.strip_prefix(expected);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn expect(&mut self, expected: char) -> Result<(), &'a str> {
        if self.take(expected) {
            Ok(())
        } else {
            Err(self.0)
        }
    }

    /// Everything up to what stands for something.
    fn word(&mut self) -> &'a str {
        let end = self.0.find(|letter| " |<>()[]*+@!=".contains(letter));
        let (word, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        word
    }

    fn arguments(&mut self, between: char) -> Result<Vec<Argument<'a>>, &'a str> {
        let mut all = Vec::new();
        if self.0.is_empty() {
            return Ok(all);
        }
        loop {
            all.push(self.argument()?);
            if !self.take(between) {
                return Ok(all);
            }
        }
    }

    fn argument(&mut self) -> Result<Argument<'a>, &'a str> {
        let is_optional = self.take('[');
        let mut argument = self.item()?;
        argument.is_optional = is_optional;
        argument.is_multiple = self.take('*');
        argument.is_token_multiple = self.take('+');
        if self.take('@') {
            argument.since = self.word();
        }
        if self.take('!') {
            argument.deprecated_since = self.word();
        }
        if is_optional {
            self.expect(']')?;
        }
        Ok(argument)
    }

    fn item(&mut self) -> Result<Argument<'a>, &'a str> {
        let is_token = |text: &str| text.starts_with(|letter: char| letter.is_ascii_uppercase());
        let mut word = self.word();
        let mut argument = Argument::default();
        if is_token(word) {
            argument.token = word;
            let is_followed = self
                .0
                .strip_prefix(' ')
                .and_then(|rest| rest.chars().next());
            if !is_followed.is_some_and(|letter| letter.is_ascii_lowercase()) {
                argument.name = word.to_ascii_lowercase();
                argument.kind = "pure-token";
                return Ok(argument);
            }
            self.expect(' ')?;
            word = self.word();
        } else if self.take('=') {
            argument.name = word.into();
            argument.token = self.word();
            argument.kind = "pure-token";
            return Ok(argument);
        }
        let (name, kind) = match word.rsplit_once(':') {
            Some((name, kind)) => (name, kind),
            None if word == "key" => (word, "key"),
            None => (word, "string"),
        };
        if name.is_empty() {
            return Err(self.0);
        }
        argument.name = name.into();
        argument.kind = kind;
        if self.take('<') {
            argument.kind = "oneof";
            argument.arguments = self.arguments('|')?;
            self.expect('>')?;
        } else if self.take('(') {
            argument.kind = "block";
            argument.arguments = self.arguments(' ')?;
            self.expect(')')?;
        }
        Ok(argument)
    }
}

/// Replies with arguments. `specs` is how many key specifications the command has: each key has its own, or all have
/// the first.
pub(super) fn reply_all(arguments: &[Argument<'_>], specs: usize, reply: &mut Reply) {
    let mut keys = 0..specs.max(1);
    reply_each(arguments, &mut keys, reply);
}

fn reply_each(arguments: &[Argument<'_>], keys: &mut std::ops::Range<usize>, reply: &mut Reply) {
    reply.array(arguments.len());
    for argument in arguments {
        let texts = [
            ("token", argument.token),
            ("since", argument.since),
            ("deprecated_since", argument.deprecated_since),
        ];
        let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
        let flags = [
            ("optional", argument.is_optional),
            ("multiple", argument.is_multiple),
            ("multiple_token", argument.is_token_multiple),
        ];
        let flags: Vec<&str> = flags
            .iter()
            .filter(|flag| flag.1)
            .map(|flag| flag.0)
            .collect();
        let (is_key, has_parts) = (argument.kind == "key", !argument.arguments.is_empty());
        let more = [is_key, !flags.is_empty(), has_parts];
        reply.map(2 + texts.clone().count() + more.into_iter().filter(|more| *more).count());
        for (what, text) in [("name", &*argument.name), ("type", argument.kind)] {
            reply.bulk(what.as_bytes());
            reply.bulk(text.as_bytes());
        }
        if is_key {
            reply.bulk(b"key_spec_index");
            reply.integer(keys.next().unwrap_or(0) as i64);
        }
        for (what, text) in texts {
            reply.bulk(what.as_bytes());
            reply.bulk(text.as_bytes());
        }
        if !flags.is_empty() {
            reply.bulk(b"flags");
            reply.set(flags.len());
            flags.into_iter().for_each(|flag| reply.simple(flag));
        }
        if has_parts {
            reply.bulk(b"arguments");
            reply_each(&argument.arguments, keys, reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalog;
    use super::*;

    #[test]
    fn every_command_says_what_its_arguments_are() {
        for listed in catalog().iter() {
            let command = listed.command;
            let arguments = parse(command.arguments);
            let arguments = arguments.unwrap_or_else(|rest| panic!("{}: {rest}", listed.full_name));
            // A name, and a word of a container; what is not optional comes once.
            let words = 1 + usize::from(listed.nested);
            let required = arguments
                .iter()
                .filter(|argument| !argument.is_optional)
                .count();
            assert!(
                command.arity < 0 || required + words == command.arity as usize,
                "{} takes {} words",
                listed.full_name,
                command.arity
            );
            assert!(
                command.keys.first == 0 || command.arguments.contains("key"),
                "{}",
                listed.full_name
            );
        }
    }

    #[test]
    fn descriptions_are_read() {
        let text = "key [LIMIT offset_count(offset:integer count)@6.2.0] change=CH id<ID member*|ip:port:string!2.8>*+";
        let [key, limit, change, id] = &parse(text).unwrap()[..] else {
            panic!("four arguments")
        };
        assert_eq!((key.kind, &*key.name), ("key", "key"));
        assert!(limit.is_optional && limit.token == "LIMIT" && limit.since == "6.2.0");
        assert_eq!((limit.kind, limit.arguments[0].kind), ("block", "integer"));
        assert_eq!(
            (change.kind, &*change.name, change.token),
            ("pure-token", "change", "CH")
        );
        assert!(id.is_multiple && id.is_token_multiple && id.kind == "oneof");
        assert!(id.arguments[0].is_multiple && id.arguments[0].token == "ID");
        assert_eq!(
            (&*id.arguments[1].name, id.arguments[1].deprecated_since),
            ("ip:port", "2.8")
        );
        for wrong in ["key]", "[key", "a<b", "a(b|c)", ":integer", "a  b"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
