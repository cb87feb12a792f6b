//! Indirect prefixes: of each string the number of a prefix that it shares with others of its block, and the rest.
//!
//! ```text
//! prefixes  | how many: u8 | where each ends: u16 | "https://example.org/" "https://example.org/images/" ...
//! row 0     2 "logo.png"   a byte: the number of its prefix, 0 for none
//! row 1     1 "index"
//! row 2                    an empty string, or NULL: no bytes
//! ```
//!
//! The block is drawn in [`coded`]. A row costs its own bytes and its prefix, in whatever order strings are; filters decode.
//!
//! Prefixes are found in the tree that sorted strings make of what neighbours share: a node stands for all strings below it, and
//! saves each of them the bytes that it is longer than the node above it.

use crate::bytes::array;
use crate::encoding::coded::{self, CodedBlock, Texts};
use crate::encoding::encoded;
use crate::encoding::format::{BaseOf, BlockKind, Format, Nulls};
use crate::encoding::read_cost::ReadCost;
use crate::error::FormatError;
use crate::logical_type::Physical;

pub(crate) const FORMAT: Format = Format {
    name: "prefix",
    aliases: &["prefix-indirect"],
    blocks: |physical| (physical == Physical::Bytes).then_some(BlockKind::Prefix),
    nulls: Nulls::Bitmap,
    base_of: BaseOf::Chunk,
    uses_dictionary: false,
    handicap: 1.0,
    read_cost: ReadCost::of_lines(26.0, 242.0, 2.0),
    // Used where it is asked for: no string is read where it lies.
    estimate: |_, _| None,
    plan: |values| coded::plan(values, code),
    write: encoded::write,
};

/// Bytes of the number of prefixes.
pub(crate) const HEADER_BYTES: usize = 1;
/// Bytes of where a prefix ends.
const END_BYTES: usize = 2;
/// The most prefixes of a block: each has a number of a byte above 0.
const PREFIXES_MAX: usize = u8::MAX as usize;
/// The longest prefix: all of a block end within two bytes.
const PREFIX_BYTES_MAX: usize = u8::MAX as usize;

/// What neighbours in the sorted order share.
struct Node {
    len: usize,
    /// The strings that it stands for: some in a row of the sorted ones.
    first: usize,
    count: usize,
    /// Bytes that it saves them over the node above it.
    saved_bytes: usize,
}

/// The nodes of the tree of sorted strings.
fn nodes(sorted: &[&[u8]]) -> Vec<Node> {
    let mut nodes = Vec::new();
    // The nodes that the string is below of: their length and first string.
    let mut open: Vec<(usize, usize)> = Vec::new();
    for behind in 1..=sorted.len() {
        let shared = match sorted.get(behind) {
            Some(next) => shared_bytes(sorted[behind - 1], next),
            None => 0,
        };
        let mut first = behind - 1;
        while let Some((len, opened)) = open.pop_if(|(len, _)| *len > shared) {
            first = opened;
            let above = open.last().map_or(0, |(len, _)| *len).max(shared);
            let count = behind - first;
            nodes.push(Node {
                len,
                first,
                count,
                saved_bytes: count * (len - above),
            });
        }
        if open.last().is_none_or(|(len, _)| *len < shared) && shared > 0 {
            open.push((shared, first));
        }
    }
    nodes
}

/// How many bytes two strings begin with alike, as far as a prefix goes.
fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    let both = a.iter().zip(b).take(PREFIX_BYTES_MAX);
    both.take_while(|(a, b)| a == b).count()
}

