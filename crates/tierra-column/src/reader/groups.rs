//! Totals by group: the rows of a column that has few values are numbered by their value, and other columns added up by these numbers.
//!
//! ```text
//! column of groups    codes of its dictionary  -->  a group for each code that is met
//! other columns       selected codes           -->  count, sum, least and greatest of each group
//! ```
//! No value of the groups is looked at: a code is the place of its group in a table. Values that have no code, those of the tail for
//! instance, are looked up by a hash, and make groups of their own; the caller has to expect two groups of the same value.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    Date32Type, Decimal128Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use hashbrown::HashMap;

use super::totals::{Totals, WantedTotals};
use super::{Codes, ColumnReader, dictionary_codes, selected_codes};
use crate::bits::Mask;
use crate::cell::Cell;
use crate::chunk::{Chunk, Scratch};
use crate::dictionary::{Dictionary, DictionaryValues};
use crate::encoding::EncodeError;
use crate::error::FormatError;
use crate::logical_type::LogicalType;
use crate::ordinal::{self, OrdinalType};
use crate::value::Value;

/// Numbers the values of a column.
#[derive(Debug)]
pub struct ColumnGroups {
    ty: LogicalType,
    /// By code + 1, which is 0 for NULL.
    of_code: Vec<u32>,
    of_text: HashMap<Box<[u8]>, u32>,
    of_ordinal: HashMap<u64, u32>,
    /// By group; `None` is NULL.
    values: Vec<Option<Value>>,
}

/// No group has been made for a code.
const NO_GROUP: u32 = u32::MAX;

impl ColumnGroups {
    /// No groups of a column of type `ty`.
    pub fn new(ty: LogicalType) -> ColumnGroups {
        ColumnGroups {
            ty,
            of_code: vec![NO_GROUP],
            of_text: HashMap::new(),
            of_ordinal: HashMap::new(),
            values: Vec::new(),
        }
    }

    /// Groups so far.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the groups of the rows of a block that `mask` selects, in order.
    ///
    /// # Errors
    /// [`FormatError`] where the block cannot be what was written, or its dictionary is missing or another generation.
    ///
    /// # Panics
    /// If the chunk is of another type, or there is no such block.
    pub fn append(
        &mut self,
        chunk: &Chunk<'_>,
        block: usize,
        mask: &Mask,
        dictionary: Option<&Dictionary>,
        scratch: &mut Scratch,
        groups: &mut Vec<u32>,
    ) -> Result<(), FormatError> {
        assert_eq!(
            chunk.logical_type(),
            self.ty,
            "groups are those of one column"
        );
        if !chunk.encoding().uses_dictionary() || chunk.is_all_null() {
            let mut reader = ColumnReader::new(self.ty, chunk.block_rows(block));
            reader.append(chunk, block, mask, dictionary, scratch)?;
            self.append_values(&reader.finish(), groups);
            return Ok(());
        }
        let data = chunk.block(block)?;
        let mut mask = *mask;
        mask.and(&Mask::first(data.rows));
        let count = scratch.kernels.count(&mask);
        let dictionary = chunk.dictionary(dictionary)?;
        if self.of_code.len() <= dictionary.len() {
            self.of_code.resize(dictionary.len() + 1, NO_GROUP);
        }
        let nulls = data.nulls(scratch.kernels, &mask);
        dictionary_codes(&data, &mask, count, dictionary.len(), scratch)?;
        let codes = &scratch.narrow[..count];
        groups.reserve(count);
        if !nulls.any() {
            for &code in codes {
                groups.push(self.of_place(code as usize + 1, dictionary));
            }
            return Ok(());
        }
        for (&code, row) in codes.iter().zip(&mask) {
            let place = if nulls.get(row) { 0 } else { code as usize + 1 };
            groups.push(self.of_place(place, dictionary));
        }
        Ok(())
    }

    /// The group of a place in the table of codes.
    #[inline]
    fn of_place(&mut self, place: usize, dictionary: &Dictionary) -> u32 {
        match self.of_code[place] {
            NO_GROUP => self.add_place(place, dictionary),
            group => group,
        }
    }

    #[cold]
    fn add_place(&mut self, place: usize, dictionary: &Dictionary) -> u32 {
        let code = place.checked_sub(1);
        let group = self.add(code.map(|code| dictionary.value(code as u32)));
        self.of_code[place] = group;
        group
    }

    fn add(&mut self, value: Option<Value>) -> u32 {
        let group = self.values.len() as u32;
        self.values.push(value);
        group
    }

