//! Interning values while chunks are encoded: value to code through a hash table.
//!
//! The first chunk's values become the main part, in order, so that a freshly loaded column has
//! hardly any delta; what later chunks bring is appended. Runs of one value and short strings seen
//! lately cost no hashing of bytes.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, make_view};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::datatypes::{
    Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use hashbrown::{DefaultHashBuilder, HashTable};
use tierra_memory::MemoryGate;

use super::{Dictionary, DictionaryValues, sort};
use crate::encoding::EncodeError;
use crate::limits::NULL_CODE;
use crate::logical_type::LogicalType;
use crate::ordinal::OrdinalType;
use crate::view::INLINE_BYTES;

/// A dictionary that takes up values. One thread at a time; dropping it undoes everything.
#[derive(Debug)]
pub struct DictionaryBuilder {
    ty: LogicalType,
    generation: u64,
    main_len: usize,
    hasher: DefaultHashBuilder,
    /// Of all values or of none: filled when more are to be taken up, for it is larger than they are
    /// and a column that is loaded once never needs it again.
    codes: HashTable<u32>,
    values: Interned,
    /// Of the dictionary that is made.
    gate: Arc<MemoryGate>,
}

#[derive(Debug)]
enum Interned {
    Ordinals(Vec<u64>),
    Strings(Strings),
}

#[derive(Debug, Default)]
struct Strings {
    views: Vec<u128>,
    closed: Vec<Buffer>,
    /// Becomes the buffer behind the closed ones.
    open: Vec<u8>,
}

/// A buffer is closed at this size: views hold 32-bit offsets.
const BUFFER_BYTES_MAX: usize = 1 << 30;
/// Slots of the cache of short strings; power of two.
const CACHE_SLOTS: usize = 1 << 10;

impl Strings {
    fn get(&self, code: u32) -> &[u8] {
        let view = self.views[code as usize];
        debug_assert!(view as u32 as usize > INLINE_BYTES);
        let (len, buffer, offset) = (view as u32, (view >> 64) as u32, (view >> 96) as u32);
        let buffer = self
            .closed
            .get(buffer as usize)
            .map_or(&self.open[..], Buffer::as_slice);
        &buffer[offset as usize..][..len as usize]
    }

    fn push(&mut self, bytes: &[u8]) {
        if bytes.len() <= INLINE_BYTES {
            self.views.push(make_view(bytes, 0, 0));
            return;
        }
        if self.open.len() + bytes.len() > BUFFER_BYTES_MAX {
            self.closed
                .push(Buffer::from_vec(std::mem::take(&mut self.open)));
        }
        let view = make_view(bytes, self.closed.len() as u32, self.open.len() as u32);
        self.views.push(view);
        self.open.extend_from_slice(bytes);
    }

    fn finish(mut self) -> StringViewArray {
        if !self.open.is_empty() {
            self.closed.push(Buffer::from_vec(self.open));
        }
        StringViewArray::new(ScalarBuffer::from(self.views), self.closed, None)
    }
}

impl DictionaryBuilder {
    /// An empty builder of generation `generation` for a column of type `ty`.
    ///
    /// # Panics
    /// If the type cannot have a dictionary (DECIMAL beyond 18 digits).
    pub fn new(ty: LogicalType, generation: u64) -> DictionaryBuilder {
        assert!(Dictionary::supports(ty), "a {ty} column has no dictionary");
        DictionaryBuilder {
            ty,
            generation,
            main_len: 0,
            hasher: DefaultHashBuilder::default(),
            codes: HashTable::new(),
            values: match ty {
                LogicalType::Varchar => Interned::Strings(Strings::default()),
                LogicalType::Boolean
                | LogicalType::Integer
                | LogicalType::BigInt
                | LogicalType::Decimal { .. }
                | LogicalType::Double
                | LogicalType::Date
                | LogicalType::Timestamp => Interned::Ordinals(Vec::new()),
            },
            gate: Arc::default(),
        }
    }

    /// The same for a dictionary with this gate.
    pub fn with_gate(self, gate: Arc<MemoryGate>) -> DictionaryBuilder {
        DictionaryBuilder { gate, ..self }
    }

