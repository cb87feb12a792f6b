//! A column's dictionary: one immutable generation, and the delta that grew behind it.
//!
//! ```text
//! code      0 ......... main_len | main_len ......... len
//! values    main: in order       | delta: as they arrived
//! ```
//!
//! In the main part a code is a rank, so a range of values is a range of codes. Values that appear
//! later join the delta, whose codes say nothing about order; an order of its own is kept beside
//! it. When the delta has grown past a tenth a merge makes the next generation ([`merge`]) and
//! re-encodes the chunks. Codes never change within a generation: a chunk names its own.
//!
//! Invariant: main is strictly ascending, and no value has two codes.

mod builder;
mod code_set;
mod decoder;
mod merge;
mod search;
mod sort;
mod stored;
mod values;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray};
use arrow::datatypes::{
    Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use tierra_interleave::Lookups;
use tierra_memory::{MemoryGate, in_mode};

pub use builder::DictionaryBuilder;
pub(crate) use code_set::{CodeSet, bitmap_of, clear_beyond};
pub use decoder::Decoder;
pub(crate) use decoder::ValueRef;
pub use merge::Remapping;
pub(crate) use values::DictionaryValues;

use crate::filter::{ResolvedFilter, ValueSet};
use crate::logical_type::{LogicalType, Physical};
use crate::ordinal::OrdinalType;
use crate::value::Value;
use code_set::Collector;
use search::Order;

/// A generation of a column's dictionary: near memory, shared by all readers, never changed.
#[derive(Debug, Clone)]
pub struct Dictionary {
    ty: LogicalType,
    generation: u64,
    values: DictionaryValues,
    main: Order,
    delta: Order,
    /// Of looking values up. Generations that follow each other share it.
    gate: Arc<MemoryGate>,
}

/// A merge is due when more than one value in this many is in the delta.
const VALUES_PER_DELTA: usize = 10;

impl Dictionary {
    /// `values` of which the first `main_len` ascend strictly, and all differ.
    fn new(
        ty: LogicalType,
        generation: u64,
        values: DictionaryValues,
        main_len: usize,
        gate: Arc<MemoryGate>,
    ) -> Dictionary {
        values.collapse();
        Dictionary {
            ty,
            generation,
            main: Order::ascending(&values, main_len),
            delta: Order::sorting(&values, main_len as u32..values.len() as u32),
            gate,
            values,
        }
    }

    /// The same with another gate: one that starts with what is known of the machine.
    pub fn with_gate(self, gate: Arc<MemoryGate>) -> Dictionary {
        Dictionary { gate, ..self }
    }

    /// The column's type.
    pub fn logical_type(&self) -> LogicalType {
        self.ty
    }

    /// The generation its codes belong to.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Values, and so the first code that is none.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Values whose code is their rank.
    pub fn main_len(&self) -> usize {
        self.main.len()
    }

    /// Values that were added since.
    pub fn delta_len(&self) -> usize {
        self.delta.len()
    }

    /// Whether the delta has grown so much that [`Dictionary::merge`] pays.
    pub fn wants_merge(&self) -> bool {
        self.delta_len() * VALUES_PER_DELTA > self.len()
    }

    /// Bytes of near memory it takes.
    pub fn len_bytes(&self) -> usize {
        let values = match &self.values {
            DictionaryValues::Ordinals(values) => values.len() * size_of::<u64>(),
            DictionaryValues::Strings(values) => values.get_buffer_memory_size(),
        };
        values + self.main.len_bytes() + self.delta.len_bytes()
    }

    pub(crate) fn values(&self) -> &DictionaryValues {
        &self.values
    }

    /// The value with code `code`.
    ///
    /// # Panics
    /// If there is none.
    pub fn value(&self, code: u32) -> Value {
        match &self.values {
            DictionaryValues::Ordinals(values) => Value::Ordinal(values[code as usize]),
            DictionaryValues::Strings(values) => {
                Value::Bytes(values.value(code as usize).as_bytes().into())
            }
        }
    }

    /// All values as an array of the column's arrow type; the index is the code. Strings are
    /// shared.
    pub fn values_array(&self) -> ArrayRef {
        fn array<T: OrdinalType>(values: &[u64]) -> arrow::array::PrimitiveArray<T> {
            values
                .iter()
                .map(|&value| Some(T::from_ordinal(value)))
                .collect()
        }
        match (&self.values, self.ty) {
            (DictionaryValues::Strings(values), _) => Arc::new(values.clone()),
            (DictionaryValues::Ordinals(values), ty) => match ty {
                LogicalType::Boolean => Arc::new(
                    values
                        .iter()
                        .map(|&value| Some(value == 1))
                        .collect::<arrow::array::BooleanArray>(),
                ),
                LogicalType::Integer => Arc::new(array::<Int32Type>(values)),
                LogicalType::Date => Arc::new(array::<Date32Type>(values)),
                LogicalType::Timestamp => Arc::new(array::<TimestampMicrosecondType>(values)),
                LogicalType::Double => Arc::new(array::<Float64Type>(values)),
                LogicalType::Decimal { .. } => {
                    Arc::new(array::<Decimal128Type>(values).with_data_type(ty.arrow()))
                }
                LogicalType::BigInt | LogicalType::Varchar => Arc::new(array::<Int64Type>(values)),
            },
        }
    }

    /// The codes of many values, in their order; `None` for a value that has none.
    pub fn code_of_many(&self, values: &[Value], lookups: &mut Lookups) -> Vec<Option<u32>> {
        let mut codes = vec![None; values.len()];
        match &self.values {
            DictionaryValues::Ordinals(_) => {
                let (indexes, wanted): (Vec<usize>, Vec<u64>) = values
                    .iter()
                    .enumerate()
                    .filter_map(|(index, value)| match value {
                        Value::Ordinal(value) => Some((index, *value)),
                        _ => None,
                    })
                    .unzip();
                self.find_ordinals(&wanted, lookups, |index, code| {
                    codes[indexes[index]] = Some(code);
                });
            }
            DictionaryValues::Strings(strings) => {
                let (indexes, wanted): (Vec<usize>, Vec<&[u8]>) = values
                    .iter()
                    .enumerate()
                    .filter_map(|(index, value)| match value {
                        Value::Bytes(value) => Some((index, &**value)),
                        _ => None,
                    })
                    .unzip();
                self.find_strings(strings, &wanted, lookups, |index, code| {
                    codes[indexes[index]] = Some(code);
                });
            }
        }
        codes
    }

    /// Calls `found` with the index and the code of each value that has one, in no particular order.
    fn find_ordinals(
        &self,
        wanted: &[u64],
        lookups: &mut Lookups,
        mut found: impl FnMut(usize, u32),
    ) {
        lookups.run(self.gate.now(), wanted.len(), |execution, size, part| {
            let (first, wanted) = (part.start, &wanted[part]);
            let mut missing = Vec::new();
            in_mode!(execution, M => {
                let mut report = self.main.find_ordinals::<M>(size, wanted, |index, code| match code {
                    Some(code) => found(first + index, code),
                    None => missing.push(index),
                });
                if self.delta.len() > 0 && !missing.is_empty() {
                    let wanted: Vec<u64> = missing.iter().map(|&index| wanted[index]).collect();
                    report += self.delta.find_ordinals::<M>(size, &wanted, |index, code| {
                        if let Some(code) = code {
                            found(first + missing[index], code);
                        }
                    });
                }
                report
            })
        });
    }

    /// [`Dictionary::find_ordinals`] of strings.
    fn find_strings<W: AsRef<[u8]>>(
        &self,
        strings: &StringViewArray,
        wanted: &[W],
        lookups: &mut Lookups,
        mut found: impl FnMut(usize, u32),
    ) {
        lookups.run(self.gate.now(), wanted.len(), |execution, size, part| {
            let (first, wanted) = (part.start, &wanted[part]);
            let mut missing = Vec::new();
            in_mode!(execution, M => {
                let mut report = self.main.find_strings::<M, _>(size, strings, wanted, |index, code| match code {
                    Some(code) => found(first + index, code),
                    None => missing.push(index),
                });
                if self.delta.len() > 0 && !missing.is_empty() {
                    let wanted: Vec<&[u8]> = missing.iter().map(|&index| wanted[index].as_ref()).collect();
                    report += self.delta.find_strings::<M, _>(size, strings, &wanted, |index, code| {
                        if let Some(code) = code {
                            found(first + missing[index], code);
                        }
                    });
                }
                report
            })
        });
    }

    /// The codes of the values that pass. A set is looked up value by value, as `lookups` says.
    pub(crate) fn matching_codes(
        &self,
        resolved: &ResolvedFilter,
        lookups: &mut Lookups,
    ) -> CodeSet {
        let mut codes = Collector::new(self.len());
        let mut add = |code: u32| codes.add(code);
        match resolved {
            ResolvedFilter::Nothing | ResolvedFilter::Wide(_) | ResolvedFilter::Codes { .. } => {}
            ResolvedFilter::Everything => (0..self.len() as u32).for_each(add),
            ResolvedFilter::Ordinals(ranges) => {
                for &(low, high) in ranges {
                    for order in [&self.main, &self.delta] {
                        order.between(low, high).for_each(&mut add);
                    }
                }
            }
            ResolvedFilter::Bytes(ranges) => {
                for range in ranges {
                    for order in [&self.main, &self.delta] {
                        order.within(&self.values, range).for_each(&mut add);
                    }
                }
            }
            ResolvedFilter::Set { values, negated } => {
                // A set larger than the dictionary is probed by each value, a smaller one looks
                // its members up.
                if values.len() > self.len() / 4 {
                    (0..self.len() as u32)
                        .filter(|&code| self.is_member(values, code))
                        .for_each(add);
                } else {
                    self.find_members(values, lookups, add);
                }
                if *negated {
                    let mut others = codes.finish().into_bitmap(self.len());
                    for word in &mut others {
                        *word = !*word;
                    }
                    clear_beyond(&mut others, self.len());
                    return CodeSet::Bitmap(others);
                }
            }
        }
        codes.finish()
    }

    /// Calls `found` with the code of each member of a set that has one.
    fn find_members(&self, set: &ValueSet, lookups: &mut Lookups, mut found: impl FnMut(u32)) {
        match (&self.values, set) {
            (DictionaryValues::Ordinals(_), ValueSet::Ordinals(set)) => {
                let members = set.within(u64::MIN, u64::MAX);
                self.find_ordinals(members, lookups, |_, code| found(code));
            }
            (DictionaryValues::Strings(strings), ValueSet::Bytes { sorted, .. }) => {
                self.find_strings(strings, sorted, lookups, |_, code| found(code));
            }
            _ => {}
        }
    }

    fn is_member(&self, set: &ValueSet, code: u32) -> bool {
        match (&self.values, set) {
            (DictionaryValues::Ordinals(values), ValueSet::Ordinals(set)) => {
                set.contains(values[code as usize])
            }
            (DictionaryValues::Strings(values), ValueSet::Bytes { hashed, .. }) => {
                hashed.contains(values.value(code as usize).as_bytes())
            }
            _ => false,
        }
    }

    /// Whether columns of `ty` can have a dictionary.
    pub(crate) fn supports(ty: LogicalType) -> bool {
        ty.physical() != Physical::Wide
    }
}
