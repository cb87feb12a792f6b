//! Checks that arrows between source files go one way.
//!
//! A file has an arrow to another that it names: in a `use`, or in a path that begins with `crate`, `super` or `self`. A name that a
//! file only hands on, by `pub use`, counts for the file that defines it. Test modules are not looked at. It fails where more than three files
//! of a crate name each other in a circle, and where a layer names one that stands above it.
//!
//! `layers` checks all crates, `layers CRATE..` those; `-v` prints every circle, with the names that tie it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

/// Files that may form a circle.
const CIRCLE_MOST: usize = 3;

/// The layers of crates, the lowest first. A layer is a folder or a file of the crate's root; what is not named stands above all.
const LAYERS: &[(&str, &[&[&str]])] = &[
    (
        "tierra-catalog",
        &[
            &["error", "types"],
            &["value", "contents", "pattern"],
            &["names"],
            &["cast"],
            &["session"],
            &["functions", "plan", "expression"],
            &["tables"],
            &["lookup"],
            &["group", "join"],
            &["run"],
            &["bind"],
            &["reads"],
        ],
    ),
    (
        "tierra-column",
        &[
            &["", "bits", "bytes", "view", "logical_type", "ordinal"],
            &["limits", "value", "block", "error", "sketch"],
            &["filter", "encoding"],
            &["dictionary", "cell"],
            &["chunk"],
            &["reader", "postings"],
        ],
    ),
    (
        "tierra-engine",
        &[
            &["", "calibration", "cells", "slice_bytes"],
            &["spec"],
            &["manifest"],
            &["error"],
            &["storage"],
            &["integrity", "deleted"],
            &["segment", "dictionaries", "tail"],
            &["index"],
            &["table"],
            &["read"],
            &["tiering"],
            &["write"],
            &["scrub"],
            &["database"],
            &["calibrate", "salvage", "backup"],
        ],
    ),
    (
        "tierra-kv",
        &[
            &["", "size", "random", "number"],
            &["protocol"],
            &["keyspace"],
            &["dump", "config"],
            &["catalog"],
            &["clients"],
            &["context"],
            &["command"],
            &["server"],
        ],
    ),
    (
        "tierra-memory",
        &[
            &[
                "",
                "backing",
                "budget",
                "durability",
                "free_space",
                "lock",
                "page",
                "random",
                "size",
                "trouble",
            ],
            &["arch", "signal", "smaps", "topology"],
            &["address", "checksum", "emulation", "numa"],
            &["gate", "helper", "persist", "placement", "prefetch", "region", "unused"],
            &["far", "near", "recording"],
            &["directory", "slab"],
            &["machine", "pool"],
            &["faults", "measure", "replication", "simulation"],
        ],
    ),
];

/// A module: `a::b`, the crate's root is empty.
type Module = String;

/// A crate's files and the names between them.
#[derive(Default)]
struct House {
    /// The names that each module takes from others.
    uses: BTreeMap<Module, Vec<String>>,
    /// What a module's `use` brings into it, by name.
    known: BTreeMap<(Module, String), String>,
    /// From a module to a module: the names that tie them.
    arrows: BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>,
}

