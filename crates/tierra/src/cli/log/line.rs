//! One event as a line: its message, then its fields.

use std::fmt::{Debug, Write};

use tracing::Level;
use tracing::field::{Field, Visit};

/// The contents of an event.
#[derive(Debug, Default)]
pub(super) struct Line {
    message: String,
    fields: Vec<(&'static str, Value)>,
}

#[derive(Debug)]
enum Value {
    Text(String),
    /// A number or a boolean, in JSON's form.
    Plain(String),
}

impl Line {
    /// For people.
    pub(super) fn text(&self, level: Level) -> String {
        let mut line = match level {
            Level::ERROR => "error: ".to_owned(),
            Level::WARN => "warning: ".to_owned(),
            other => format!("{}: ", other.as_str().to_lowercase()),
        };
        push_escaped(&mut line, &self.message);
        for (at, (name, value)) in self.fields.iter().enumerate() {
            line.push_str(if at == 0 { "; " } else { " " });
            line.push_str(name);
            line.push('=');
            match value {
                Value::Plain(text) => line.push_str(text),
                Value::Text(text) if text.contains([' ', '"', '=']) || text.is_empty() => {
                    line.push('"');
                    push_escaped(&mut line, &text.replace('"', "\\\""));
                    line.push('"');
                }
                Value::Text(text) => push_escaped(&mut line, text),
            }
        }
        line.push('\n');
        line
    }

    /// For programs.
    pub(super) fn json(&self, level: Level, target: &str, unix_ms: u128) -> String {
        let mut line = format!("{{\"unix_ms\":{unix_ms}");
        let level = level.as_str().to_lowercase();
        let head = [
            ("level", &*level),
            ("target", target),
            ("message", &self.message),
        ];
        for (name, text) in head {
            push_name(&mut line, name);
            push_json(&mut line, text);
        }
        for (name, value) in &self.fields {
            push_name(&mut line, name);
            match value {
                Value::Plain(text) => line.push_str(text),
                Value::Text(text) => push_json(&mut line, text),
            }
        }
        line.push_str("}\n");
        line
    }

    fn push(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::Text(text) | Value::Plain(text)) => self.message = text,
            (name, value) => self.fields.push((name, value)),
        }
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.push(field, Value::Text(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, Value::Text(value.to_owned()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, Value::Plain(value.to_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, Value::Plain(value.to_string()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, Value::Plain(value.to_string()));
    }
}

/// Appends text with every terminal control escaped.
fn push_escaped(line: &mut String, text: &str) {
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
}

fn push_name(line: &mut String, name: &str) {
    line.push(',');
    push_json(line, name);
    line.push(':');
}

fn push_json(line: &mut String, text: &str) {
    line.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => line.extend(['\\', c]),
            c if c.is_control() => {
                // Control characters fit four hexadecimal digits.
                let written = write!(line, "\\u{:04x}", u32::from(c));
                debug_assert!(written.is_ok(), "a string takes everything");
            }
            c => line.push(c),
        }
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        let text = |text: &str| Value::Text(text.to_owned());
        Line {
            message: "a copy\nis \u{1b}[31mdamaged".to_owned(),
            fields: vec![
                ("tier", text("far")),
                ("path", text("/a b/\"c\"\u{9b}")),
                ("extent", Value::Plain("7".to_owned())),
                ("why", text("")),
            ],
        }
    }

    #[test]
    fn a_line_is_one_line_and_nothing_for_the_terminal() {
        assert_eq!(
            line().text(Level::WARN),
            "warning: a copy\\nis \\u{1b}[31mdamaged; tier=far path=\"/a b/\\\"c\\\"\\u{9b}\" extent=7 why=\"\"\n"
        );
        assert!(line().text(Level::DEBUG).starts_with("debug: a copy"));
    }

    #[test]
    fn json_says_the_same() {
        let json: serde_json::Value =
            serde_json::from_str(&line().json(Level::ERROR, "tierra_engine::open", 12)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "unix_ms": 12,
                "level": "error",
                "target": "tierra_engine::open",
                "message": line().message,
                "tier": "far",
                "path": "/a b/\"c\"\u{9b}",
                "extent": 7,
                "why": "",
            })
        );
    }
}
