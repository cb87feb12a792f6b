//! GET and SET of numbered records with values of one length: requests as bytes, and what their replies must be.

pub(super) const VALUE_BYTES: usize = 1000;
const KEY_BYTES: usize = 16;
/// The header of a value in a reply.
const HEADER: &str = "$1000\r\n";
const DONE: &[u8] = b"+OK\r\n";

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Get,
    Set,
}

impl Command {
    pub(super) const ALL: [Command; 2] = [Command::Get, Command::Set];

    /// The name, as it is sent.
    pub(super) fn name(self) -> &'static str {
        match self {
            Command::Get => "GET",
            Command::Set => "SET",
        }
    }

    /// Adds a request for a record.
    pub(super) fn push(self, sent: &mut Vec<u8>, record: u64) {
        let key = key(record);
        let words = match self {
            Command::Get => 2,
            Command::Set => 3,
        };
        let name = self.name();
        sent.extend_from_slice(format!("*{words}\r\n$3\r\n{name}\r\n${KEY_BYTES}\r\n").as_bytes());
        sent.extend_from_slice(&key);
        sent.extend_from_slice(b"\r\n");
        if self == Command::Set {
            sent.extend_from_slice(HEADER.as_bytes());
            sent.extend_from_slice(&key[8..]);
            sent.resize(sent.len() + VALUE_BYTES - 8, b'v');
            sent.extend_from_slice(b"\r\n");
        }
    }

    /// Bytes of a reply.
    pub(super) fn reply_bytes(self) -> usize {
        match self {
            Command::Get => HEADER.len() + VALUE_BYTES + 2,
            Command::Set => DONE.len(),
        }
    }

    /// Whether these bytes, as many as a reply has, are the reply to a request for this record.
    pub(super) fn is_answered(self, reply: &[u8], record: u64) -> bool {
        match self {
            Command::Get => {
                reply.starts_with(HEADER.as_bytes())
                    && reply[HEADER.len()..].starts_with(&key(record)[8..])
            }
            Command::Set => reply == DONE,
        }
    }
}

/// The key of a record; a value begins with the key's second half.
fn key(record: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'k'; KEY_BYTES];
    let mut rest = record;
    for digit in key[8..].iter_mut().rev() {
        *digit = b'0' + (rest % 36) as u8;
        rest /= 36;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_to_another_request_is_wrong() {
        let mut set = Vec::new();
        Command::Set.push(&mut set, 5);
        // The value of a SET is what a GET is answered with.
        let value = &set[set.len() - Command::Get.reply_bytes()..];
        assert!(Command::Get.is_answered(value, 5));
        assert!(!Command::Get.is_answered(value, 6));
        let error = [b"-ERR".as_slice(), &value[4..]].concat();
        assert!(!Command::Get.is_answered(&error, 5));
        assert!(
            Command::Set.is_answered(b"+OK\r\n", 5) && !Command::Set.is_answered(b"+NO\r\n", 5)
        );
    }
}
