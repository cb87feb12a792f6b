//! Building hashes and sorted sets from a sequence of untrusted parts, atomically: all of them become the value of a key, or
//! the key stays what it was.
//!
//! Parts are buffered as long as they may become one packed record. A large value is built beside the current one of the key,
//! a window of parts at a time, in a record that no key refers to yet.

use std::borrow::Cow;
use std::collections::HashSet;

use super::db::Db;
use super::entry::Kind;
use super::heap::MemoryFull;
use super::key::Key;
use super::large::Large;
use super::member::score_of;
use super::order::Order;
use super::packed::{self, COUNT_BYTES, PACKED_BYTES_MAX};
use super::record::Form;
use super::window::{WINDOW_BYTES, WINDOW_KEYS};

/// Why a value was not built. The key is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError<E> {
    /// There is no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryFull),
    /// There are no parts, and there is no empty value.
    #[error("a value without parts")]
    Empty,
    /// A field or member came twice.
    #[error("a field or member comes twice")]
    Twice,
    /// An error of its source.
    #[error("{0}")]
    Source(E),
}

/// Bytes that a packed part takes beside its name and value, at most: two long lengths.
const LENGTHS_BYTES: usize = 10;

impl Db {
    /// Replaces the value of a key, of any type, by a hash of fields and values, with this expiry, if any.
    ///
    /// # Errors
    /// If there are no fields, a field twice, or no memory, and errors of the source; the key is unchanged.
    pub fn make_hash<'s, E>(
        &mut self,
        key: &Key<'_>,
        expiry: Option<u64>,
        pairs: impl Iterator<Item = Result<(Cow<'s, [u8]>, Cow<'s, [u8]>), E>>,
    ) -> Result<(), BuildError<E>> {
        self.build(Kind::Hash, key, expiry, pairs)
    }

    /// Replaces the value of a key, of any type, by a sorted set of members, in any order, and their scores, none of them NaN,
    /// with this expiry, if any.
    ///
    /// # Errors
    /// As [`make_hash`](Self::make_hash).
    pub fn make_zset<'s, E>(
        &mut self,
        key: &Key<'_>,
        expiry: Option<u64>,
        members: impl Iterator<Item = Result<(Cow<'s, [u8]>, f64), E>>,
    ) -> Result<(), BuildError<E>> {
        let members = members.map(|part| {
            let (member, score) = part?;
            debug_assert!(!score.is_nan());
            // Minus zero becomes zero, as in the packed sets of Redis.
            Ok((member, (score + 0.0).to_le_bytes()))
        });
        self.build(Kind::SortedSet, key, expiry, members)
    }

    fn build<'s, V: AsRef<[u8]>, E>(
        &mut self,
        kind: Kind,
        key: &Key<'_>,
        expiry: Option<u64>,
        mut parts: impl Iterator<Item = Result<(Cow<'s, [u8]>, V), E>>,
    ) -> Result<(), BuildError<E>> {
        let settings = &self.store.heap.chooser.settings;
        let is_set = kind == Kind::SortedSet;
        let (entries_max, value_max) = match is_set {
            true => (
                settings.set_packed_entries_max,
                settings.set_packed_value_max,
            ),
            false => (
                settings.hash_packed_entries_max,
                settings.hash_packed_value_max,
            ),
        };
        let (mut buffered, mut bytes, mut fits) = (Vec::new(), COUNT_BYTES, true);
        while fits && let Some(part) = parts.next() {
            let (name, value) = part.map_err(BuildError::Source)?;
            let value_bytes = value.as_ref().len();
            bytes += LENGTHS_BYTES + name.len() + value_bytes;
            // A score is never too long.
            let longest = name.len().max(if is_set { 0 } else { value_bytes });
            fits =
                buffered.len() < entries_max && longest <= value_max && bytes <= PACKED_BYTES_MAX;
            buffered.push((name, value));
        }
        let record = match (fits, buffered.is_empty()) {
            (_, true) => return Err(BuildError::Empty),
            (true, _) => self.pack_parts(kind, key, expiry, buffered)?,
            (false, _) => self.build_large(kind, key, expiry, buffered, parts)?,
        };
        self.remove(key);
        self.put(key, record);
        Ok(())
    }

    /// A packed record of parts.
    fn pack_parts<V: AsRef<[u8]>, E>(
        &mut self,
        kind: Kind,
        key: &Key<'_>,
        expiry: Option<u64>,
        mut parts: Vec<(Cow<'_, [u8]>, V)>,
    ) -> Result<u64, BuildError<E>> {
        let mut names = HashSet::with_capacity(parts.len());
        if !parts.iter().all(|(name, _)| names.insert(&**name)) {
            return Err(BuildError::Twice);
        }
        let mut value = std::mem::take(&mut self.scratch);
        value.clear();
        value.resize(COUNT_BYTES, 0);
        packed::set_count(&mut value, parts.len());
        let form = if kind == Kind::SortedSet {
            parts.sort_unstable_by(|(a, a_score), (b, b_score)| {
                let [a_score, b_score] = [a_score, b_score].map(|score| score_of(score.as_ref()));
                packed::order((a_score, a), (b_score, b))
            });
            for (member, score) in &parts {
                packed::push_member(&mut value, score_of(score.as_ref()), member);
            }
            Form::PackedSet
        } else {
            for (field, text) in &parts {
                packed::push_pair(&mut value, field, text.as_ref());
            }
            Form::PackedHash
        };
        let record = self.store.heap.create(form, key.bytes, value.len(), expiry);
        if let Ok(record) = record {
            self.store.heap.value_mut(record).copy_from_slice(&value);
            self.store
                .heap
                .wrote(record, 0, self.store.heap.header(record).bytes());
        }
        self.scratch = value;
        Ok(record?)
    }

    /// A record that refers to a large value of parts: those that were buffered, and those that follow.
    fn build_large<'s, V: AsRef<[u8]>, E>(
        &mut self,
        kind: Kind,
        key: &Key<'_>,
        expiry: Option<u64>,
        buffered: Vec<(Cow<'s, [u8]>, V)>,
        parts: impl Iterator<Item = Result<(Cow<'s, [u8]>, V), E>>,
    ) -> Result<u64, BuildError<E>> {
        let bytes = size_of::<u32>();
        let record = self
            .store
            .heap
            .create(Form::Large, key.bytes, bytes, expiry)?;
        let number = self.store.larges.add(Large::Hash(self.new_table()));
        let named = self.store.heap.value_mut(record);
        named.copy_from_slice(&number.to_le_bytes());
        self.store
            .heap
            .wrote(record, 0, self.store.heap.header(record).bytes());
        if let Err(why) = self.add_parts(record, buffered, parts) {
            self.store.free(record);
            return Err(why);
        }
        if kind == Kind::SortedSet {
            self.order_parts(number);
        }
        Ok(record)
    }

    fn add_parts<'s, V: AsRef<[u8]>, E>(
        &mut self,
        record: u64,
        mut window: Vec<(Cow<'s, [u8]>, V)>,
        mut parts: impl Iterator<Item = Result<(Cow<'s, [u8]>, V), E>>,
    ) -> Result<(), BuildError<E>> {
        while !window.is_empty() {
            let pairs = window.iter().map(|(name, value)| (&**name, value.as_ref()));
            if self.large_hash_set(record, pairs)? < window.len() {
                return Err(BuildError::Twice);
            }
            window.clear();
            let mut bytes = 0;
            while window.len() < WINDOW_KEYS
                && bytes < WINDOW_BYTES
                && let Some(part) = parts.next()
            {
                let (name, value) = part.map_err(BuildError::Source)?;
                bytes += name.len() + value.as_ref().len();
                window.push((name, value));
            }
        }
        Ok(())
    }

    /// Makes a large hash, whose values are scores, a sorted set.
    fn order_parts(&mut self, number: u32) {
        let empty = self.new_table();
        let large = self.store.larges.get_mut(number);
        let table = std::mem::replace(large.table_mut(), empty);
        let heap = &self.store.heap;
        let records = table.iter();
        let mut ranked: Vec<_> = records
            .map(|record| (score_of(heap.value(record)), record))
            .collect();
        ranked.sort_unstable_by(|a, b| {
            // Members are read only where scores are equal.
            let by_score = a.0.partial_cmp(&b.0).expect("no score is NaN");
            by_score.then_with(|| heap.key(a.1).cmp(heap.key(b.1)))
        });
        *large = Large::Set(table, Box::new(Order::new(ranked.into_iter())));
    }
}