fn join(module: &str, rest: &str) -> String {
    match (module.is_empty(), rest.is_empty()) {
        (true, _) => rest.to_owned(),
        (_, true) => module.to_owned(),
        _ => format!("{module}::{rest}"),
    }
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

/// A file's source without comments, texts and test modules.
fn code_of(source: &str) -> String {
    let mut code = String::new();
    let mut skipped: Option<usize> = None;
    let mut is_test = false;
    for line in source.lines() {
        let bare = line.trim_start();
        if let Some(indent) = skipped {
            // The module ends where its brace stands.
            if line.len() - bare.len() == indent && bare.starts_with('}') {
                skipped = None;
            }
            continue;
        }
        if bare.starts_with("#[cfg(test)]") {
            is_test = true;
            continue;
        }
        if is_test && !bare.starts_with("#[") {
            is_test = false;
            if bare.ends_with('{') {
                skipped = Some(line.len() - bare.len());
            }
            continue;
        }
        let bare = bare.split("//").next().unwrap_or_default();
        // Texts hold no paths that matter, but may hold braces.
        for (index, piece) in bare.split('"').enumerate() {
            if index % 2 == 0 {
                code.push_str(piece);
            }
        }
        code.push('\n');
    }
    code
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether what stands before a `use` makes it a public one.
fn is_public(before: &str) -> bool {
    let before = before.trim_end();
    let before = match before.ends_with(')') {
        true => before.rfind('(').map_or(before, |open| &before[..open]),
        false => before,
    };
    before.ends_with("pub")
}

/// The paths of a `use` tree: `a::{b, c::{d as e}}`, each with the name that it has here.
fn expand(tree: &str, prefix: &str, paths: &mut Vec<(String, String)>) {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let (path, name) = match tree.split_once(" as ") {
            Some((path, name)) => (path.trim(), Some(name.trim())),
            None => (tree, None),
        };
        if path.is_empty() {
            return;
        }
        let path = format!("{prefix}{path}");
        let path = path.strip_suffix("::self").unwrap_or(&path).to_owned();
        let last = path.rsplit("::").next().unwrap_or_default().to_owned();
        paths.push((path, name.map_or(last, str::to_owned)));
        return;
    };
    let prefix = format!("{prefix}{}", &tree[..open]);
    let close = tree.rfind('}').unwrap_or(tree.len());
    let (mut depth, mut start) = (0, open + 1);
    for (at, byte) in tree.bytes().enumerate().take(close + 1).skip(open + 1) {
        match byte {
            b'{' => depth += 1,
            b',' if depth == 0 => {
                expand(&tree[start..at], &prefix, paths);
                start = at + 1;
            }
            b'}' if at == close => expand(&tree[start..at], &prefix, paths),
            b'}' => depth -= 1,
            _ => {}
        }
    }
}

impl House {
    /// Files, each with its module and source.
    fn of(files: &[(Module, String)]) -> House {
        let mut house = House::default();
        for (module, _) in files {
            house.uses.insert(module.clone(), Vec::new());
        }
        for (module, source) in files {
            house.read(module, &code_of(source));
        }
        house.draw();
        house
    }

    fn read(&mut self, module: &str, code: &str) {
        let (mut named, mut handed_on) = (Vec::new(), Vec::new());
        let mut rest = String::new();
        for statement in code.split_inclusive(';') {
            let start = statement
                .rmatch_indices("use ")
                .map(|(at, _)| at)
                .find(|at| {
                    let before = statement[..*at].trim_end();
                    let begins = |c: char| c == '}' || c == ']' || c == '{' || c == ')';
                    before.is_empty() || before.ends_with(begins) || before.ends_with("pub")
                });
            match start {
                Some(at) => {
                    rest.push_str(&statement[..at]);
                    let tree = statement[at + 4..].trim_end_matches(';').replace('\n', " ");
                    let is_handed_on = is_public(&statement[..at]);
                    let mut paths = Vec::new();
                    expand(&tree, "", &mut paths);
                    for (path, name) in paths {
                        if let Some(path) = self.absolute(&path, module) {
                            self.known
                                .insert((module.to_owned(), name.clone()), path.clone());
                            match is_handed_on {
                                true => handed_on.push((path, name)),
                                // Of a module that is brought in what is named counts.
                                false if self.uses.contains_key(&path) => {}
                                false => named.push(path),
                            }
                        }
                    }
                }
                None => rest.push_str(statement),
            }
        }
        let all = rest
            .split(|c: char| !is_word(c))
            .filter(|word| !word.is_empty());
        // A module that is declared is not used by that.
        let words: BTreeSet<_> = all
            .scan("", |before, word| {
                Some((std::mem::replace(before, word), word))
            })
            .filter_map(|(before, word)| (before != "mod").then_some(word))
            .collect();
        let is_used = |(path, name): (String, String)| words.contains(&*name).then_some(path);
        named.extend(handed_on.into_iter().filter_map(is_used));
        // Paths without a `use`: those of the crate's, and those of a module of this one.
        for (at, _) in rest.match_indices("::") {
            let start = rest[..at]
                .rfind(|c: char| !is_word(c))
                .map_or(0, |before| before + 1);
            // `pub(in crate::a)` names who may see, not what is seen.
            if rest[..start].ends_with("::") || rest[..start].ends_with("(in ") {
                continue;
            }
            let is_part = |c: char| is_word(c) || c == ':';
            let end = rest[start..]
                .find(|c| !is_part(c))
                .map_or(rest.len(), |end| start + end);
            let path = rest[start..end].trim_end_matches(':');
            named.extend(self.absolute(path, module));
        }
        self.uses.insert(module.to_owned(), named);
    }

    /// A path from the crate's root; none of another crate.
    fn absolute(&self, path: &str, module: &str) -> Option<String> {
        let (first, rest) = path.split_once("::").unwrap_or((path, ""));
        match first {
            "crate" => Some(rest.to_owned()),
            "self" => Some(join(module, rest)),
            "super" => {
                let (mut module, mut rest) = (parent(module), rest);
                while let Some(more) = rest.strip_prefix("super::") {
                    (module, rest) = (parent(module), more);
                }
                Some(join(module, rest))
            }
            _ if self.uses.contains_key(&join(module, first)) => Some(join(module, path)),
            _ => {
                let known = self.known.get(&(module.to_owned(), first.to_owned()))?;
                self.uses.contains_key(known).then(|| join(known, rest))
            }
        }
    }

    /// The module that defines what a path names, and the name.
    fn target(&self, path: &str, depth: usize) -> (Module, String) {
        let mut module = path;
        while !module.is_empty() && !self.uses.contains_key(module) {
            module = parent(module);
        }
        let rest = path[module.len()..].trim_start_matches("::");
        let (name, more) = rest.split_once("::").unwrap_or((rest, ""));
        let known = self.known.get(&(module.to_owned(), name.to_owned()));
        match known.filter(|known| *known != path && depth < 8) {
            Some(known) => self.target(&join(known, more), depth + 1),
            None => (module.to_owned(), name.to_owned()),
        }
    }

    fn draw(&mut self) {
        for (module, paths) in &self.uses {
            for path in paths {
                let (target, name) = self.target(path, 0);
                // A whole module that is brought in, or a glob of it.
                if target != *module && self.uses.contains_key(&target) {
                    let arrows = self.arrows.entry(module.clone()).or_default();
                    arrows.entry(target).or_default().insert(name);
                }
            }
        }
    }

    /// Files that name each other in a circle, largest circles first.
    fn circles(&self) -> Vec<Vec<Module>> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> = self
            .uses
            .keys()
            .map(|from| (from, self.reached(from)))
            .collect();
        let mut seen = BTreeSet::new();
        let mut circles = Vec::new();
        for from in self.uses.keys() {
            if seen.contains(from) {
                continue;
            }
            let both = |to: &&&Module| reached[**to].contains(from);
            let circle: Vec<Module> = reached[from]
                .iter()
                .filter(both)
                .map(|one| (*one).clone())
                .collect();
            if circle.len() > 1 {
                seen.extend(circle.iter().cloned());
                circles.push(circle);
            }
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    /// All modules that can be reached from one by arrows.
    fn reached(&self, from: &Module) -> BTreeSet<&Module> {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(one) = next.pop() {
            for to in self.arrows.get(one).into_iter().flat_map(BTreeMap::keys) {
                if reached.insert(to) {
                    next.push(to);
                }
            }
        }
        reached
    }

    /// Arrows from a layer to one above it.
    fn upward(&self, layers: &[&[&str]]) -> Vec<String> {
        let level = |module: &str| {
            let first = module.split("::").next().unwrap_or_default();
            let found = layers.iter().position(|layer| layer.contains(&first));
            found.unwrap_or(layers.len())
        };
        let mut wrong = Vec::new();
        for (from, targets) in &self.arrows {
            for (to, names) in targets {
                if level(to) > level(from) {
                    wrong.push(format!("{from} -> {to}: {}", list(names)));
                }
            }
        }
        wrong
    }

    fn print(&self, circle: &[Module]) {
        println!("  circle of {} files: {}", circle.len(), circle.join(", "));
        for from in circle {
            for (to, names) in self.arrows.get(from).into_iter().flatten() {
                if circle.contains(to) {
                    println!("    {from} -> {to}: {}", list(names));
                }
            }
        }
    }
}

fn list(names: &BTreeSet<String>) -> String {
    names.iter().cloned().collect::<Vec<_>>().join(", ")
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && name != "tests" && name != "bin" {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "rs")
            && name != "tests"
            && !name.ends_with("_tests")
        {
            files.push(path);
        }
    }
    Ok(())
}

fn module_of(path: &Path, src: &Path) -> Module {
    let path = path.strip_prefix(src).unwrap_or(path).with_extension("");
    let mut parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    if parts
        .last()
        .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_ref()))
    {
        parts.pop();
    }
    parts.join("::")
}

