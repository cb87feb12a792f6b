//! Reduces a failing case: fewer and plainer choices for its query, then fewer rows.

use super::case::Case;
use super::choices::Choices;
use super::engine::Peer;
use super::judge::{Verdict, What};
use super::table::{Column, Table};
use super::{CASES_OF_A_SET, Dialect, Fuzzer, mixed};
use crate::error::LabError;

/// The most queries that are tried.
const MOST_TRIALS: usize = 500;
/// The most sets of rows that are tried.
const MOST_LOADS: usize = 60;

impl<P: Peer> Fuzzer<'_, P> {
    /// The smallest case found with the same difference. Afterwards other tables may be loaded.
    pub(super) fn smaller(
        &mut self,
        number: u64,
        tables: &[Table],
        what: &What,
    ) -> Result<(Case, Vec<Table>, What), LabError> {
        let sqlite = self.peer.dialect() == Dialect::Sqlite;
        let mut choices = Choices::seeded(mixed(number));
        let mut best = (Case::new(&mut choices, tables, sqlite), what.clone());
        let mut list = choices.made();
        let mut trials = 0;
        // Blocks are removed, then made plain, then single choices lowered; this is repeated while it helps.
        let mut helped = true;
        while helped && trials < MOST_TRIALS {
            helped = false;
            for size in [64, 16, 8, 4, 3, 2, 1] {
                let mut at = 0;
                while at < list.len() && trials < MOST_TRIALS {
                    let end = (at + size).min(list.len());
                    let mut shorter = list.clone();
                    shorter.drain(at..end);
                    let mut plainer = list.clone();
                    plainer[at..end].fill(0);
                    let mut lower = list.clone();
                    lower[at] /= 2;
                    let mut found = false;
                    for candidate in [shorter, plainer, lower] {
                        if candidate == list {
                            continue;
                        }
                        trials += 1;
                        let mut choices = Choices::repeated(candidate);
                        let case = Case::new(&mut choices, tables, sqlite);
                        let made = choices.made();
                        if (made.len(), &made) >= (list.len(), &list)
                            || case.left.join("").len() > best.0.left.join("").len()
                        {
                            continue;
                        }
                        if let Some(still) = self.still(&case, what)? {
                            (best, list, found) = ((case, still), made, true);
                            break;
                        }
                    }
                    helped |= found;
                    if !found {
                        at += 1;
                    }
                }
            }
        }
        let (case, what) = best;
        let (tables, what) = self.fewer_rows(number / CASES_OF_A_SET, &case, tables, what)?;
        Ok((case, tables, what))
    }

    /// The difference of a case, if it is of this sort.
    fn still(&mut self, case: &Case, what: &What) -> Result<Option<What>, LabError> {
        Ok(match self.verdict(case)? {
            Verdict::Differs(found) | Verdict::Refused(found) if found.sort == what.sort => {
                Some(found)
            }
            _ => None,
        })
    }

    fn fewer_rows(
        &mut self,
        set: u64,
        case: &Case,
        tables: &[Table],
        what: What,
    ) -> Result<(Vec<Table>, What), LabError> {
        let named = |table: &Table| {
            let name = format!("{} AS ", table.name);
            case.statements()
                .iter()
                .any(|statement| statement.contains(&name))
        };
        let mut tables: Vec<Table> = tables
            .iter()
            .filter(|table| named(table))
            .cloned()
            .collect();
        let mut what = what;
        let mut loads = 0;
        let text = case.statements().join(" ");
        for index in 0..tables.len() {
            let mut fewer = tables.clone();
            let table = &mut fewer[index];
            let columns = std::mem::take(&mut table.columns).into_iter();
            let named = |column: &Column| {
                column.name.starts_with("id") || text.contains(&format!(".{}", column.name))
            };
            table.columns = columns.filter(named).collect();
            self.load(&fewer, set)?;
            if let Some(found) = self.still(case, &what)? {
                (tables, what) = (fewer, found);
            }
        }
        for index in 0..tables.len() {
            let mut size = tables[index].rows();
            while size > 0 && loads < MOST_LOADS {
                let mut at = 0;
                while at < tables[index].rows() && loads < MOST_LOADS {
                    let mut fewer = tables.clone();
                    fewer[index].take_away(at, size);
                    loads += 1;
                    self.load(&fewer, set)?;
                    match self.still(case, &what)? {
                        Some(found) => (tables, what) = (fewer, found),
                        None => at += size,
                    }
                }
                size /= 2;
            }
        }
        Ok((tables, what))
    }
}
