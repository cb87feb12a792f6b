//! The interface for C, as `include/tierra_buffers.h` declares it. A test compares both.
//!
//! Every function is a few lines: arguments are checked, and handles looked up, and the Rust interface does the work. No panic
//! leaves a call. This folder has the crate's only unsafe code: it believes pointers that are not NULL.

mod arguments;
mod handles;
mod status;

use std::ffi::{c_char, c_double, c_int, c_void};
use std::path::Path;
use std::sync::Arc;

use tierra_engine::{DatabaseOptions, ReadPattern};

use self::arguments::{array, check, places, put, slice, text};
use self::handles::{Object, get, give, take};
use self::status::{Result, call, fail};
use crate::buffer::Buffer;
use crate::reader::{Packing, Reader};
use crate::set::{Buffers, Near, Options};

pub use self::status::Status;

/// `tierra_buffers`: a handle of a set.
#[allow(non_camel_case_types, reason = "C's name")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct tierra_buffers {
    /// 0 is none.
    pub number: u64,
}

/// `tierra_buffer`: a handle of a buffer.
#[allow(non_camel_case_types, reason = "C's name")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct tierra_buffer {
    /// 0 is none.
    pub number: u64,
}

/// `tierra_reader`: a handle of a reader.
#[allow(non_camel_case_types, reason = "C's name")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct tierra_reader {
    /// 0 is none.
    pub number: u64,
}

/// `tierra_tier`: a tier besides the first.
#[allow(non_camel_case_types, reason = "C's name")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tierra_tier {
    /// Its name.
    pub name: *const c_char,
    /// The path of its pool.
    pub pool: *const c_char,
}

/// `tierra_options`: how a set is opened.
#[allow(non_camel_case_types, reason = "C's name")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tierra_options {
    /// Tiers besides `far`.
    pub tiers: *const tierra_tier,
    /// Their number.
    pub tiers_count: usize,
    /// Near memory for copies; 0: a quarter of the machine's.
    pub near_bytes: u64,
    /// The most bytes of a new pool of `far`; 0: as many as its file system has.
    pub far_bytes: u64,
}

/// `tierra_buffer_info`: a buffer's numbers.
#[allow(non_camel_case_types, reason = "C's name")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tierra_buffer_info {
    /// Values.
    pub count: u64,
    /// Of them, those that no replica has yet.
    pub staged: u64,
    /// Replicas.
    pub replicas: usize,
}

/// `tierra_replica_info`: what a tier has of a replica.
#[allow(non_camel_case_types, reason = "C's name")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tierra_replica_info {
    /// The tier's name.
    pub tier: [c_char; 65],
    /// What was asked for; empty: nothing.
    pub encoding: [c_char; 16],
    /// What is stored, with commas between.
    pub stored_as: [c_char; 128],
    /// 1: the tier is missing.
    pub is_missing: u8,
    /// Values that it has.
    pub values: u64,
    /// Bytes of these.
    pub stored_bytes: u64,
}

/// `tierra_reader_info`: a reader's numbers.
#[allow(non_camel_case_types, reason = "C's name")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tierra_reader_info {
    /// Values.
    pub count: u64,
    /// Blocks.
    pub blocks: u64,
    /// Sources.
    pub sources: usize,
}

/// `tierra_source`: what a reader reads some values from.
#[allow(non_camel_case_types, reason = "C's name")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tierra_source {
    /// The tier's name, or `near`.
    pub tier: [c_char; 65],
    /// The encoding.
    pub encoding: [c_char; 16],
    /// Values that are read so.
    pub values: u64,
}

/// `tierra_block`: how a block is packed.
#[allow(non_camel_case_types, reason = "C's name")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tierra_block {
    /// The position of its first value.
    pub position: u64,
    /// The code of its first value.
    pub first_code: u32,
    /// Values.
    pub count: u32,
    /// Bytes.
    pub bytes: usize,
    /// What is added to each code.
    pub base: i64,
    /// [`PACKED`], [`MINI_BLOCKS`] or [`CODED`].
    pub packing: u32,
    /// Bits of a code, if it is packed.
    pub width: u32,
    /// Codes of a mini-block, if there are any.
    pub mini_block: u32,
    /// The encoding; empty of staged values.
    pub encoding: [c_char; 16],
}

