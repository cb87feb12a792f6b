//! Which copies a column has: the policies of the figures.
//!
//! [`Policy::asked`] alone decides what the engine is asked for. Which of several copies is read is the engine's choice.

use std::collections::BTreeMap;
use std::fmt;

use tierra_column::Encoding;
use tierra_engine::Replicas;

/// The key of a policy in rows.
pub(super) const POLICY: &str = "policy";

/// Where a copy lies. All of it belongs to the socket on which threads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A far tier of this name.
    Tier(&'static str),
    /// Near memory. A far copy is there as well, in the same encoding if the policy names none: without one nothing is durable.
    Near,
}

/// The tier that a database is created with.
pub(super) const FAR: Place = Place::Tier("far");
/// A second one.
pub(super) const B: Place = Place::Tier("b");

impl Place {
    const fn name(self) -> &'static str {
        match self {
            Place::Tier(name) => name,
            Place::Near => "near",
        }
    }
}

/// A copy of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlacedCopy {
    pub(super) place: Place,
    /// `None`: the engine's choice.
    pub(super) encoding: Option<Encoding>,
}

impl fmt::Display for PlacedCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.place.name())?;
        match self.encoding {
            Some(encoding) => write!(f, "/{encoding}"),
            None => Ok(()),
        }
    }
}

const fn copy(place: Place, encoding: Encoding) -> PlacedCopy {
    PlacedCopy {
        place,
        encoding: Some(encoding),
    }
}

/// A copy in the first far tier.
pub(super) const fn far(encoding: Encoding) -> PlacedCopy {
    copy(FAR, encoding)
}

/// A copy in the second far tier.
pub(super) const fn b(encoding: Encoding) -> PlacedCopy {
    copy(B, encoding)
}

/// A near copy.
pub(super) const fn near(encoding: Encoding) -> PlacedCopy {
    copy(Place::Near, encoding)
}

/// The copies that a column should have, the socket's own first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    copies: Vec<PlacedCopy>,
    /// Whether columns leave their encodings to the engine as a policy, instead of having the one that fits.
    is_auto: bool,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let copies: Vec<String> = self.copies.iter().map(PlacedCopy::to_string).collect();
        match self.is_auto {
            true => write!(f, "{} ({})", Replicas::AUTO, copies.join(", ")),
            false => f.write_str(&copies.join(", ")),
        }
    }
}

/// What the engine is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// The tiers of a column, with encodings.
    pub(super) tiers: Vec<String>,
    /// Whether the column is copied near.
    pub(super) near: bool,
    /// The encoding of that copy, if it is not that of the far copy that would be read without it.
    pub(super) near_encoding: Option<Encoding>,
}

impl Policy {
    /// These copies.
    pub(super) fn of(copies: &[PlacedCopy]) -> Policy {
        Policy {
            copies: copies.to_vec(),
            is_auto: false,
        }
    }

    /// The policy that the engine makes for these places.
    pub(super) fn automatic(places: &[Place]) -> Policy {
        Policy {
            is_auto: true,
            ..Policy::chosen_by_engine(places)
        }
    }

    /// Copies in these far tiers whose encoding the engine chooses.
    pub(super) fn chosen_by_engine(places: &[Place]) -> Policy {
        let copy = |place: &Place| PlacedCopy {
            place: *place,
            encoding: None,
        };
        Policy {
            copies: places.iter().map(copy).collect(),
            is_auto: false,
        }
    }

    /// The copies.
    pub(super) fn copies(&self) -> &[PlacedCopy] {
        &self.copies
    }

    /// The same places, without encodings: for columns that cannot be packed as the policy says.
    pub(super) fn places(&self) -> Policy {
        let mut places: Vec<PlacedCopy> = Vec::new();
        for PlacedCopy { place, .. } in &self.copies {
            if places.iter().all(|copy| copy.place != *place) {
                let (place, encoding) = (*place, None);
                places.push(PlacedCopy { place, encoding });
            }
        }
        Policy {
            copies: places,
            is_auto: false,
        }
    }

    /// What the engine is asked for.
    pub(super) fn asked(&self) -> Asked {
        let is_near = |copy: &&PlacedCopy| copy.place == Place::Near;
        let (near, far): (Vec<&PlacedCopy>, Vec<&PlacedCopy>) =
            self.copies.iter().partition(is_near);
        let near = near.first();
        let mut tiers: Vec<String> = far.iter().map(|copy| copy.to_string()).collect();
        if let (Some(near), true) = (near, far.is_empty()) {
            let place = FAR;
            tiers.push(PlacedCopy { place, ..**near }.to_string());
        }
        let is_another = |encoding: &Encoding| {
            !far.is_empty() && far.iter().all(|far| far.encoding != Some(*encoding))
        };
        Asked {
            tiers,
            near: near.is_some(),
            near_encoding: near.and_then(|near| near.encoding).filter(is_another),
        }
    }

    /// The same for some columns of a table, and the places alone for all others.
    pub(super) fn replicas<'c>(&self, columns: impl IntoIterator<Item = &'c str>) -> Replicas {
        let tiers = match self.is_auto {
            true => vec![Replicas::AUTO.to_owned()],
            false => self.asked().tiers,
        };
        let columns = columns.into_iter();
        let columns = columns.map(|column| (column.to_owned(), tiers.clone()));
        Replicas {
            table: self.places().asked().tiers,
            columns: BTreeMap::from_iter(columns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_copy_has_a_far_one_beside_it() {
        let asked = |copies: &[PlacedCopy]| {
            let asked = Policy::of(copies).asked();
            (asked.tiers.join(", "), asked.near, asked.near_encoding)
        };
        let (fixed, plain) = (Encoding::Static, Encoding::Plain);
        assert_eq!(
            asked(&[far(fixed), b(plain)]),
            ("far/static, b/plain".to_owned(), false, None)
        );
        for copies in [&[near(fixed)][..], &[far(fixed), near(fixed)]] {
            assert_eq!(asked(copies), ("far/static".to_owned(), true, None));
        }
        assert_eq!(
            asked(&[far(plain), near(fixed)]),
            ("far/plain".to_owned(), true, Some(fixed))
        );
        let own = Policy::chosen_by_engine(&[FAR, B]);
        assert_eq!(own.asked().tiers, ["far", "b"]);
    }

    #[test]
    fn columns_that_cannot_be_packed_lie_in_the_same_tiers() {
        let policy = Policy::of(&[
            far(Encoding::Static),
            far(Encoding::Plain),
            b(Encoding::Static),
        ]);
        let replicas = policy.replicas(["n"]);
        assert_eq!(replicas.table, ["far", "b"]);
        assert_eq!(
            replicas.columns["n"],
            ["far/static", "far/plain", "b/static"]
        );
        let replicas = Policy::automatic(&[FAR, B]).replicas(["n"]);
        assert_eq!(replicas.table, ["far", "b"]);
        assert_eq!(replicas.columns["n"], ["auto"]);
    }
}
