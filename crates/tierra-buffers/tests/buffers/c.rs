//! Promise: a C program uses buffers by the header alone; what it does wrongly is an error that says so. The header says what the library does.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fs;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::thread;

use ::tierra_buffers::c::*;

use crate::values;

/// The example that `cargo run --example` runs.
#[path = "../../examples/buffers.rs"]
#[allow(dead_code, reason = "it has a main function")]
mod example;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn header() -> String {
    fs::read_to_string(root().join("include/tierra_buffers.h")).unwrap()
}

#[test]
fn the_rust_example_does_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    example::run(&dir.path().join("db")).unwrap();
}

/// The C compiler, unless there is none.
fn compiler() -> Option<Command> {
    let name = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(&name);
    match Command::new(&name).arg("--version").output() {
        Ok(_) => {
            command.args([
                "-std=c11",
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-O1",
            ]);
            command.arg("-I").arg(root().join("include"));
            Some(command)
        }
        Err(error) => {
            eprintln!("SKIPPED: there is no C compiler ({name}: {error}); set CC, or install one");
            None
        }
    }
}

/// Where this build put libtierra_buffers.so.
fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let mut folders = deps.ancestors().skip(1).take(2);
    let is_there = |folder: &&Path| folder.join("libtierra_buffers.so").exists();
    folders.find(is_there).unwrap().to_owned()
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

