//! The tiers in which a database keeps copies: their numbers, their pools, and which are present.
//!
//! Invariant: a tier's number never changes and is never reused. A missing tier stays known, so that its data counts again when
//! it comes back. See `docs/replication.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tierra_column::Encoding;
use tierra_memory::{ExtentWriter, Finished, Pool, PoolError};

use crate::error::StorageError;
use crate::manifest::{ExtentId, TierEntry};
use crate::spec::TableSpec;
use crate::spec::replicas::{
    COPIES_MOST, PlacedReplica, ReplicaPlacement, Replicas, ReplicasError, TierId,
};
use crate::storage::access::Access;
use crate::storage::extent::{ExtentCopy, OwnedExtent, Owner};
use crate::storage::losses::Losses;
use crate::storage::tier::Tier;

/// The name of a new database's first tier.
pub(crate) const FIRST_NAME: &str = "far";
/// Between the name of a tier and that of an encoding; no tier's name has it.
const ENCODING_AFTER: char = '/';
/// The name of near memory in lists of tiers.
pub(crate) const NEAR_NAME: &str = "near";

/// A tier whose pool is missing.
#[derive(Clone, Debug)]
pub(crate) struct MissingTier {
    pub(crate) id: TierId,
    pub(crate) name: Arc<str>,
    pub(crate) pool_id: u64,
    /// What was found instead.
    pub(crate) why: Arc<str>,
}

/// The tiers of an open database, present and missing, each ordered by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tiers {
    pub(crate) open: Vec<Tier>,
    pub(crate) missing: Vec<MissingTier>,
    /// Tiers that were open before: snapshots may still read their data there.
    left: Vec<Tier>,
    pub(crate) losses: Arc<Losses>,
}

impl Tiers {
    /// The tier of a new database.
    pub(crate) fn first(pool: Arc<Pool>) -> Tiers {
        Tiers {
            open: vec![Tier::new(
                TierId::FIRST,
                FIRST_NAME,
                pool,
                Access::default(),
            )],
            ..Tiers::default()
        }
    }

    /// All tiers whose bytes may be read.
    #[inline]
    pub(crate) fn readable(&self) -> impl Iterator<Item = &Tier> {
        self.open.iter().chain(&self.left)
    }

    /// Removes an open tier, whose bytes may be read while extents there are referenced.
    pub(crate) fn leave(&mut self, id: TierId) -> Option<Tier> {
        let at = self.open.iter().position(|tier| tier.id == id)?;
        let tier = self.open.remove(at);
        self.left.retain(|tier| Arc::strong_count(&tier.pool) > 1);
        self.left.push(tier.clone());
        Some(tier)
    }

    /// Rejects extents with copies in a tier that was dropped since they were begun.
    pub(crate) fn check_known(&self, fresh: &[Arc<OwnedExtent>]) -> Result<(), StorageError> {
        let is_known = |id: TierId| {
            let mut missing = self.missing.iter();
            self.get(id).is_some() || missing.any(|tier| tier.id == id)
        };
        let mut copies = fresh.iter().flat_map(|extent| extent.copies());
        match copies.find(|copy| !is_known(copy.tier())) {
            None => Ok(()),
            Some(copy) => Err(StorageError::TierDropped {
                tier: copy.tier_name().to_string(),
            }),
        }
    }

    /// Their entries for a manifest.
    pub(crate) fn entries(&self) -> Vec<TierEntry> {
        let open = self.open.iter().map(|tier| TierEntry {
            id: tier.id,
            name: tier.name.to_string(),
            pool_id: tier.pool.id(),
            present: true,
        });
        let missing = self.missing.iter().map(|tier| TierEntry {
            id: tier.id,
            name: tier.name.to_string(),
            pool_id: tier.pool_id,
            present: false,
        });
        let mut entries: Vec<_> = open.chain(missing).collect();
        entries.sort_unstable_by_key(|tier| tier.id);
        entries
    }

    /// The tier of that number, if its pool is open.
    pub(crate) fn get(&self, id: TierId) -> Option<&Tier> {
        self.open.iter().find(|tier| tier.id == id)
    }