fn code(texts: &Texts, out: &mut CodedBlock) -> bool {
    let texts: Vec<&[u8]> = texts.iter().collect();
    let mut rows: Vec<usize> = (0..texts.len()).collect();
    rows.sort_unstable_by_key(|&row| texts[row]);
    let sorted: Vec<&[u8]> = rows.iter().map(|&row| texts[row]).collect();
    let mut chosen = nodes(&sorted);
    // A prefix has to save more than it takes.
    chosen.retain(|node| node.saved_bytes > node.len + END_BYTES);
    chosen.sort_unstable_by_key(|node| (usize::MAX - node.saved_bytes, node.first, node.len));
    chosen.truncate(PREFIXES_MAX);
    // The longest prefix of a string is the last that is noted.
    chosen.sort_unstable_by_key(|node| (node.len, node.first));
    let mut prefixes = vec![(0, 0); texts.len()];
    out.symbols.push(chosen.len() as u8);
    let mut end = 0;
    for (node, number) in chosen.iter().zip(1..=u8::MAX) {
        for &row in &rows[node.first..node.first + node.count] {
            prefixes[row] = (number, node.len);
        }
        end += node.len;
        out.symbols.extend_from_slice(&(end as u16).to_le_bytes());
    }
    for node in &chosen {
        out.symbols
            .extend_from_slice(&sorted[node.first][..node.len]);
    }
    for (text, (number, len)) in texts.iter().zip(prefixes) {
        if !text.is_empty() {
            out.bytes.push(number);
            out.bytes.extend_from_slice(&text[len..]);
        }
        out.ends.push(out.bytes.len() as u64);
    }
    true
}

/// The prefixes of a block, as they are stored: all that tells where they are lies in the block.
#[derive(Clone, Copy)]
pub(crate) struct Prefixes<'a> {
    bytes: &'a [u8],
    count: usize,
}

fn corrupt(why: &str) -> FormatError {
    FormatError::corrupt("a block of strings with prefixes", why)
}

impl<'a> Prefixes<'a> {
    /// The prefixes that `bytes` begin with, and what follows them.
    pub(crate) fn split(bytes: &'a [u8]) -> Result<(Prefixes<'a>, &'a [u8]), FormatError> {
        let count = *bytes
            .first()
            .ok_or_else(|| corrupt("the number of its prefixes is missing"))?;
        let count = usize::from(count);
        let texts_at = HEADER_BYTES + count * END_BYTES;
        if bytes.len() < texts_at {
            return Err(corrupt("its prefixes lie outside it"));
        }
        let prefixes = Prefixes { bytes, count };
        let (bytes, rest) = bytes
            .split_at_checked(texts_at + prefixes.end(count))
            .ok_or_else(|| corrupt("its prefixes lie outside it"))?;
        Ok((Prefixes { bytes, count }, rest))
    }

    /// As they are stored.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Where prefix `number` ends; 0 for number 0.
    fn end(&self, number: usize) -> usize {
        match number.checked_sub(1) {
            None => 0,
            Some(before) => {
                let at = HEADER_BYTES + before * END_BYTES;
                usize::from(u16::from_le_bytes(array(self.bytes, at)))
            }
        }
    }

    /// Appends the string of these coded bytes.
    #[inline]
    pub(crate) fn decode(&self, coded: &[u8], text: &mut Vec<u8>) -> Result<(), FormatError> {
        let Some((&number, rest)) = coded.split_first() else {
            return Ok(());
        };
        let number = usize::from(number);
        if number > self.count {
            return Err(corrupt("a string has a prefix that is not there"));
        }
        if let Some(before) = number.checked_sub(1) {
            let texts = &self.bytes[HEADER_BYTES + self.count * END_BYTES..];
            let prefix = texts.get(self.end(before)..self.end(number));
            // One that is longer would make much of a short block.
            let prefix = prefix.filter(|prefix| prefix.len() <= PREFIX_BYTES_MAX);
            let outside = || corrupt("a prefix lies outside it, or is too long");
            text.extend_from_slice(prefix.ok_or_else(outside)?);
        }
        text.extend_from_slice(rest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sorted: &[&str]) -> Vec<(String, usize, usize)> {
        let sorted: Vec<&[u8]> = sorted.iter().map(|text| text.as_bytes()).collect();
        let node = |node: &Node| {
            let text = &sorted[node.first][..node.len];
            let text = String::from_utf8(text.to_vec()).unwrap();
            (text, node.count, node.saved_bytes)
        };
        nodes(&sorted).iter().map(node).collect()
    }

    #[test]
    fn nodes_are_what_neighbours_share() {
        let of = |text: &str, count, saved| (text.to_owned(), count, saved);
        assert_eq!(found(&[]), []);
        assert_eq!(found(&["alone"]), []);
        assert_eq!(found(&["", "", "b"]), []);
        assert_eq!(
            found(&["ab", "abc", "abcd", "abde", "b", "bx"]),
            [of("abc", 2, 2), of("ab", 4, 8), of("b", 2, 2),]
        );
        assert_eq!(found(&["same", "same", "same"]), [of("same", 3, 12)]);
    }
}