#[test]
fn the_c_example_does_what_it_says() {
    let Some(mut compiler) = compiler() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (program, library) = (dir.path().join("buffers"), library());
    compiler
        .arg(root().join("examples/buffers.c"))
        .arg("-o")
        .arg(&program);
    run(compiler.arg("-L").arg(&library).arg("-ltierra_buffers"));
    let mut program = Command::new(program);
    let told = run(program
        .env("LD_LIBRARY_PATH", &library)
        .arg(dir.path().join("db")));
    println!("{told}");
    let expected = [
        "100000 values, 1 staged",
        "far: static, 99999 values in ",
        "b: dynamic, 99999 values in ",
        "random: 100000 values in 99 blocks, read from far/static\n",
        "random: sum 104905000, by packed blocks 104905000\n",
        "random: at 99999, 0, 4711: 49, -50, -39\n",
        "sequential: 100000 values in 99 blocks, read from far/static\n",
        "sequential: sum 104905000, by packed blocks 104905000\n",
        "sequential: at 99999, 0, 4711: 49, -50, -39\n",
        "used after it was deleted: error 2: handle 2 is not a buffer: it was closed or deleted\n",
    ];
    for part in expected {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
}

/// A declaration's name and types, as C writes them.
type Declarations = BTreeMap<String, Vec<String>>;

fn without_comments(header: &str) -> String {
    let parts = header.split("/*").enumerate();
    let kept = parts.map(|(at, part)| match at {
        0 => part,
        _ => part.split_once("*/").unwrap().1,
    });
    kept.collect()
}

fn of_header() -> Declarations {
    let header = without_comments(&header());
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let functions = header.split(';').filter_map(|declaration| {
        let declaration = words(declaration);
        let (before, arguments) = declaration.split_once('(')?;
        let before = before.rsplit("{ ").next()?;
        let (_, name) = before.rsplit_once([' ', '*'])?;
        let result = before[..before.len() - name.len()].trim();
        let arguments = arguments.strip_suffix(')')?.split(", ");
        let types = arguments
            .filter(|argument| *argument != "void")
            .map(|argument| {
                // The name is the last word.
                let end = argument.rfind([' ', '*']).unwrap() + 1;
                argument[..end].trim().to_owned()
            });
        let types = std::iter::once(result.to_owned()).chain(types);
        Some((name.to_owned(), types.collect()))
    });
    functions.collect()
}

fn of_rust() -> Declarations {
    let source = fs::read_to_string(root().join("src/c/mod.rs")).unwrap();
    let c_type = |ty: &str| -> String {
        let base = |ty: &str| match ty {
            "c_char" => "char".to_owned(),
            "c_int" => "int".to_owned(),
            "c_double" => "double".to_owned(),
            "c_void" => "void".to_owned(),
            "i64" | "u64" | "u32" => match ty.as_bytes()[0] {
                b'i' => format!("int{}_t", &ty[1..]),
                _ => format!("uint{}_t", &ty[1..]),
            },
            "usize" => "size_t".to_owned(),
            own => own.to_owned(),
        };
        match (ty.strip_prefix("*const "), ty.strip_prefix("*mut ")) {
            (Some(to), _) => format!("const {} *", base(to)),
            (_, Some(to)) => format!("{} *", base(to)),
            _ => base(ty),
        }
    };
    let functions = source.split("extern \"C\" fn ").skip(1).map(|function| {
        let (name, rest) = function.split_once('(').unwrap();
        let (arguments, rest) = rest.split_once(") -> ").unwrap();
        let result = rest.split_once(" {").unwrap().0;
        let arguments = arguments.split(',').map(str::trim);
        let types = arguments.filter(|argument| !argument.is_empty());
        let types = types.map(|argument| c_type(argument.split_once(": ").unwrap().1));
        let types = std::iter::once(c_type(result)).chain(types);
        (name.to_owned(), types.collect())
    });
    functions.collect()
}

#[test]
fn the_header_declares_what_the_library_has() {
    let (header, rust) = (of_header(), of_rust());
    assert_eq!(rust.len(), 17, "{:?}", rust.keys());
    assert_eq!(header, rust);
}

/// Sizes, places and numbers are those of the library.
#[test]
fn the_header_has_the_layouts_of_the_library() {
    let Some(mut compiler) = compiler() else {
        return;
    };
    let mut source = "#include \"tierra_buffers.h\"\n".to_owned();
    let mut assert = |what: String| source += &format!("_Static_assert({what}, \"it differs\");\n");
    macro_rules! layout {
        ($($name:ident { $($field:ident),* })*) => {
            $(
                assert(format!("sizeof({}) == {}", stringify!($name), size_of::<$name>()));
                $(
                    let field = stringify!($field);
                    assert(format!("offsetof({}, {field}) == {}", stringify!($name), offset_of!($name, $field)));
                )*
            )*
        };
    }
    layout! {
        tierra_buffers { number }
        tierra_buffer { number }
        tierra_reader { number }
        tierra_tier { name, pool }
        tierra_options { tiers, tiers_count, near_bytes, far_bytes }
        tierra_buffer_info { count, staged, replicas }
        tierra_replica_info { tier, encoding, stored_as, is_missing, values, stored_bytes }
        tierra_reader_info { count, blocks, sources }
        tierra_source { tier, encoding, values }
        tierra_block { position, first_code, count, bytes, base, packing, width, mini_block, encoding }
    }
    let numbers = [
        ("SEQUENTIAL", SEQUENTIAL as i64),
        ("RANDOM", RANDOM.into()),
        ("SHARE", SHARE.into()),
        ("PACKED", PACKED.into()),
        ("MINI_BLOCKS", MINI_BLOCKS.into()),
        ("CODED", CODED.into()),
        ("NEAR_IF_ROOM", 0),
        ("NEAR_FIRST", 1),
        ("NEAR_NEVER", 2),
        ("BLOCK_VALUES", ::tierra_buffers::BLOCK_VALUES as i64),
    ];
    for (name, number) in numbers {
        assert(format!("TIERRA_{name} == {number}"));
    }
    for status in Status::ALL {
        let name: String = format!("{status:?}");
        let name = name.replace("NotFound", "NOT_FOUND").to_uppercase();
        assert(format!("TIERRA_{name} == {}", status as c_int));
    }
    // The check can fail.
    let wrong = "_Static_assert(TIERRA_FULL == 7, \"it differs\");\n";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("layout.c");
    fs::write(&file, &source).unwrap();
    run(compiler.arg("-fsyntax-only").arg(&file));
    fs::write(&file, source + wrong).unwrap();
    assert!(!compiler.output().unwrap().status.success());
}

fn text(text: &str) -> CString {
    CString::new(text).unwrap()
}

fn message() -> String {
    // SAFETY: it is a text of this thread's, which makes no other call meanwhile.
    unsafe { CStr::from_ptr(tierra_message()) }
        .to_str()
        .unwrap()
        .to_owned()
}

/// A status with its message.
fn fails(status: c_int, expected: Status, part: &str) {
    assert_eq!(status, expected as c_int, "{}", message());
    assert!(message().contains(part), "{part} is not in {}", message());
}

fn works(status: c_int) {
    assert_eq!(status, 0, "{}", message());
}

const NONE: tierra_buffers = tierra_buffers { number: 0 };

fn open(dir: &Path) -> tierra_buffers {
    let (db, name, pool) = (
        text(dir.join("db").to_str().unwrap()),
        text("b"),
        text(dir.join("b.pool").to_str().unwrap()),
    );
    let tier = tierra_tier {
        name: name.as_ptr(),
        pool: pool.as_ptr(),
    };
    let options = tierra_options {
        tiers: &tier,
        tiers_count: 1,
        near_bytes: 1 << 20,
        far_bytes: 0,
    };
    let mut set = NONE;
    // SAFETY: all of it lives.
    works(unsafe { tierra_buffers_open(db.as_ptr(), &options, &mut set) });
    set
}

fn allocate(set: tierra_buffers, name: &str, replicas: &str) -> (c_int, tierra_buffer) {
    let (name, replicas) = (text(name), text(replicas));
    let mut buffer = tierra_buffer { number: 0 };
    // SAFETY: all of it lives.
    let status =
        unsafe { tierra_buffers_allocate(set, name.as_ptr(), replicas.as_ptr(), 2, &mut buffer) };
    (status, buffer)
}

fn append(buffer: tierra_buffer, values: &[i64]) -> c_int {
    // SAFETY: they live.
    unsafe { tierra_buffer_append(buffer, values.as_ptr(), values.len()) }
}

fn read(buffer: tierra_buffer, pattern: c_int, share: f64) -> (c_int, tierra_reader) {
    let mut reader = tierra_reader { number: 0 };
    // SAFETY: it lives.
    let status = unsafe { tierra_buffer_read(buffer, pattern, share, &mut reader) };
    (status, reader)
}

#[test]
fn handles_that_are_none_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let set = open(dir.path());
    let (status, buffer) = allocate(set, "n", "far/static, b/dynamic");
    works(status);
    works(append(buffer, &values(0..70_000)));
    let (status, reader) = read(buffer, RANDOM, 0.0);
    works(status);
    // Of another kind.
    fails(
        tierra_reader_close(tierra_reader { number: set.number }),
        Status::Handle,
        "not a reader: it is of another kind",
    );
    fails(
        tierra_buffer_pack(tierra_buffer {
            number: reader.number,
        }),
        Status::Handle,
        "not a buffer",
    );
    fails(
        tierra_buffers_close(NONE),
        Status::Handle,
        "handle 0 is not a set of buffers: it was never opened",
    );
    // A second handle; the first is deleted.
    let name = text("n");
    let mut other = buffer;
    // SAFETY: they live.
    works(unsafe { tierra_buffers_find(set, name.as_ptr(), &mut other) });
    assert_ne!(other, buffer);
    works(tierra_buffer_delete(buffer));
    fails(
        append(buffer, &[1]),
        Status::Handle,
        "it was closed or deleted",
    );
    fails(
        tierra_buffer_delete(buffer),
        Status::Handle,
        "closed or deleted",
    );
    fails(
        tierra_buffer_release(buffer),
        Status::Handle,
        "closed or deleted",
    );
    fails(append(other, &[1]), Status::Deleted, "\"n\" was deleted");
    fails(tierra_buffer_delete(other), Status::Deleted, "was deleted");
    works(tierra_buffer_release(other));
    // SAFETY: it lives.
    let found = unsafe { tierra_buffers_find(set, name.as_ptr(), &mut other) };
    fails(found, Status::NotFound, "no buffer \"n\"");
    // Its reader goes on, even after the set is closed.
    works(tierra_buffers_close(set));
    fails(tierra_buffers_close(set), Status::Handle, "closed");
    let (mut sum, mut high) = (0, 0);
    // SAFETY: they live.
    works(unsafe { tierra_reader_sum(reader, &mut sum, &mut high) });
    assert_eq!((sum, high), (values(0..70_000).iter().sum(), 0));
    works(tierra_reader_close(reader));
    fails(tierra_reader_close(reader), Status::Handle, "closed");
    // All is closed: the directory can be opened again.
    works(tierra_buffers_close(open(dir.path())));
}