/// `TIERRA_NEAR_IF_ROOM`, `TIERRA_NEAR_FIRST`, `TIERRA_NEAR_NEVER`.
const NEAR: [Near; 3] = [Near::IfRoom, Near::First, Near::Never];
/// `TIERRA_SEQUENTIAL`
pub const SEQUENTIAL: c_int = 0;
/// `TIERRA_RANDOM`
pub const RANDOM: c_int = 1;
/// `TIERRA_SHARE`
pub const SHARE: c_int = 2;
/// `TIERRA_PACKED`
pub const PACKED: u32 = 0;
/// `TIERRA_MINI_BLOCKS`
pub const MINI_BLOCKS: u32 = 1;
/// `TIERRA_CODED`
pub const CODED: u32 = 2;

/// Opens a set of buffers.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tierra_buffers_open(
    directory: *const c_char,
    options: *const tierra_options,
    buffers: *mut tierra_buffers,
) -> c_int {
    call(|| {
        check("buffers", buffers)?;
        // SAFETY: as the caller promises, here and below.
        let directory = unsafe { text("directory", directory) }?;
        let mut how = Options::default();
        if !options.is_null() {
            // SAFETY: it is not NULL.
            let options = unsafe { slice("options", options, 1) }?[0];
            how.engine = DatabaseOptions {
                near_memory_bytes: (options.near_bytes > 0).then_some(options.near_bytes),
                capacity_bytes: (options.far_bytes > 0).then_some(options.far_bytes),
                ..DatabaseOptions::default()
            };
            // SAFETY: as the caller promises.
            let tiers = unsafe { slice("tiers", options.tiers, options.tiers_count) }?;
            for tier in tiers {
                // SAFETY: as the caller promises.
                let name = unsafe { text("a tier's name", tier.name) }?;
                // SAFETY: as the caller promises.
                let pool = unsafe { text("a tier's pool", tier.pool) }?;
                how.tiers.push((name.to_owned(), pool.into()));
            }
        }
        let opened = Buffers::open(Path::new(directory), &how)?;
        let number = give(Object::Set(opened));
        // SAFETY: as the caller promises.
        unsafe { put("buffers", buffers, tierra_buffers { number }) }
    })
}

/// Closes a set.
#[unsafe(no_mangle)]
pub extern "C" fn tierra_buffers_close(buffers: tierra_buffers) -> c_int {
    call(|| {
        take::<Buffers>(buffers.number)?.close();
        Ok(())
    })
}

/// Makes a buffer.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tierra_buffers_allocate(
    buffers: tierra_buffers,
    name: *const c_char,
    replicas: *const c_char,
    near: c_int,
    buffer: *mut tierra_buffer,
) -> c_int {
    call(|| {
        check("buffer", buffer)?;
        let set = get::<Buffers>(buffers.number)?;
        // SAFETY: as the caller promises.
        let name = unsafe { text("name", name) }?;
        let replicas = match replicas.is_null() {
            true => "",
            // SAFETY: as the caller promises.
            false => unsafe { text("replicas", replicas) }?,
        };
        let near = usize::try_from(near)
            .ok()
            .and_then(|near| NEAR.get(near).copied());
        let Some(near) = near else {
            return fail(
                Status::Invalid,
                "near is none of TIERRA_NEAR_IF_ROOM, TIERRA_NEAR_FIRST and TIERRA_NEAR_NEVER",
            );
        };
        let replicas: Vec<&str> = match replicas.trim().is_empty() {
            true => Vec::new(),
            false => replicas.split(',').map(str::trim).collect(),
        };
        let made = set.allocate(name, &replicas, near)?;
        let number = give(Object::Buffer(made));
        // SAFETY: as the caller promises.
        unsafe { put("buffer", buffer, tierra_buffer { number }) }
    })
}

/// Finds a buffer.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tierra_buffers_find(
    buffers: tierra_buffers,
    name: *const c_char,
    buffer: *mut tierra_buffer,
) -> c_int {
    call(|| {
        check("buffer", buffer)?;
        let set = get::<Buffers>(buffers.number)?;
        // SAFETY: as the caller promises.
        let found = set.buffer(unsafe { text("name", name) }?)?;
        let number = give(Object::Buffer(found));
        // SAFETY: as the caller promises.
        unsafe { put("buffer", buffer, tierra_buffer { number }) }
    })
}