    /// Appends the groups of all rows of an array.
    ///
    /// # Errors
    /// [`EncodeError::Type`] where the array is of another type.
    pub fn append_array(
        &mut self,
        array: &ArrayRef,
        groups: &mut Vec<u32>,
    ) -> Result<(), EncodeError> {
        if *array.data_type() != self.ty.arrow() {
            return Err(EncodeError::Type {
                expected: self.ty,
                found: array.data_type().clone(),
            });
        }
        self.append_values(array, groups);
        Ok(())
    }

    fn append_values(&mut self, array: &ArrayRef, groups: &mut Vec<u32>) {
        groups.reserve(array.len());
        let texts = (self.ty == LogicalType::Varchar).then(|| array.as_string_view());
        for row in 0..array.len() {
            let group = if array.is_null(row) {
                match self.of_code[0] {
                    NO_GROUP => {
                        let group = self.add(None);
                        self.of_code[0] = group;
                        group
                    }
                    group => group,
                }
            } else if let Some(texts) = texts {
                let text = texts.value(row).as_bytes();
                match self.of_text.get(text) {
                    Some(group) => *group,
                    None => {
                        let group = self.add(Some(Value::Bytes(text.into())));
                        self.of_text.insert(text.into(), group);
                        group
                    }
                }
            } else {
                match Value::of_array(array, row) {
                    Some(Value::Ordinal(ordinal)) => match self.of_ordinal.get(&ordinal) {
                        Some(group) => *group,
                        None => {
                            let group = self.add(Some(Value::Ordinal(ordinal)));
                            self.of_ordinal.insert(ordinal, group);
                            group
                        }
                    },
                    // One of a kind is right, too.
                    value => self.add(value),
                }
            };
            groups.push(group);
        }
    }

    /// The values of the groups, in their order; there are none left.
    ///
    /// # Errors
    /// [`FormatError`] where a string of the dictionary is none.
    pub fn finish(&mut self) -> Result<ArrayRef, FormatError> {
        self.of_code.fill(NO_GROUP);
        self.of_text.clear();
        self.of_ordinal.clear();
        let mut values = ColumnReader::new(self.ty, self.values.len());
        for value in self.values.drain(..) {
            values.append_cell(match &value {
                None => Cell::Null,
                Some(Value::Ordinal(ordinal)) => Cell::Ordinal(*ordinal),
                Some(Value::Wide(value)) => Cell::Wide(*value),
                Some(Value::Bytes(bytes)) => Cell::Bytes(bytes),
            })?;
        }
        Ok(values.finish())
    }
}

/// Collects the totals of a column by group.
#[derive(Debug)]
pub struct GroupTotals {
    ty: LogicalType,
    wanted: WantedTotals,
    totals: Vec<Totals>,
}

impl GroupTotals {
    /// Totals of a column of type `ty`.
    ///
    /// # Panics
    /// If columns of the type do not have them ([`WantedTotals::of_type`]).
    pub fn new(ty: LogicalType, wanted: WantedTotals) -> GroupTotals {
        assert!(wanted.of_type(ty), "{ty} has no {wanted:?}");
        GroupTotals {
            ty,
            wanted,
            totals: Vec::new(),
        }
    }

    fn make_room(&mut self, groups: &ColumnGroups) {
        self.totals.resize(groups.len(), Totals::NONE);
    }

