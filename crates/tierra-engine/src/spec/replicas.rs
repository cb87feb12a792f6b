//! Replica placement: the tiers with copies of a table, by name for users, and by number in manifests.

use std::collections::BTreeMap;

use tierra_column::{Encoding, LogicalType, Physical};

use crate::spec::ColumnSpec;

/// The most tiers of a database.
pub(crate) const TIERS_MOST: usize = 64;
/// The most copies of an extent: as many as a replica set writes.
pub(crate) const COPIES_MOST: usize = 1 + tierra_memory::replication::MAX_REPLICAS;
/// The most replicas of a chunk that a manifest can name: while a placement changes, a chunk has those of both.
pub(crate) const REPLICAS_MOST: usize = 2 * COPIES_MOST;

/// The number of a tier in its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TierId(pub(crate) u32);

impl TierId {
    /// The first tier of a database.
    pub(crate) const FIRST: TierId = TierId(0);
}

/// The tiers in which a table's extents should have copies, and the encodings of columns that say so; the first is written first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaPlacement {
    pub(crate) table: Vec<TierId>,
    /// Of columns with a placement of their own, by position. At least one each.
    pub(crate) columns: BTreeMap<usize, Vec<PlacedReplica>>,
}

/// A replica that a column's chunks should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlacedReplica {
    /// `None`: the column's own, or the one that fits the values.
    pub(crate) encoding: Option<Encoding>,
    /// The tiers that have a copy of it, at least one.
    pub(crate) tiers: Vec<TierId>,
}

impl Default for ReplicaPlacement {
    fn default() -> ReplicaPlacement {
        ReplicaPlacement {
            table: vec![TierId::FIRST],
            columns: BTreeMap::new(),
        }
    }
}

impl ReplicaPlacement {
    /// The replicas of a column's chunks: their encodings and tiers.
    pub(crate) fn replicas(
        &self,
        column: usize,
    ) -> impl Iterator<Item = (Option<Encoding>, &[TierId])> {
        let own = self.columns.get(&column);
        let table = own.is_none().then_some((None, &self.table[..]));
        let own = own.into_iter().flatten();
        let own = own.map(|replica| (replica.encoding, &replica.tiers[..]));
        table.into_iter().chain(own)
    }

    /// The tiers of a column's first replica.
    pub(crate) fn first(&self, column: usize) -> &[TierId] {
        let first = self.replicas(column).next();
        first.map_or(&self.table, |(_, tiers)| tiers)
    }

    /// Whether a column's replicas have encodings that the placement names.
    pub(crate) fn names_encodings(&self, column: usize) -> bool {
        self.replicas(column)
            .any(|(encoding, _)| encoding.is_some())
    }

    /// The tiers of a column's indexes: those of all its replicas.
    pub(crate) fn of_column(&self, column: usize) -> Vec<TierId> {
        let tiers = self.replicas(column).flat_map(|(_, tiers)| tiers);
        joined(Vec::new(), tiers)
    }

    /// For data that all columns need: the tiers of all columns, up to the most copies.
    pub(crate) fn everywhere(&self) -> Vec<TierId> {
        let columns = self.columns.values().flatten();
        joined(self.table.clone(), columns.flat_map(|it| &it.tiers))
    }

    /// Whether two columns' chunks may share extents: their replicas have the same tiers.
    pub(crate) fn are_alike(&self, column: usize, other: usize) -> bool {
        let tiers = |column| self.replicas(column).map(|(_, tiers)| tiers);
        tiers(column).eq(tiers(other))
    }

    /// Which of the stored replicas of a column, given by their encodings, each replica that it should have is. Chunks that are
    /// there keep their encoding where none is asked for.
    pub(crate) fn matched(&self, column: usize, stored: &[Encoding]) -> Vec<Option<usize>> {
        let wanted: Vec<_> = self
            .replicas(column)
            .map(|(encoding, _)| encoding)
            .collect();
        let fits = |number: usize, at: usize| match wanted[number] {
            Some(encoding) => encoding == stored[at],
            None => number == 0 || !stored[at].uses_dictionary(),
        };
        let mut matched = vec![None; wanted.len()];
        // What is named goes first, and what is in its place before what is elsewhere.
        for (is_named, in_place) in [(true, true), (true, false), (false, true), (false, false)] {
            for number in (0..wanted.len()).filter(|at| wanted[*at].is_some() == is_named) {
                let is_left = |at: &usize| {
                    !matched.contains(&Some(*at))
                        && (!in_place || *at == number)
                        && fits(number, *at)
                };
                if matched[number].is_none() {
                    matched[number] = (0..stored.len()).find(is_left);
                }
            }
        }
        matched
    }