#[test]
fn arguments_that_cannot_be_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let set = open(dir.path());
    let name = text("n");
    let mut to = tierra_buffer { number: 0 };
    // SAFETY: what is not NULL lives, here and below.
    unsafe {
        let mut opened = NONE;
        fails(
            tierra_buffers_open(null(), null(), &mut opened),
            Status::Invalid,
            "directory is NULL",
        );
        fails(
            tierra_buffers_open(name.as_ptr(), null(), null_mut()),
            Status::Invalid,
            "buffers is NULL",
        );
        let tiers = tierra_options {
            tiers: null(),
            tiers_count: 1,
            near_bytes: 0,
            far_bytes: 0,
        };
        fails(
            tierra_buffers_open(name.as_ptr(), &tiers, &mut opened),
            Status::Invalid,
            "tiers is NULL",
        );
        let nowhere = text("/proc/no/such/place");
        fails(
            tierra_buffers_open(nowhere.as_ptr(), null(), &mut opened),
            Status::Storage,
            "/proc",
        );
        fails(
            tierra_buffers_allocate(set, null(), null(), 0, &mut to),
            Status::Invalid,
            "name is NULL",
        );
        fails(
            tierra_buffers_allocate(set, name.as_ptr(), null(), 0, null_mut()),
            Status::Invalid,
            "buffer is NULL",
        );
        for near in [3, -1] {
            fails(
                tierra_buffers_allocate(set, name.as_ptr(), null(), near, &mut to),
                Status::Invalid,
                "TIERRA_NEAR_NEVER",
            );
        }
        let latin = [0xe4_u8 as c_char, 0];
        fails(
            tierra_buffers_allocate(set, latin.as_ptr(), null(), 0, &mut to),
            Status::Invalid,
            "name is not UTF-8",
        );
    }
    fails(
        allocate(set, "n", "c/static").0,
        Status::NotFound,
        "no tier \"c\"",
    );
    fails(
        allocate(set, "n", "far/statick").0,
        Status::NotFound,
        "unknown encoding",
    );
    fails(allocate(set, "n", "far, far").0, Status::Invalid, "twice");
    fails(allocate(set, "", "far").0, Status::Invalid, "name");
    let (status, buffer) = allocate(set, "n", "");
    works(status);
    fails(allocate(set, "n", "").0, Status::Exists, "exists already");
    works(append(buffer, &[i64::MAX, 1, 2]));
    let (_, reader) = read(buffer, SEQUENTIAL, 0.0);
    fails(read(buffer, 3, 0.0).0, Status::Invalid, "TIERRA_SHARE");
    for share in [-0.1, 1.1, f64::NAN] {
        fails(
            read(buffer, SHARE, share).0,
            Status::Invalid,
            "between 0 and 1",
        );
    }
    // SAFETY: as above.
    unsafe {
        works(tierra_buffer_append(buffer, null(), 0));
        fails(
            tierra_buffer_append(buffer, null(), 1),
            Status::Invalid,
            "values is NULL",
        );
        let one = [0_i64; 2];
        let odd = one.as_ptr().byte_add(1);
        fails(
            tierra_buffer_append(buffer, odd, 1),
            Status::Invalid,
            "not aligned to 8 bytes",
        );
        fails(
            tierra_buffer_append(buffer, one.as_ptr(), usize::MAX),
            Status::Invalid,
            "no memory has",
        );
        fails(
            tierra_buffer_tell(buffer, null_mut(), null_mut(), 0),
            Status::Invalid,
            "info is NULL",
        );
        let (mut sum, mut high) = (0, 0);
        fails(
            tierra_reader_sum(reader, null_mut(), null_mut()),
            Status::Invalid,
            "sum is NULL",
        );
        fails(
            tierra_reader_sum(reader, &mut sum, null_mut()),
            Status::Room,
            "does not fit into 64 bits",
        );
        works(tierra_reader_sum(reader, &mut sum, &mut high));
        assert_eq!(
            i128::from(high) << 64 | i128::from(sum as u64),
            i128::from(i64::MAX) + 3
        );
        let mut got = [0; 4];
        works(tierra_reader_values(reader, 1, got.as_mut_ptr(), 2));
        assert_eq!(got, [1, 2, 0, 0]);
        works(tierra_reader_values(reader, 3, null_mut(), 0));
        for (first, count) in [(0, 4), (3, 1), (u64::MAX, 2), (0, usize::MAX)] {
            // Nothing is touched for what there is not.
            fails(
                tierra_reader_values(reader, first, got.as_mut_ptr(), count),
                Status::Range,
                "has 3 values",
            );
        }
        fails(
            tierra_reader_at(reader, [3].as_ptr(), got.as_mut_ptr(), 1),
            Status::Range,
            "position 3",
        );
        let mut block: tierra_block = std::mem::zeroed();
        fails(
            tierra_reader_block(reader, 1, &mut block, null_mut(), 0),
            Status::Range,
            "no block 1",
        );
        fails(
            tierra_reader_block(reader, 0, &mut block, null_mut(), 0),
            Status::Room,
            "TIERRA_BLOCK_BYTES",
        );
        assert_eq!(
            (block.bytes, block.count, block.packing, block.width),
            (24, 3, PACKED, 64)
        );
        let mut bytes = [0_i64; 4];
        works(tierra_reader_block(
            reader,
            0,
            &mut block,
            bytes.as_mut_ptr().cast(),
            32,
        ));
        assert_eq!(bytes, [i64::MAX, 1, 2, 0]);
    }
    works(tierra_buffers_close(set));
    fails(append(buffer, &[1]), Status::Storage, "closed");
}

