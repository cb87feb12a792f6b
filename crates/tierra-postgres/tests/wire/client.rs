//! A client that writes and reads messages byte by byte, so that it can also write wrong ones.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};

/// A message of the server: its type and its body.
pub(crate) type Message = (u8, Vec<u8>);

/// A connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) process: i32,
    pub(crate) secret: i32,
}

/// A message of this type.
pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
    bytes.extend(body);
    bytes
}

/// The first message of a connection.
pub(crate) fn startup(settings: &[(&str, &str)]) -> Vec<u8> {
    let mut body = 196_608_u32.to_be_bytes().to_vec();
    for (name, value) in settings {
        body.extend(name.bytes().chain([0]).chain(value.bytes()).chain([0]));
    }
    body.push(0);
    let mut bytes = u32::try_from(body.len() + 4)
        .unwrap()
        .to_be_bytes()
        .to_vec();
    bytes.extend(body);
    bytes
}

/// Texts that end with a zero.
pub(crate) fn texts(texts: &[&str]) -> Vec<u8> {
    texts
        .iter()
        .flat_map(|text| text.bytes().chain([0]))
        .collect()
}

pub(crate) fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &texts(&[sql]))
}

pub(crate) fn parse(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    let mut body = texts(&[name, sql]);
    body.extend(u16::try_from(types.len()).unwrap().to_be_bytes());
    body.extend(types.iter().flat_map(|oid| oid.to_be_bytes()));
    message(b'P', &body)
}

/// Bind with arguments of one format, and rows of one format.
pub(crate) fn bind(
    portal: &str,
    statement: &str,
    format: i16,
    arguments: &[Option<&[u8]>],
    rows: &[i16],
) -> Vec<u8> {
    let mut body = texts(&[portal, statement]);
    body.extend(1_i16.to_be_bytes());
    body.extend(format.to_be_bytes());
    body.extend(u16::try_from(arguments.len()).unwrap().to_be_bytes());
    for argument in arguments {
        match argument {
            Some(bytes) => {
                body.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
                body.extend(*bytes);
            }
            None => body.extend((-1_i32).to_be_bytes()),
        }
    }
    body.extend(u16::try_from(rows.len()).unwrap().to_be_bytes());
    body.extend(rows.iter().flat_map(|format| format.to_be_bytes()));
    message(b'B', &body)
}

pub(crate) fn describe(kind: u8, name: &str) -> Vec<u8> {
    let mut body = vec![kind];
    body.extend(texts(&[name]));
    message(b'D', &body)
}

pub(crate) fn execute(portal: &str, most: i32) -> Vec<u8> {
    let mut body = texts(&[portal]);
    body.extend(most.to_be_bytes());
    message(b'E', &body)
}

pub(crate) fn sync() -> Vec<u8> {
    message(b'S', b"")
}

/// The field of an error or notice.
pub(crate) fn field(body: &[u8], kind: u8) -> String {
    let mut fields = body.split(|byte| *byte == 0);
    let found = fields.find(|field| field.first() == Some(&kind));
    String::from_utf8_lossy(&found.unwrap_or_default()[1..]).into_owned()
}

/// The values of a row.
pub(crate) fn values(body: &[u8]) -> Vec<Option<Vec<u8>>> {
    let (count, mut rest) = body.split_at(2);
    let count = i16::from_be_bytes(count.try_into().unwrap());
    let values = (0..count).map(|_| {
        let (len, tail) = rest.split_at(4);
        let len = i32::from_be_bytes(len.try_into().unwrap());
        rest = tail;
        let len = usize::try_from(len).ok()?;
        let (value, tail) = rest.split_at(len);
        rest = tail;
        Some(value.to_vec())
    });
    values.collect()
}