    /// A builder that goes on from `dictionary`: same generation, same codes, and new values join
    /// the delta.
    pub fn from_dictionary(dictionary: &Dictionary) -> DictionaryBuilder {
        let mut builder = DictionaryBuilder::new(dictionary.ty, dictionary.generation);
        builder.main_len = dictionary.main_len();
        builder.gate = Arc::clone(&dictionary.gate);
        builder.values = match &dictionary.values {
            DictionaryValues::Ordinals(values) => Interned::Ordinals(values.to_vec()),
            DictionaryValues::Strings(values) => Interned::Strings(Strings {
                views: values.views().to_vec(),
                closed: values.data_buffers().to_vec(),
                open: Vec::new(),
            }),
        };
        builder
    }

    /// The generation its codes belong to.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Values taken up.
    pub fn len(&self) -> usize {
        match &self.values {
            Interned::Ordinals(values) => values.len(),
            Interned::Strings(strings) => strings.views.len(),
        }
    }

    /// Whether nothing was taken up.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The codes of a chunk's values, [`NULL_CODE`] for NULL; new values are taken up. Where
    /// there were none before, codes are ranks.
    ///
    /// # Errors
    /// [`EncodeError`] where an array is of another type, or codes run out.
    pub fn encode(&mut self, arrays: &[ArrayRef]) -> Result<Vec<u32>, EncodeError> {
        let first = self.is_empty();
        let mut codes = Vec::with_capacity(arrays.iter().map(|array| array.len()).sum());
        for array in arrays {
            self.intern(array, &mut codes)?;
        }
        if first {
            self.sort(&mut codes);
        }
        Ok(codes)
    }

    /// Appends the codes of an array's values to `codes`.
    ///
    /// # Errors
    /// As [`DictionaryBuilder::encode`].
    pub fn intern(&mut self, array: &ArrayRef, codes: &mut Vec<u32>) -> Result<(), EncodeError> {
        if *array.data_type() != self.ty.arrow() {
            return Err(EncodeError::Type {
                expected: self.ty,
                found: array.data_type().clone(),
            });
        }
        if self.len() + array.len() >= NULL_CODE as usize {
            return Err(EncodeError::DictionaryFull(self.len()));
        }
        if self.codes.len() < self.len() {
            self.index();
        }
        let from = codes.len();
        let DictionaryBuilder {
            codes: table,
            hasher,
            values,
            ..
        } = self;
        match values {
            Interned::Strings(strings) => {
                intern_strings(table, hasher, strings, array.as_string_view(), codes);
            }
            Interned::Ordinals(values) => {
                let mut ordinals = OrdinalInterner {
                    table,
                    hasher,
                    values,
                    last: None,
                };
                match self.ty {
                    LogicalType::Boolean => {
                        codes.extend(array.as_boolean().iter().map(|value| match value {
                            Some(value) => ordinals.code(u64::from(value)),
                            None => NULL_CODE,
                        }));
                    }
                    LogicalType::Integer => ordinals.extend::<Int32Type>(array, codes),
                    LogicalType::Date => ordinals.extend::<Date32Type>(array, codes),
                    LogicalType::Timestamp => {
                        ordinals.extend::<TimestampMicrosecondType>(array, codes);
                    }
                    LogicalType::Double => ordinals.extend::<Float64Type>(array, codes),
                    LogicalType::Decimal { .. } => ordinals.extend::<Decimal128Type>(array, codes),
                    LogicalType::BigInt | LogicalType::Varchar => {
                        ordinals.extend::<Int64Type>(array, codes);
                    }
                }
            }
        }
        debug_assert_eq!(codes.len() - from, array.len());
        Ok(())
    }

    /// Puts the values in order and renumbers `codes`: what is known so far becomes the main part.
    fn sort(&mut self, codes: &mut [u32]) {
        let all = 0..self.len() as u32;
        let order = match &mut self.values {
            Interned::Ordinals(values) => {
                let (sorted, order) = sort::ordinals(values, all);
                *values = sorted;
                order
            }
            Interned::Strings(strings) => {
                let array = std::mem::take(strings).finish();
                let order = sort::strings(&array, all);
                strings.views = order
                    .iter()
                    .map(|&code| array.views()[code as usize])
                    .collect();
                strings.closed = array.data_buffers().to_vec();
                order
            }
        };
        let mut ranks = vec![0; order.len()];
        for (rank, &code) in order.iter().enumerate() {
            ranks[code as usize] = rank as u32;
        }
        for code in codes {
            if *code != NULL_CODE {
                *code = ranks[*code as usize];
            }
        }
        self.main_len = order.len();
        self.codes = HashTable::new();
    }