    /// The name of the tier of that number, open or not.
    pub(crate) fn name(&self, id: TierId) -> &str {
        let missing = || self.missing.iter().find(|tier| tier.id == id);
        self.get(id)
            .map(|tier| &*tier.name)
            .or_else(|| missing().map(|tier| &*tier.name))
            .unwrap_or("?")
    }

    /// The numbers of the tiers of `replicas`.
    pub(crate) fn settle(
        &self,
        replicas: &Replicas,
        spec: &TableSpec,
    ) -> Result<ReplicaPlacement, ReplicasError> {
        let mut placement = ReplicaPlacement {
            table: match replicas.table.is_empty() {
                true => self.open.iter().take(1).map(|tier| tier.id).collect(),
                false => {
                    let placed = self.by_names(&replicas.table)?;
                    let named = placed.iter().zip(&replicas.table);
                    let tier = |((tier, encoding), given): (&(TierId, _), &String)| match encoding {
                        None => Ok(*tier),
                        Some(_) => Err(ReplicasError::TableEncoding {
                            given: given.clone(),
                        }),
                    };
                    named.map(tier).collect::<Result<_, _>>()?
                }
            },
            columns: BTreeMap::new(),
        };
        for (column, names) in &replicas.columns {
            let at = spec.columns.iter().position(|known| known.name == *column);
            let at = at.ok_or_else(|| ReplicasError::Column {
                table: spec.name.clone(),
                column: column.clone(),
            })?;
            if names.is_empty() {
                return Err(ReplicasError::None {
                    column: column.clone(),
                });
            }
            let of_column = match *names == [Replicas::AUTO] {
                true => {
                    let mut tiers = placement.table.clone();
                    if let [of_table] = placement.table[..] {
                        let mut others = self.open.iter().map(|tier| tier.id);
                        tiers.extend(others.find(|tier| *tier != of_table));
                    }
                    PlacedReplica::automatic(&tiers, &spec.columns[at])
                }
                false => PlacedReplica::grouped(self.by_names(names)?),
            };
            PlacedReplica::check(&of_column, &spec.columns[at])?;
            placement.columns.insert(at, of_column);
        }
        Ok(placement)
    }

    /// The tiers of these names, with the encodings that follow some.
    fn by_names(&self, names: &[String]) -> Result<Vec<(TierId, Option<Encoding>)>, ReplicasError> {
        if names.len() > COPIES_MOST {
            return Err(ReplicasError::Copies {
                copies: names.len(),
            });
        }
        let mut placed = Vec::with_capacity(names.len());
        for given in names {
            if given == Replicas::AUTO {
                return Err(ReplicasError::Auto);
            }
            let (name, encoding) = match given.split_once(ENCODING_AFTER) {
                None => (given.as_str(), None),
                Some((name, encoding)) => {
                    let encoding = encoding.parse::<Encoding>();
                    let encoding = encoding.map_err(|error| ReplicasError::Encoding {
                        given: given.clone(),
                        why: error.to_string(),
                    })?;
                    (name, Some(encoding))
                }
            };
            let tier = name.to_owned();
            let open = self.open.iter().find(|tier| *tier.name == *name);
            let missing = || self.missing.iter().find(|tier| *tier.name == *name);
            let id = match (open, missing()) {
                (Some(open), _) => open.id,
                (None, Some(missing)) => {
                    let why = missing.why.to_string();
                    return Err(ReplicasError::Missing { tier, why });
                }
                (None, None) => {
                    let known: Vec<_> = self.open.iter().map(|tier| &*tier.name).collect();
                    let known = known.join(", ");
                    return Err(ReplicasError::Tier { tier, known });
                }
            };
            if placed.contains(&(id, encoding)) {
                let tier = given.clone();
                return Err(ReplicasError::Twice { tier });
            }
            placed.push((id, encoding));
        }
        Ok(placed)
    }