/// `TIERRA_BLOCK_BYTES` are enough for any encoding of any values.
#[test]
fn every_block_has_room() {
    let dir = tempfile::tempdir().unwrap();
    let set = open(dir.path());
    let wild: Vec<i64> = (0..70_000_i64)
        .map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64))
        .collect();
    let mut most = 0;
    for encoding in [
        "plain",
        "static",
        "dynamic",
        "dynamic128",
        "for",
        "delta",
        "fastpfor",
        "rle",
        "lz4",
        "lz4-fast",
        "lz4-hc",
        "snappy",
        "dictionary",
    ] {
        let (status, buffer) = allocate(set, encoding, &format!("far/{encoding}"));
        works(status);
        works(append(buffer, &wild));
        let (_, reader) = read(buffer, SEQUENTIAL, 0.0);
        let mut bytes = vec![0_u8; 16384];
        // SAFETY: all of it lives.
        unsafe {
            let mut block: tierra_block = std::mem::zeroed();
            works(tierra_reader_block(
                reader,
                3,
                &mut block,
                bytes.as_mut_ptr().cast(),
                bytes.len(),
            ));
            most = most.max(block.bytes);
        }
        works(tierra_reader_close(reader));
    }
    assert!(header().contains("TIERRA_BLOCK_BYTES 16384"));
    assert!((8192..16384 - 16).contains(&most), "{most}");
}

