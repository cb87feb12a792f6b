//! Sockets, nodes and DAX devices as sysfs shows them.
//!
//! Invariant: what a kernel may leave out (NUMA, DAX, package numbers) is absent or one by default;
//! what it does say and cannot be read is an error, not a guess.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::dax::DaxDevice;
use super::error::TopologyError;
use super::node::{Node, NodeId, Socket, SocketId};

/// The packages that online CPUs belong to.
pub(super) fn sockets(root: &Path) -> Result<Vec<Socket>, TopologyError> {
    let cpus = root.join("sys/devices/system/cpu");
    let mut sockets: Vec<Socket> = Vec::new();
    for cpu in cpu_list(&cpus.join("online"))? {
        let package = cpus.join(format!("cpu{cpu}/topology/physical_package_id"));
        // Virtual machines may say nothing, or -1: one package then.
        let id = match read_optional(&package)? {
            Some(text) if text != "-1" => SocketId(parse(&package, &text, "a package number")?),
            _ => SocketId(0),
        };
        match sockets.iter_mut().find(|socket| socket.id == id) {
            Some(socket) => socket.cpus.push(cpu),
            None => sockets.push(Socket {
                id,
                cpus: vec![cpu],
            }),
        }
    }
    sockets.sort_by_key(|socket| socket.id);
    Ok(sockets)
}

/// The NUMA nodes; a kernel without NUMA has one, which is the whole machine.
pub(super) fn nodes(root: &Path, sockets: &[Socket]) -> Result<Vec<Node>, TopologyError> {
    let folder = root.join("sys/devices/system/node");
    let mut nodes = Vec::new();
    for (name, path) in entries(&folder)? {
        let Some(id) = name.strip_prefix("node").and_then(|id| id.parse().ok()) else {
            continue;
        };
        let cpus = cpu_list(&path.join("cpulist"))?;
        let distance_path = path.join("distance");
        let distance = read(&distance_path)?
            .split_whitespace()
            .map(|part| parse(&distance_path, part, "distances"))
            .collect::<Result<_, _>>()?;
        nodes.push(Node {
            id: NodeId(id),
            socket: socket_of(sockets, &cpus),
            cpus,
            bytes: total_bytes(&path.join("meminfo"))?,
            distance,
        });
    }
    if nodes.is_empty() {
        let cpus: Vec<u32> = sockets
            .iter()
            .flat_map(|socket| socket.cpus.clone())
            .collect();
        nodes.push(Node {
            id: NodeId(0),
            socket: socket_of(sockets, &cpus),
            cpus,
            bytes: total_bytes(&root.join("proc/meminfo"))?,
            distance: vec![10],
        });
    }
    nodes.sort_by_key(|node| node.id);
    Ok(nodes)
}

fn socket_of(sockets: &[Socket], cpus: &[u32]) -> Option<SocketId> {
    let first = cpus.first()?;
    sockets
        .iter()
        .find(|socket| socket.cpus.contains(first))
        .map(|socket| socket.id)
}

/// The devices on the DAX bus.
pub(super) fn dax_devices(root: &Path) -> Result<Vec<DaxDevice>, TopologyError> {
    let entries = entries(&root.join("sys/bus/dax/devices"))?;
    let devices = entries
        .into_iter()
        .map(|(name, path)| dax_device(name, &path));
    let mut devices = devices.collect::<Result<Vec<_>, _>>()?;
    devices.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(devices)
}

/// The DAX device of that number on the machine described below `root`; `None` where the number is another device's, or none's.
pub(crate) fn dax_device_of(root: &Path, number: u64) -> Result<Option<DaxDevice>, TopologyError> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let link = root.join(format!("sys/dev/char/{major}:{minor}"));
    let resolve = |path: PathBuf| match fs::canonicalize(&path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TopologyError::Read { path, source }),
    };
    let Some(path) = resolve(link)? else {
        return Ok(None);
    };
    // Older kernels have a class instead of a bus, of the same name.
    let bus = resolve(path.join("subsystem"))?;
    match (bus, path.file_name()) {
        (Some(bus), Some(name)) if bus.ends_with("dax") => {
            dax_device(name.to_string_lossy().into_owned(), &path).map(Some)
        }
        _ => Ok(None),
    }
}