    /// The names from which [`Tiers::settle`] makes this placement.
    pub(crate) fn names(&self, placement: &ReplicaPlacement, spec: &TableSpec) -> Replicas {
        let name = |id: &TierId, encoding: Option<Encoding>| match encoding {
            None => self.name(*id).to_owned(),
            Some(encoding) => format!("{}{ENCODING_AFTER}{encoding}", self.name(*id)),
        };
        let column = |(at, replicas): (&usize, &Vec<PlacedReplica>)| {
            let names = replicas.iter().flat_map(|replica| {
                let tiers = replica.tiers.iter();
                tiers.map(|id| name(id, replica.encoding))
            });
            (spec.columns[*at].name.clone(), names.collect())
        };
        Replicas {
            table: placement.table.iter().map(|id| name(id, None)).collect(),
            columns: placement.columns.iter().map(column).collect(),
        }
    }

    /// Those of these tiers that are present; if none is, the first present tier: storing rows elsewhere is better than rejecting
    /// them.
    pub(crate) fn open_among<'a>(&'a self, placement: &[TierId]) -> Vec<&'a Tier> {
        let there: Vec<_> = placement.iter().filter_map(|id| self.get(*id)).collect();
        match there.is_empty() {
            true => self.open.first().into_iter().collect(),
            false => there,
        }
    }

    /// Allocates an extent in each of these tiers that is present.
    pub(crate) fn allocate(
        &self,
        id: ExtentId,
        placement: &[TierId],
        len_bytes: u64,
        owner: Owner,
    ) -> Result<CopiesWriter, PoolError> {
        let writers = self.open_among(placement).into_iter().map(|tier| {
            let writer = tier.pool.allocate(len_bytes, owner.tag())?;
            Ok((tier.clone(), writer))
        });
        let writers = writers.collect::<Result<Vec<_>, PoolError>>()?;
        Ok(CopiesWriter {
            id,
            owner,
            losses: self.losses.clone(),
            writers,
            copied: 0,
        })
    }
}

/// An extent being written, in all its copies at once.
///
/// Rows are written through the first copy; [`CopiesWriter::copy_up_to`] updates the others while the bytes are in a cache.
pub(crate) struct CopiesWriter {
    id: ExtentId,
    owner: Owner,
    losses: Arc<Losses>,
    /// At least one.
    writers: Vec<(Tier, ExtentWriter)>,
    copied: usize,
}

impl CopiesWriter {
    /// Declares the bytes before `end` final.
    pub(crate) fn copy_up_to(&mut self, end: usize) {
        let Some(((_, first), others)) = self.writers.split_first_mut() else {
            return;
        };
        for (_, other) in others {
            other[self.copied..end].copy_from_slice(&first[self.copied..end]);
        }
        self.copied = end;
    }

    /// Seals all copies. Until [`OwnedExtent::keep`] the space is freed with the last reference.
    pub(crate) fn finish(mut self) -> Result<Arc<OwnedExtent>, PoolError> {
        let len_bytes = self.len();
        self.copy_up_to(len_bytes);
        self.finish_with(ExtentWriter::finish)
    }

    /// Finishes all copies as logs.
    pub(crate) fn finish_log(self) -> Result<Arc<OwnedExtent>, PoolError> {
        self.finish_with(ExtentWriter::finish_log)
    }

    fn finish_with(
        self,
        finish: impl Fn(ExtentWriter) -> Result<Finished, PoolError>,
    ) -> Result<Arc<OwnedExtent>, PoolError> {
        let finished = self.writers.into_iter().map(|(tier, writer)| {
            let finished = finish(writer)?;
            Ok(ExtentCopy::of(&tier, &finished))
        });
        let copies = finished.collect::<Result<Vec<_>, PoolError>>()?;
        let (id, owner) = (self.id, self.owner);
        Ok(OwnedExtent::new(
            &self.losses,
            id,
            owner,
            copies,
            Vec::new(),
        ))
    }
}

impl std::ops::Deref for CopiesWriter {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.writers[0].1
    }
}

impl std::ops::DerefMut for CopiesWriter {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.writers[0].1
    }
}

impl fmt::Debug for CopiesWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CopiesWriter({:?}, {} copies)",
            self.id,
            self.writers.len()
        )
    }
}
