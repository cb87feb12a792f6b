//! The values of all settings.

use std::net::SocketAddr;
use std::path::PathBuf;

use tierra_memory::FarSource;
use tierra_memory::emulation::FarMemory;

use crate::keyspace::{Eviction, Settings};

/// A limit of the replies that wait for a client. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// More bytes than these end the connection at once.
    pub hard_bytes: u64,
    /// More bytes than these end it after some time.
    pub soft_bytes: u64,
    /// After how many seconds.
    pub soft_s: u64,
}

/// Such limits by class of client (`client-output-buffer-limit`), with Redis's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// Of all clients.
    pub normal: OutputLimit,
    /// Of monitors (MONITOR), where `normal` has no limit. There are no replicas.
    pub replica: OutputLimit,
    /// Kept and shown: there is nothing to subscribe to.
    pub pubsub: OutputLimit,
}

impl Default for OutputLimits {
    fn default() -> Self {
        let limit = |hard_bytes, soft_bytes| OutputLimit {
            hard_bytes,
            soft_bytes,
            soft_s: 60,
        };
        Self {
            normal: OutputLimit::default(),
            replica: limit(256 << 20, 64 << 20),
            pubsub: limit(32 << 20, 8 << 20),
        }
    }
}

/// Which clients may use DEBUG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugCommand {
    /// None.
    No,
    /// Clients on this machine.
    Local,
    /// Everyone.
    Yes,
}

/// All settings of the server; those of placement are the keyspace's.
#[derive(Clone, Debug)]
pub struct Config {
    /// The port; 0 for no TCP at all.
    pub port: u16,
    /// The addresses to listen on; one after `-` may be missing on this machine.
    pub bind: Vec<String>,
    /// A socket in the file system.
    pub unixsocket: Option<PathBuf>,
    /// Its permissions, where not what the process's mask makes them.
    pub unixsocketperm: Option<u32>,
    /// Where the program that runs the server is to tell its metrics over HTTP.
    pub http: Option<SocketAddr>,
    /// Refuses clients of other machines where no password is set.
    pub protected_mode: bool,
    /// The password; none where empty.
    pub requirepass: String,
    /// How many clients may be connected.
    pub maxclients: usize,
    /// Seconds after which a silent client is disconnected; 0 for never.
    pub timeout: u64,
    /// Seconds of silence after which the other side is asked for a sign of life; 0 for never.
    pub tcp_keepalive: i32,
    /// How many connections may wait to be accepted.
    pub tcp_backlog: i32,
    /// Bytes that records may take; 0 for as many as there are.
    pub maxmemory: u64,
    /// Which keys go where there are more.
    pub maxmemory_policy: Eviction,
    /// How many keys are looked at for each that goes.
    pub maxmemory_samples: usize,
    /// The longest argument in bytes.
    pub proto_max_bulk_len: i64,
    /// The most bytes of requests that may wait of one client.
    pub client_query_buffer_limit: usize,
    /// The most bytes of replies that may wait for one client.
    pub output_limits: OutputLimits,
    /// Microseconds from which on a command is noted as slow; negative for never.
    pub slowlog_log_slower_than: i64,
    /// How many of those are kept.
    pub slowlog_max_len: usize,
    /// How often in a second the server looks after things.
    pub hz: u64,
    /// Which clients may use DEBUG.
    pub enable_debug_command: DebugCommand,
    /// Far memory emulated over near, for the whole process.
    pub emulate: Option<FarMemory>,
    /// Bytes of far memory that records may hold; `None` for as many as there are.
    pub far_memory: Option<u64>,
    /// Where far memory comes from.
    pub far: FarSource,
    /// Whether hash tables are in near memory.
    pub hashtable_on_dram: bool,
    /// The file that settings were read from.
    pub file: Option<PathBuf>,
    /// Where records go, to begin with.
    pub placement: Settings,
    /// Names of settings that were given and mean nothing here.
    pub ignored: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            port: 6379,
            bind: vec!["127.0.0.1".into(), "-::1".into()],
            unixsocket: None,
            unixsocketperm: None,
            http: None,
            protected_mode: true,
            requirepass: String::new(),
            maxclients: 10_000,
            timeout: 0,
            tcp_keepalive: 300,
            tcp_backlog: 511,
            maxmemory: 0,
            maxmemory_policy: Eviction::None,
            maxmemory_samples: 5,
            proto_max_bulk_len: 512 << 20,
            client_query_buffer_limit: 1 << 30,
            output_limits: OutputLimits::default(),
            slowlog_log_slower_than: 10_000,
            slowlog_max_len: 128,
            hz: 10,
            enable_debug_command: DebugCommand::No,
            emulate: None,
            far_memory: None,
            far: FarSource::Near,
            hashtable_on_dram: true,
            file: None,
            placement: Settings::default(),
            ignored: Vec::new(),
        }
    }
}