    /// Checks that a chunk with replicas in these encodings can have those that it lacks beside them.
    pub(crate) fn check_room(
        &self,
        column: usize,
        stored: &[Encoding],
        spec: &ColumnSpec,
    ) -> Result<(), ReplicasError> {
        // Each placement alone has fewer.
        if stored.len() <= COPIES_MOST {
            return Ok(());
        }
        let matched = self.matched(column, stored);
        let missing = matched.iter().filter(|stored| stored.is_none()).count();
        match stored.len() + missing <= REPLICAS_MOST {
            true => Ok(()),
            false => Err(ReplicasError::Changing {
                column: spec.name.clone(),
                stored: stored.len(),
                missing,
            }),
        }
    }
}

/// These tiers and others, each once, up to the most copies.
fn joined<'t>(mut all: Vec<TierId>, more: impl Iterator<Item = &'t TierId>) -> Vec<TierId> {
    for tier in more {
        if !all.contains(tier) && all.len() < COPIES_MOST {
            all.push(*tier);
        }
    }
    all
}

impl PlacedReplica {
    /// The replicas in these tiers of a column that leaves their encodings to the database: two by turns, where single values are found in
    /// one line of the one, and the other has few lines to scan, whatever the values.
    pub(crate) fn automatic(tiers: &[TierId], column: &ColumnSpec) -> Vec<PlacedReplica> {
        let is_left_open = column.encoding.is_none() && column.index.is_none();
        let is_number = column.ty.physical() == Physical::Ordinal
            && !matches!(column.ty, LogicalType::Boolean | LogicalType::Double);
        let encodings: &[Option<Encoding>] = match is_left_open && is_number {
            true => &[Some(Encoding::Static), Some(Encoding::Dynamic)],
            false => &[None],
        };
        let encodings = encodings.iter().cycle();
        Self::grouped(tiers.iter().copied().zip(encodings.copied()))
    }

    /// The replicas that tiers with encodings make up, in the order in which their encodings come.
    pub(crate) fn grouped(
        placed: impl IntoIterator<Item = (TierId, Option<Encoding>)>,
    ) -> Vec<PlacedReplica> {
        let mut replicas: Vec<PlacedReplica> = Vec::new();
        for (tier, encoding) in placed {
            let mut known = replicas.iter_mut();
            match known.find(|replica| replica.encoding == encoding) {
                Some(replica) => replica.tiers.push(tier),
                None => replicas.push(PlacedReplica {
                    encoding,
                    tiers: vec![tier],
                }),
            }
        }
        replicas
    }