    /// Fills the hash table anew.
    fn index(&mut self) {
        self.codes.clear();
        let hashes: Vec<u64> = (0..self.len() as u32)
            .map(|code| hash_of(&self.hasher, &self.values, code))
            .collect();
        self.codes
            .reserve(hashes.len(), |&code| hashes[code as usize]);
        for (code, &hash) in hashes.iter().enumerate() {
            self.codes
                .insert_unique(hash, code as u32, |&code| hashes[code as usize]);
        }
    }

    /// The dictionary as it is now.
    pub fn finish(self) -> Dictionary {
        let values = match self.values {
            Interned::Ordinals(values) => DictionaryValues::Ordinals(Arc::new(values)),
            Interned::Strings(strings) => DictionaryValues::Strings(strings.finish()),
        };
        Dictionary::new(self.ty, self.generation, values, self.main_len, self.gate)
    }
}

fn hash_of(hasher: &DefaultHashBuilder, values: &Interned, code: u32) -> u64 {
    match values {
        Interned::Ordinals(values) => hasher.hash_one(values[code as usize]),
        Interned::Strings(strings) => hash_of_string(hasher, strings, code),
    }
}

fn hash_of_string(hasher: &DefaultHashBuilder, strings: &Strings, code: u32) -> u64 {
    let view = strings.views[code as usize];
    if view as u32 as usize <= INLINE_BYTES {
        hasher.hash_one(view)
    } else {
        hasher.hash_one(strings.get(code))
    }
}

struct OrdinalInterner<'b> {
    table: &'b mut HashTable<u32>,
    hasher: &'b DefaultHashBuilder,
    values: &'b mut Vec<u64>,
    last: Option<(u64, u32)>,
}

impl OrdinalInterner<'_> {
    fn extend<T: OrdinalType>(&mut self, array: &ArrayRef, codes: &mut Vec<u32>) {
        let array = array.as_primitive::<T>();
        match array.nulls() {
            None => {
                codes.extend(
                    array
                        .values()
                        .iter()
                        .map(|&value| self.code(T::to_ordinal(value))),
                );
            }
            Some(_) => codes.extend(array.iter().map(|value| match value {
                Some(value) => self.code(T::to_ordinal(value)),
                None => NULL_CODE,
            })),
        }
    }

    fn code(&mut self, value: u64) -> u32 {
        if let Some((last, code)) = self.last
            && last == value
        {
            return code;
        }
        let hash = self.hasher.hash_one(value);
        let (hasher, values) = (self.hasher, &mut *self.values);
        let code = match self
            .table
            .find(hash, |&code| values[code as usize] == value)
        {
            Some(&code) => code,
            None => {
                let code = values.len() as u32;
                values.push(value);
                self.table
                    .insert_unique(hash, code, |&code| hasher.hash_one(values[code as usize]));
                code
            }
        };
        self.last = Some((value, code));
        code
    }
}

fn intern_strings(
    table: &mut HashTable<u32>,
    hasher: &DefaultHashBuilder,
    strings: &mut Strings,
    array: &StringViewArray,
    codes: &mut Vec<u32>,
) {
    // Short strings are their view, so lately seen ones are recognised by 16 bytes. An unused slot
    // holds a view no short string has.
    let mut cache = vec![(u128::MAX, 0_u32); CACHE_SLOTS];
    for (row, &view) in array.views().iter().enumerate() {
        if array.is_null(row) {
            codes.push(NULL_CODE);
            continue;
        }
        let short = view as u32 as usize <= INLINE_BYTES;
        let hash;
        let slot = if short {
            let mixed = (view as u64 ^ (view >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let slot = &mut cache[mixed as usize >> 32 & (CACHE_SLOTS - 1)];
            if slot.0 == view {
                codes.push(slot.1);
                continue;
            }
            hash = hasher.hash_one(view);
            Some(slot)
        } else {
            hash = hasher.hash_one(array.value(row).as_bytes());
            None
        };
        let bytes = array.value(row).as_bytes();
        let found = table.find(hash, |&code| {
            let known = strings.views[code as usize];
            if short {
                known == view
            } else {
                // Length and first four bytes, then all.
                known as u64 == view as u64 && strings.get(code) == bytes
            }
        });
        let code = match found {
            Some(&code) => code,
            None => {
                let code = strings.views.len() as u32;
                strings.push(bytes);
                table.insert_unique(hash, code, |&code| hash_of_string(hasher, strings, code));
                code
            }
        };
        if let Some(slot) = slot {
            *slot = (view, code);
        }
        codes.push(code);
    }
}
