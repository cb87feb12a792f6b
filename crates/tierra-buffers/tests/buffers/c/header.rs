//! Promise: the header says what the library does.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fs;
use std::mem::{offset_of, size_of};

use ::tierra_buffers::c::*;

use super::calls::{allocate, append, open, read, works};
use super::{compiler, root, run};

fn header() -> String {
    fs::read_to_string(root().join("include/tierra_buffers.h")).unwrap()
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