    /// Checks that a column can have these replicas.
    pub(crate) fn check(
        replicas: &[PlacedReplica],
        column: &ColumnSpec,
    ) -> Result<(), ReplicasError> {
        let name = || column.name.clone();
        for (number, replica) in replicas.iter().enumerate() {
            let is_first = number == 0;
            match replica.encoding {
                Some(encoding) if !encoding.supports(column.ty) => {
                    return Err(ReplicasError::EncodingType {
                        column: name(),
                        ty: column.ty,
                        encoding,
                    });
                }
                Some(encoding) if encoding.uses_dictionary() && !is_first => {
                    return Err(ReplicasError::DictionaryFirst { column: name() });
                }
                Some(encoding)
                    if is_first && column.index.is_some() && !encoding.uses_dictionary() =>
                {
                    return Err(ReplicasError::Index {
                        column: name(),
                        encoding,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The tiers in which a table has copies, by name. A column's may have encodings of their own: `far/static`, `b/dynamic`.
///
/// Copies of a column in one encoding are the same bytes. Those in another encoding are replicas that can be made again from each
/// other. Queries read the replica of a dictionary's codes, else scans the one that costs least to scan, and lookups of single values
/// the one that costs least to look up: in lines of its tier, and in time to unpack values.
///
/// The first tier holds the master, which is written first. Of the copies of one replica the master is read until tiers are measured.
/// Then it is the copy in the fastest tier, and copies in tiers that take about the same are read by turns. A copy that is faulty is
/// not read. A tier that is missing when rows are written gets its copies when it is back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replicas {
    /// Of the whole table; empty: the database's first tier.
    pub table: Vec<String>,
    /// Of the chunks of single columns, by column name, instead of the table's: a tier's name, or `tier/encoding`; or
    /// [`Replicas::AUTO`] alone.
    pub columns: BTreeMap<String, Vec<String>>,
}

/// Tiers that cannot hold a table's copies.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplicasError {
    /// No tier of that name.
    #[error("there is no tier {tier:?}: the tiers are {known}; add it first")]
    Tier {
        /// The name.
        tier: String,
        /// The known tiers.
        known: String,
    },
    /// A missing tier.
    #[error("tier {tier:?} is missing ({why}): bring it back, or choose another")]
    Missing {
        /// The name.
        tier: String,
        /// What was found instead.
        why: String,
    },
    /// The same tier twice, and the same encoding.
    #[error("tier {tier:?} is named twice: each copy needs a tier of its own, or an encoding")]
    Twice {
        /// The name.
        tier: String,
    },
    /// More copies than a replica set has.
    #[error("{copies} copies were asked for: at most {COPIES_MOST} are possible")]
    Copies {
        /// The number of copies.
        copies: usize,
    },
    /// No column of that name.
    #[error("table {table:?} has no column {column:?} that could have copies of its own")]
    Column {
        /// The table.
        table: String,
        /// The name.
        column: String,
    },
    /// A name behind a tier's that is no encoding's.
    #[error("{given:?}: {why}")]
    Encoding {
        /// The tier with the encoding.
        given: String,
        /// What is wrong with it.
        why: String,
    },
    /// The database's choice beside a tier, or for all columns.
    #[error(
        "{:?} stands alone, and for one column: 'c.replicas' = '{}'",
        Replicas::AUTO,
        Replicas::AUTO
    )]
    Auto,
    /// An encoding for all columns.
    #[error(
        "{given:?} names an encoding, which not every column can have: name encodings column by column"
    )]
    TableEncoding {
        /// The tier with the encoding.
        given: String,
    },
    /// An encoding that the column's type does not have.
    #[error("column {column:?}: {ty} cannot be stored with encoding {encoding}: choose another")]
    EncodingType {
        /// The column.
        column: String,
        /// Its type.
        ty: LogicalType,
        /// The encoding.
        encoding: Encoding,
    },
    /// Codes of a dictionary in a replica beyond the first.
    #[error(
        "column {column:?}: only its first replica can hold codes of a dictionary: name the tier with encoding dictionary first, or leave it out"
    )]
    DictionaryFirst {
        /// The column.
        column: String,
    },
    /// Something else than codes in the first replica of a column with an index.
    #[error(
        "column {column:?} has an index, which needs encoding dictionary in its first replica, not {encoding}: name a tier without an encoding first"
    )]
    Index {
        /// The column.
        column: String,
        /// The encoding.
        encoding: Encoding,
    },
    /// More replicas than a chunk can have while its column's placement changes.
    #[error(
        "column {column:?} has {stored} replicas of rows that wait to be given up, and needs {missing} more: at most {REPLICAS_MOST} are possible; \
         name fewer new encodings, or let it reach another placement first"
    )]
    Changing {
        /// The column.
        column: String,
        /// The replicas that there are.
        stored: usize,
        /// Those to be made.
        missing: usize,
    },
    /// A column without any tier.
    #[error("column {column:?} is to have copies in no tier: name at least one")]
    None {
        /// The column.
        column: String,
    },
}