impl Client {
    /// A socket on which nothing was sent.
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(120)))
            .unwrap();
        Self {
            stream,
            process: 0,
            secret: 0,
        }
    }

    /// A client who is in, without a password.
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::connect_with(address, &[("user", "tester")])
    }

    pub(crate) fn connect_with(address: SocketAddr, settings: &[(&str, &str)]) -> Self {
        let mut client = Self::open(address);
        client.send(&startup(settings));
        client.enter();
        client
    }

    /// Reads up to the first ReadyForQuery.
    pub(crate) fn enter(&mut self) {
        for (kind, body) in self.until_ready() {
            assert_ne!(kind, b'E', "{}", field(&body, b'M'));
            if kind == b'K' {
                self.process = i32::from_be_bytes(body[..4].try_into().unwrap());
                self.secret = i32::from_be_bytes(body[4..].try_into().unwrap());
            }
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn read(&mut self) -> io::Result<Message> {
        let mut header = [0; 5];
        self.stream.read_exact(&mut header)?;
        let len = u32::from_be_bytes(header[1..].try_into().unwrap());
        let mut body = vec![0; len as usize - 4];
        self.stream.read_exact(&mut body)?;
        Ok((header[0], body))
    }

    /// The messages up to ReadyForQuery, which is the last.
    pub(crate) fn until_ready(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            messages.push(self.read().unwrap());
            if messages.last().unwrap().0 == b'Z' {
                return messages;
            }
        }
    }

    /// The messages up to ReadyForQuery, or until the server closes.
    pub(crate) fn until_ready_or_closed(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Ok(message) = self.read() {
            let is_ready = message.0 == b'Z';
            messages.push(message);
            if is_ready {
                break;
            }
        }
        messages
    }

    /// Everything until the server closes.
    pub(crate) fn until_closed(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Ok(message) = self.read() {
            messages.push(message);
        }
        messages
    }

    /// Whether the server has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0; 1]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// Runs a text; returns its messages.
    pub(crate) fn query(&mut self, sql: &str) -> Vec<Message> {
        self.send(&query(sql));
        self.until_ready()
    }

    /// Runs a text that must succeed; returns its rows as texts.
    pub(crate) fn rows(&mut self, sql: &str) -> Vec<Vec<String>> {
        rows_of(&self.query(sql))
    }

    /// Runs a text that must fail; returns the code.
    pub(crate) fn code(&mut self, sql: &str) -> String {
        let messages = self.query(sql);
        code_of(&messages).unwrap_or_else(|| panic!("{sql} did not fail"))
    }

    /// Sends messages, and Sync.
    pub(crate) fn run(&mut self, messages: &[Vec<u8>]) -> Vec<Message> {
        self.send(&messages.concat());
        self.send(&sync());
        self.until_ready()
    }
}

/// The types of messages.
pub(crate) fn kinds(messages: &[Message]) -> String {
    messages.iter().map(|(kind, _)| char::from(*kind)).collect()
}

/// The code of the first error.
pub(crate) fn code_of(messages: &[Message]) -> Option<String> {
    let error = messages.iter().find(|(kind, _)| *kind == b'E');
    error.map(|(_, body)| field(body, b'C'))
}

/// The tags of what was done.
pub(crate) fn tags(messages: &[Message]) -> Vec<String> {
    let done = messages.iter().filter(|(kind, _)| *kind == b'C');
    let tags = done.map(|(_, body)| String::from_utf8_lossy(&body[..body.len() - 1]).into_owned());
    tags.collect()
}

/// The letter of the transaction's state.
pub(crate) fn state(messages: &[Message]) -> char {
    char::from(messages.last().unwrap().1[0])
}

/// Rows as texts.
pub(crate) fn rows_of(messages: &[Message]) -> Vec<Vec<String>> {
    if let Some((_, body)) = messages.iter().find(|(kind, _)| *kind == b'E') {
        panic!("{}: {}", field(body, b'C'), field(body, b'M'));
    }
    let rows = messages.iter().filter(|(kind, _)| *kind == b'D');
    let text = |value: Option<Vec<u8>>| match value {
        Some(bytes) => String::from_utf8(bytes).unwrap(),
        None => "NULL".to_owned(),
    };
    rows.map(|(_, body)| values(body).into_iter().map(text).collect())
        .collect()
}

/// SCRAM as a client does it.
pub(crate) struct Scram {
    first: String,
    password: String,
}

impl Scram {
    pub(crate) fn new(password: &str) -> Self {
        Self {
            first: "n=,r=abcdefghijklmnop".to_owned(),
            password: password.to_owned(),
        }
    }

    /// The first message, with this flag for the binding.
    pub(crate) fn first(&self, method: &str, flag: &str) -> Vec<u8> {
        let text = format!("{flag},,{}", self.first);
        let mut body = texts(&[method]);
        body.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
        body.extend(text.bytes());
        message(b'p', &body)
    }

    /// The answer to the server's message. `binding` is what stands in for the channel.
    pub(crate) fn proof(&self, server: &str, binding: &[u8]) -> Vec<u8> {
        let part = |name: &str| {
            let found = server.split(',').find_map(|part| part.strip_prefix(name));
            found.unwrap().to_owned()
        };
        let (nonce, iterations) = (part("r="), part("i=").parse().unwrap());
        let salt = STANDARD.decode(part("s=")).unwrap();
        let mut salted = [0; 32];
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            iterations,
            &salt,
            self.password.as_bytes(),
            &mut salted,
        );
        let mac = |key: &[u8], text: &[u8]| {
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text)
                .as_ref()
                .to_vec()
        };
        let client_key = mac(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, &client_key);
        let without_proof = format!("c={},r={nonce}", STANDARD.encode(binding));
        let signed = format!("{},{server},{without_proof}", self.first);
        let signature = mac(stored_key.as_ref(), signed.as_bytes());
        let proof: Vec<u8> = client_key
            .iter()
            .zip(signature)
            .map(|(a, b)| a ^ b)
            .collect();
        message(
            b'p',
            format!("{without_proof},p={}", STANDARD.encode(proof)).as_bytes(),
        )
    }
}