fn house(src: &Path) -> std::io::Result<House> {
    let mut paths = Vec::new();
    sources(src, &mut paths)?;
    let read = |path: &PathBuf| Ok((module_of(path, src), fs::read_to_string(path)?));
    let files: std::io::Result<Vec<_>> = paths.iter().map(read).collect();
    Ok(House::of(&files?))
}

fn main() -> ExitCode {
    let (told, asked): (Vec<_>, Vec<_>) =
        env::args().skip(1).partition(|argument| argument == "-v");
    let mut crates: Vec<_> = match fs::read_dir("crates") {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) => {
            eprintln!("crates cannot be read: {error}");
            return ExitCode::FAILURE;
        }
    };
    crates.sort();
    let mut is_right = true;
    for folder in crates {
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !asked.is_empty() && !asked.contains(&name) {
            continue;
        }
        let house = match house(&folder.join("src")) {
            Ok(house) => house,
            Err(error) => {
                eprintln!("{name} cannot be read: {error}");
                return ExitCode::FAILURE;
            }
        };
        let circles = house.circles();
        let layers = LAYERS.iter().find(|(of, _)| *of == name);
        let upward = layers
            .map(|(_, layers)| house.upward(layers))
            .unwrap_or_default();
        let largest = circles.first().map_or(0, Vec::len);
        println!(
            "{name}: {} files, the largest circle has {largest}",
            house.uses.len()
        );
        for circle in circles
            .iter()
            .filter(|circle| !told.is_empty() || circle.len() > CIRCLE_MOST)
        {
            house.print(circle);
        }
        for arrow in &upward {
            println!("  up: {arrow}");
        }
        is_right &= largest <= CIRCLE_MOST && upward.is_empty();
    }
    match is_right {
        true => ExitCode::SUCCESS,
        false => {
            eprintln!("A file names one that stands above it. Move what both need below both.");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn house_of(files: &[(&str, &str)]) -> House {
        let files = files
            .iter()
            .map(|(module, source)| (module.to_string(), source.to_string()));
        House::of(&files.collect::<Vec<_>>())
    }

    #[test]
    fn circles_are_found_through_names_that_are_handed_on() {
        let house = house_of(&[
            ("", "mod a;\nmod b;\npub use b::{c::{C as D}, E};\n"),
            ("a", "use crate::D;\npub struct A;\n"),
            (
                "b",
                "pub mod c;\npub(crate) use self::c::C;\npub struct E;\n",
            ),
            (
                "b::c",
                "mod d;\nfn f() { let _ = super::super::a::A; d::e() }\n",
            ),
            ("b::c::d", "pub(super) fn e() {}\n"),
        ]);
        assert_eq!(house.circles(), [["a", "b::c"]]);
        assert!(!house.arrows.contains_key("b"));
        assert_eq!(
            house.arrows["b::c"].keys().collect::<Vec<_>>(),
            ["a", "b::c::d"]
        );
        assert_eq!(house.upward(&[&["b"], &["a"]]), ["b::c -> a: A"]);
        assert!(
            house
                .upward(&[&["a"], &["b"]])
                .iter()
                .all(|arrow| arrow == "a -> b::c: C")
        );
    }

    #[test]
    fn tests_comments_and_texts_tie_nothing() {
        let house = house_of(&[
            (
                "a",
                "// crate::b::B\nconst T: &str = \"crate::b::B\";\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n",
            ),
            (
                "b",
                "pub struct B;\nuse crate::a::T;\n#[cfg(test)]\nuse crate::c::C;\n",
            ),
            ("c", "use crate::b::B;\n"),
        ]);
        assert_eq!(house.circles(), Vec::<Vec<String>>::new());
        assert_eq!(house.arrows["b"].keys().collect::<Vec<_>>(), ["a"]);
    }
}