    /// Adds the rows of a block that `mask` selects, whose groups are `of_rows`, in order.
    ///
    /// # Errors
    /// As [`ColumnGroups::append`].
    ///
    /// # Panics
    /// If the chunk is of another type, there is no such block, or another number of rows is selected.
    #[expect(
        clippy::too_many_arguments,
        reason = "those of a reader, and the groups"
    )]
    pub fn append(
        &mut self,
        groups: &ColumnGroups,
        of_rows: &[u32],
        chunk: &Chunk<'_>,
        block: usize,
        mask: &Mask,
        dictionary: Option<&Dictionary>,
        scratch: &mut Scratch,
    ) -> Result<(), FormatError> {
        assert_eq!(
            chunk.logical_type(),
            self.ty,
            "totals are those of one column"
        );
        self.make_room(groups);
        let data = chunk.block(block)?;
        let mut mask = *mask;
        mask.and(&Mask::first(data.rows));
        let count = scratch.kernels.count(&mask);
        assert_eq!(count, of_rows.len(), "a group for each row");
        let nulls = data.nulls(scratch.kernels, &mask);
        let nulls = nulls.any().then_some((&mask, &nulls));
        if count == 0 || chunk.is_all_null() {
            return Ok(());
        }
        if self.wanted == WantedTotals::default() {
            self.add::<u32>(of_rows, &[], 0, nulls);
            return Ok(());
        }
        if chunk.encoding().uses_dictionary() {
            let dictionary = chunk.dictionary(dictionary)?;
            let DictionaryValues::Ordinals(values) = dictionary.values() else {
                return Err(FormatError::corrupt(
                    "a dictionary",
                    "it is of another type",
                ));
            };
            dictionary_codes(&data, &mask, count, dictionary.len(), scratch)?;
            let ordinals = &mut scratch.selected[..count];
            for (ordinal, &code) in ordinals.iter_mut().zip(&scratch.narrow[..count]) {
                *ordinal = values[code as usize];
            }
            self.add::<u64>(of_rows, ordinals, 0, nulls);
            return Ok(());
        }
        let base = data.base;
        match selected_codes(&data, &mask, count, scratch)? {
            Codes::Narrow(codes) => self.add::<u32>(of_rows, codes, base, nulls),
            Codes::Wide(codes) => self.add::<u64>(of_rows, codes, base, nulls),
        }
        Ok(())
    }

    /// Adds rows of these groups and codes: none if only the number of values is wanted. `nulls` has the selected rows, and which of them
    /// are NULL.
    fn add<C: Copy + Into<u64>>(
        &mut self,
        groups: &[u32],
        codes: &[C],
        base: u64,
        nulls: Option<(&Mask, &Mask)>,
    ) {
        let (wanted, is_narrow) = (self.wanted, self.is_narrow());
        let mut add = |at: usize, group: u32| {
            let totals = &mut self.totals[group as usize];
            totals.count += 1;
            if let Some(&code) = codes.get(at) {
                let ordinal = base.wrapping_add(code.into());
                if wanted.sum {
                    totals.sum += i128::from(match is_narrow {
                        true => i64::from(ordinal::to_i32(ordinal)),
                        false => ordinal::to_i64(ordinal),
                    });
                }
                if wanted.extremes {
                    totals.widen((ordinal, ordinal));
                }
            }
        };
        match nulls {
            None => {
                for (at, &group) in groups.iter().enumerate() {
                    add(at, group);
                }
            }
            Some((selected, nulls)) => {
                for ((at, &group), row) in groups.iter().enumerate().zip(selected) {
                    if !nulls.get(row) {
                        add(at, group);
                    }
                }
            }
        }
    }

    /// Whether ordinals have 32 bits.
    fn is_narrow(&self) -> bool {
        matches!(self.ty, LogicalType::Integer | LogicalType::Date)
    }

    /// Adds all rows of an array.
    ///
    /// # Errors
    /// [`EncodeError::Type`] where the array is of another type.
    ///
    /// # Panics
    /// If there are not as many groups as rows.
    pub fn append_array(
        &mut self,
        groups: &ColumnGroups,
        of_rows: &[u32],
        array: &dyn Array,
    ) -> Result<(), EncodeError> {
        if *array.data_type() != self.ty.arrow() {
            return Err(EncodeError::Type {
                expected: self.ty,
                found: array.data_type().clone(),
            });
        }
        assert_eq!(array.len(), of_rows.len(), "a group for each row");
        self.make_room(groups);
        if self.wanted == WantedTotals::default() {
            for (row, &group) in of_rows.iter().enumerate() {
                self.totals[group as usize].count += u64::from(array.is_valid(row));
            }
            return Ok(());
        }
        match self.ty {
            LogicalType::Integer => self.append_values::<Int32Type>(of_rows, array),
            LogicalType::Date => self.append_values::<Date32Type>(of_rows, array),
            LogicalType::BigInt => self.append_values::<Int64Type>(of_rows, array),
            LogicalType::Timestamp => {
                self.append_values::<TimestampMicrosecondType>(of_rows, array)
            }
            LogicalType::Decimal { .. } => self.append_values::<Decimal128Type>(of_rows, array),
            LogicalType::Boolean | LogicalType::Double | LogicalType::Varchar => {
                debug_assert!(false, "{} has no {:?}", self.ty, self.wanted);
            }
        }
        Ok(())
    }

    fn append_values<T: OrdinalType>(&mut self, groups: &[u32], array: &dyn Array) {
        for (&group, value) in groups.iter().zip(array.as_primitive::<T>()) {
            if let Some(value) = value {
                self.add::<u64>(&[group], &[T::to_ordinal(value)], 0, None);
            }
        }
    }

    /// The totals of all groups, which begin anew.
    pub fn finish(&mut self, groups: &ColumnGroups) -> Vec<Totals> {
        self.make_room(groups);
        std::mem::take(&mut self.totals)
    }
}