/// Appends values.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tierra_buffer_append(
    buffer: tierra_buffer,
    values: *const i64,
    count: usize,
) -> c_int {
    call(|| {
        let buffer = get::<Buffer>(buffer.number)?;
        // SAFETY: as the caller promises.
        buffer.append(unsafe { slice("values", values, count) }?)?;
        Ok(())
    })
}

/// Encodes staged values.
#[unsafe(no_mangle)]
pub extern "C" fn tierra_buffer_pack(buffer: tierra_buffer) -> c_int {
    call(|| Ok(get::<Buffer>(buffer.number)?.pack()?))
}

/// Deletes a buffer.
#[unsafe(no_mangle)]
pub extern "C" fn tierra_buffer_delete(buffer: tierra_buffer) -> c_int {
    call(|| {
        get::<Buffer>(buffer.number)?.delete()?;
        take::<Buffer>(buffer.number).map(drop)
    })
}

/// Gives a handle back.
#[unsafe(no_mangle)]
pub extern "C" fn tierra_buffer_release(buffer: tierra_buffer) -> c_int {
    call(|| take::<Buffer>(buffer.number).map(drop))
}

/// Tells a buffer's numbers.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tierra_buffer_tell(
    buffer: tierra_buffer,
    info: *mut tierra_buffer_info,
    replicas: *mut tierra_replica_info,
    room: usize,
) -> c_int {
    call(|| {
        check("info", info)?;
        let told = get::<Buffer>(buffer.number)?.info()?;
        let all = told.replicas.iter().map(|replica| {
            let stored: Vec<&str> = replica.encodings.iter().map(|it| it.name()).collect();
            tierra_replica_info {
                tier: array(&replica.tier),
                encoding: array(replica.encoding.map_or("", |it| it.name())),
                stored_as: array(&stored.join(", ")),
                is_missing: replica.is_missing.into(),
                values: replica.rows,
                stored_bytes: replica.stored_bytes,
            }
        });
        // SAFETY: as the caller promises.
        unsafe { fill("replicas", replicas, room, all) }?;
        let numbers = tierra_buffer_info {
            count: told.count,
            staged: told.staged,
            replicas: told.replicas.len(),
        };
        // SAFETY: as the caller promises.
        unsafe { put("info", info, numbers) }
    })
}

/// Makes a reader.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tierra_buffer_read(
    buffer: tierra_buffer,
    pattern: c_int,
    share: c_double,
    reader: *mut tierra_reader,
) -> c_int {
    call(|| {
        check("reader", reader)?;
        let pattern = match pattern {
            SEQUENTIAL => ReadPattern::Sequential,
            RANDOM => ReadPattern::Random,
            SHARE if (0.0..=1.0).contains(&share) => ReadPattern::Share(share),
            SHARE => return fail(Status::Invalid, "share is not between 0 and 1"),
            _ => {
                return fail(
                    Status::Invalid,
                    "pattern is none of TIERRA_SEQUENTIAL, TIERRA_RANDOM and TIERRA_SHARE",
                );
            }
        };
        let made = get::<Buffer>(buffer.number)?.reader(pattern)?;
        let number = give(Object::Reader(Arc::new(made)));
        // SAFETY: as the caller promises.
        unsafe { put("reader", reader, tierra_reader { number }) }
    })
}

/// Tells a reader's numbers.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tierra_reader_tell(
    reader: tierra_reader,
    info: *mut tierra_reader_info,
    sources: *mut tierra_source,
    room: usize,
) -> c_int {
    call(|| {
        check("info", info)?;
        let reader = get::<Arc<Reader>>(reader.number)?;
        let told = reader.sources();
        let all = told.iter().map(|source| tierra_source {
            tier: array(source.tier.as_deref().unwrap_or("near")),
            encoding: array(source.encoding.name()),
            values: source.values,
        });
        // SAFETY: as the caller promises.
        unsafe { fill("sources", sources, room, all) }?;
        let numbers = tierra_reader_info {
            count: reader.len(),
            blocks: reader.blocks(),
            sources: told.len(),
        };
        // SAFETY: as the caller promises.
        unsafe { put("info", info, numbers) }
    })
}