impl Replicas {
    /// Leaves a column's replicas to the database: in the tiers of its table or, if that is one, in it and the first other one that is
    /// open. Integers, decimals of up to 18 digits, dates and timestamps are `static` and `dynamic` by turns, unless the column declares
    /// an encoding or an index; other columns have the same bytes in each. The choice is made when this is given:
    /// [`Table::replicas`](crate::Table::replicas) names it.
    pub const AUTO: &str = "auto";

    /// Copies of the whole table in these tiers, the master's first.
    pub fn of_table<N: Into<String>>(tiers: impl IntoIterator<Item = N>) -> Replicas {
        Replicas {
            table: tiers.into_iter().map(Into::into).collect(),
            columns: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TY: LogicalType = LogicalType::Integer;
    const FAR: TierId = TierId(0);
    const B: TierId = TierId(3);

    fn placement(of_first: Vec<(TierId, Option<Encoding>)>) -> ReplicaPlacement {
        ReplicaPlacement {
            table: vec![FAR],
            columns: [(0, PlacedReplica::grouped(of_first))].into(),
        }
    }

    #[test]
    fn copies_in_one_encoding_are_one_replica() {
        let (fixed, dynamic) = (Some(Encoding::Static), Some(Encoding::Dynamic));
        let placement = placement(vec![(FAR, fixed), (B, dynamic), (B, fixed)]);
        let replicas: Vec<_> = placement.replicas(0).collect();
        assert_eq!(replicas, [(fixed, &[FAR, B][..]), (dynamic, &[B][..])]);
        assert_eq!(
            placement.replicas(1).collect::<Vec<_>>(),
            [(None, &[FAR][..])]
        );
        assert_eq!(placement.of_column(0), [FAR, B]);
        assert!(placement.are_alike(1, 2) && !placement.are_alike(0, 1));
    }

    #[test]
    fn what_is_stored_is_kept_where_it_is_asked_for() {
        let (own, fixed, dynamic) = (None, Some(Encoding::Static), Some(Encoding::Dynamic));
        let matched = |wanted: &[Option<Encoding>], stored: &[Encoding]| {
            let placed = wanted.iter().map(|encoding| (FAR, *encoding));
            placement(placed.collect()).matched(0, stored)
        };
        let stored = [Encoding::Dynamic, Encoding::Static];
        assert_eq!(matched(&[fixed, dynamic], &stored), [Some(1), Some(0)]);
        assert_eq!(matched(&[own], &stored), [Some(0)]);
        // What is named goes first.
        assert_eq!(matched(&[own, dynamic], &stored), [Some(1), Some(0)]);
        assert_eq!(matched(&[fixed, own], &[Encoding::Static]), [Some(0), None]);
        let twice = [Encoding::Plain; 2];
        assert_eq!(
            matched(&[own, Some(Encoding::Plain)], &twice),
            [Some(0), Some(1)]
        );
        // Codes stay in the first.
        let codes = [Encoding::Dictionary];
        assert_eq!(matched(&[own, fixed], &codes), [Some(0), None]);
        assert_eq!(matched(&[fixed, own], &codes), [None, None]);
    }

    /// A manifest with more could not be read again.
    #[test]
    fn a_chunk_has_no_more_replicas_than_a_manifest_can_name() {
        let ints = Encoding::ALL.into_iter().filter(|it| it.supports(TY));
        let named: Vec<_> = ints.take(COPIES_MOST).collect();
        let placed = named.iter().map(|encoding| (FAR, Some(*encoding)));
        let placement = placement(placed.collect());
        let spec = ColumnSpec::new("c", TY);
        let check = |stored: &[Encoding]| placement.check_room(0, stored, &spec);
        let plain = |count: usize| vec![Encoding::Lz4High; count];
        assert_eq!(check(&plain(COPIES_MOST)), Ok(()));
        let error = check(&plain(COPIES_MOST + 1)).unwrap_err();
        assert!(matches!(error, ReplicasError::Changing { stored: 10, .. }));
        let error = error.to_string();
        for part in [
            "column \"c\" has 10 replicas",
            "needs 9 more",
            "at most 18",
            "name fewer",
        ] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
        // Those that stay are no more.
        let both = [&named[..], &plain(COPIES_MOST)].concat();
        assert_eq!(check(&both), Ok(()));
    }
}