/// What sysfs says of a DAX device (Linux, `Documentation/ABI/testing/sysfs-bus-dax`).
fn dax_device(name: String, path: &Path) -> Result<DaxDevice, TopologyError> {
    let size = path.join("size");
    // `target_node` is the node the memory would be; `numa_node` the one that the bus is at.
    let mut node = None;
    for file in ["target_node", "numa_node"] {
        let file = path.join(file);
        if let Some(text) = read_optional(&file)?
            && !text.starts_with('-')
            && node.is_none()
        {
            node = Some(NodeId(parse(&file, &text, "a node number")?));
        }
    }
    let align = path.join("align");
    // Persistent memory is on the bus of non-volatile memory: `../ndbus0/region0/dax0.0/dax0.0`.
    let on_bus = |folder: &Path| {
        let mut folders = folder.components();
        folders.any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"ndbus"))
    };
    Ok(DaxDevice {
        bytes: parse(&size, &read(&size)?, "bytes")?,
        align_bytes: read_optional(&align)?
            .map(|text| parse(&align, &text, "bytes"))
            .transpose()?,
        node,
        is_persistent: fs::canonicalize(path).is_ok_and(|path| on_bus(&path)),
        name,
    })
}

/// The node a block device's memory is at, where sysfs says.
pub(super) fn block_device_node(root: &Path, source: &str) -> Option<NodeId> {
    let name = Path::new(source).file_name()?;
    let folder = root.join("sys/class/block").join(name);
    // A partition has no device of its own; its disk, the folder above, has.
    ["device/numa_node", "../device/numa_node"]
        .iter()
        .find_map(|file| {
            let id = fs::read_to_string(folder.join(file))
                .ok()?
                .trim()
                .parse()
                .ok()?;
            Some(NodeId(id))
        })
}

/// `MemTotal` of a `meminfo`, in bytes. Nodes prefix each line with their name.
fn total_bytes(path: &Path) -> Result<u64, TopologyError> {
    let text = read(path)?;
    let total = text
        .lines()
        .find_map(|line| line.split_once("MemTotal:"))
        .map(|found| found.1);
    let kib = total.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.and_then(|kib| kib.checked_mul(1024))
        .ok_or_else(|| TopologyError::Malformed {
            path: path.to_owned(),
            found: total.unwrap_or_default().trim().to_owned(),
            expected: "a line `MemTotal: N kB`",
        })
}

/// A list such as `0-3,8,10-11`; empty for none.
fn cpu_list(path: &Path) -> Result<Vec<u32>, TopologyError> {
    /// More than any kernel is built for; keeps a malformed list from filling memory.
    const MAX_CPUS: u32 = 1 << 16;
    let text = read(path)?;
    let malformed = || TopologyError::Malformed {
        path: path.to_owned(),
        found: text.clone(),
        expected: "CPUs such as `0-3,8`",
    };
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.parse().map_err(|_| malformed())?;
        let last: u32 = last.parse().map_err(|_| malformed())?;
        if first > last || last >= MAX_CPUS {
            return Err(malformed());
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Name and path of what a folder holds; nothing if there is no such folder.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, TopologyError> {
    let failed = |source| TopologyError::Read {
        path: folder.to_owned(),
        source,
    };
    let found = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map_err(failed)?,
    };
    found
        .map(|entry| {
            let entry = entry.map_err(failed)?;
            Ok((
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
            ))
        })
        .collect()
}

/// A file's text, trimmed.
pub(super) fn read(path: &Path) -> Result<String, TopologyError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(TopologyError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

fn read_optional(path: &Path) -> Result<Option<String>, TopologyError> {
    match read(path) {
        Err(TopologyError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        result => result.map(Some),
    }
}

pub(super) fn parse<T: std::str::FromStr>(
    path: &Path,
    text: &str,
    expected: &'static str,
) -> Result<T, TopologyError> {
    text.parse().map_err(|_| TopologyError::Malformed {
        path: path.to_owned(),
        found: text.to_owned(),
        expected,
    })
}