/// The sum of a reader's values.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tierra_reader_sum(
    reader: tierra_reader,
    sum: *mut i64,
    high: *mut i64,
) -> c_int {
    call(|| {
        check("sum", sum)?;
        let all = get::<Arc<Reader>>(reader.number)?.sum()?;
        match high.is_null() {
            // SAFETY: as the caller promises.
            false => unsafe { put("high", high, (all >> 64) as i64) }?,
            true if i64::try_from(all).is_err() => {
                return fail(
                    Status::Room,
                    format!(
                        "the sum {all} does not fit into 64 bits: ask for its upper half as well"
                    ),
                );
            }
            true => {}
        }
        // SAFETY: as the caller promises.
        unsafe { put("sum", sum, all as i64) }
    })
}

/// Values that follow each other.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tierra_reader_values(
    reader: tierra_reader,
    first: u64,
    values: *mut i64,
    count: usize,
) -> c_int {
    call(|| {
        let reader = get::<Arc<Reader>>(reader.number)?;
        check_range(&reader, first, count)?;
        // SAFETY: as the caller promises.
        let values = unsafe { places("values", values, count, 0) }?;
        Ok(reader.read(first, values)?)
    })
}

/// Values at positions.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tierra_reader_at(
    reader: tierra_reader,
    positions: *const u64,
    values: *mut i64,
    count: usize,
) -> c_int {
    call(|| {
        let reader = get::<Arc<Reader>>(reader.number)?;
        // SAFETY: as the caller promises.
        let positions = unsafe { slice("positions", positions, count) }?;
        // SAFETY: as the caller promises.
        let values = unsafe { places("values", values, count, 0) }?;
        Ok(reader.look_up(positions, values)?)
    })
}

/// A block as it is stored.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tierra_reader_block(
    reader: tierra_reader,
    number: u64,
    block: *mut tierra_block,
    bytes: *mut c_void,
    room: usize,
) -> c_int {
    call(|| {
        check("block", block)?;
        let reader = get::<Arc<Reader>>(reader.number)?;
        // SAFETY: as the caller promises.
        let to = unsafe { places("bytes", bytes.cast::<u8>(), room, 0) }?;
        let told = reader.read_block(number, |stored| {
            let (packing, base, width, mini_block) = match stored.packing {
                Packing::Even { width, base } => (PACKED, base, width.into(), 0),
                Packing::MiniBlocks { codes, base } => (MINI_BLOCKS, base, 0, codes as u32),
                Packing::Coded => (CODED, 0, 0, 0),
            };
            if let Some(to) = to.get_mut(..stored.bytes.len()) {
                to.copy_from_slice(stored.bytes);
            }
            tierra_block {
                position: stored.position,
                first_code: stored.codes.start as u32,
                count: stored.codes.len() as u32,
                bytes: stored.bytes.len(),
                base,
                packing,
                width,
                mini_block,
                encoding: array(stored.encoding.map_or("", |it| it.name())),
            }
        })?;
        // SAFETY: as the caller promises.
        unsafe { put("block", block, told) }?;
        match told.bytes <= room {
            true => Ok(()),
            false => fail(
                Status::Room,
                format!(
                    "block {number} has {} bytes, and there is room for {room}: TIERRA_BLOCK_BYTES are always enough",
                    told.bytes
                ),
            ),
        }
    })
}

/// Closes a reader.
#[unsafe(no_mangle)]
pub extern "C" fn tierra_reader_close(reader: tierra_reader) -> c_int {
    call(|| take::<Arc<Reader>>(reader.number).map(drop))
}

/// Why this thread's last call that failed did.
#[unsafe(no_mangle)]
pub extern "C" fn tierra_message() -> *const c_char {
    status::message()
}

/// Fails before memory is touched for values that there are not.
fn check_range(reader: &Reader, first: u64, count: usize) -> Result<()> {
    match first.checked_add(count as u64) {
        Some(end) if end <= reader.len() => Ok(()),
        _ => fail(
            Status::Range,
            format!(
                "buffer {:?} has {} values for this reader: there are not {count} from position {first} on",
                reader.buffer().name(),
                reader.len()
            ),
        ),
    }
}

/// Puts as many as there is room for.
///
/// # Safety
/// `first` is NULL, or points to so many places.
unsafe fn fill<T>(
    what: &str,
    first: *mut T,
    room: usize,
    all: impl Iterator<Item = T>,
) -> Result<()> {
    if room == 0 {
        return Ok(());
    }
    check(what, first)?;
    for (at, one) in all.take(room).enumerate() {
        // SAFETY: there are more places than that, as the caller promises.
        unsafe { first.add(at).write(one) };
    }
    Ok(())
}