#[test]
fn handles_are_used_and_closed_by_several_threads() {
    let dir = tempfile::tempdir().unwrap();
    let set = open(dir.path());
    let (_, buffer) = allocate(set, "n", "far/static, b/dynamic");
    works(append(buffer, &values(0..70_000)));
    let (_, shared) = read(buffer, RANDOM, 0.0);
    let expected = Arc::new(values(0..70_000));
    let threads = (0..4).map(|thread| {
        let expected = expected.clone();
        thread::spawn(move || {
            for round in 0..50_u64 {
                let position = (thread * 17_001 + round) % 70_000;
                let mut value = 0;
                // SAFETY: they live.
                let status = unsafe { tierra_reader_at(shared, &position, &mut value, 1) };
                // One of them closes it.
                match status == Status::Handle as c_int {
                    true => assert!(message().contains("closed"), "{}", message()),
                    false => {
                        works(status);
                        assert_eq!(value, expected[position as usize]);
                    }
                }
                if thread == 3 && round == 20 {
                    works(tierra_reader_close(shared));
                }
                // Messages are a thread's own.
                if round == 49 {
                    fails(
                        tierra_buffer_pack(tierra_buffer {
                            number: 1_000_000 + thread,
                        }),
                        Status::Handle,
                        &format!("handle {}", 1_000_000 + thread),
                    );
                    thread::yield_now();
                    assert!(message().contains(&(1_000_000 + thread).to_string()));
                }
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
    works(tierra_buffers_close(set));
}
