//! A backup that builds on older ones restores what the database had, needs exactly those, and writes only what they lack.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tierra_engine::{Backup, BackupError, BackupOptions, BackupSummary, Database, RestoreOptions};
use tierra_memory::faults::Stop;

use crate::changed::{self, Model};
use crate::support::options;

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
        Place(dir.unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn take(
        &self,
        database: &Database,
        name: &str,
        since: Option<&str>,
    ) -> Result<BackupSummary, BackupError> {
        let how = BackupOptions {
            since: since.map(|since| self.path(since)),
            ..BackupOptions::default()
        };
        database.backup(&self.path(name), &how, |_| {})
    }

    /// Restores a backup and compares its only table.
    fn check(&self, backup: &Backup, model: &Model) {
        backup.check(&Stop::default(), |_| {}).unwrap();
        let dir = self.path("restored");
        backup
            .restore(&dir, &options(), &RestoreOptions::default(), |_| {})
            .unwrap();
        let database = Database::open(&dir, &options()).unwrap();
        let table = database.table("t").unwrap();
        changed::check(&table.snapshot(), model, &[], &[]);
        drop((table, database));
        fs::remove_dir_all(&dir).unwrap();
    }
}

/// Appends a segment of new rows and some to the tail, and deletes some old ones.
fn day(database: &Arc<Database>, model: &mut Model, number: i64) {
    let table = database.table("t").unwrap();
    let some: Vec<(i64, i64)> = (0..70_000)
        .map(|key| (number * 100_000 + key, number))
        .collect();
    changed::commit(database, &table, &[], &some).unwrap();
    let few = [(number * 100_000 + 90_000, 0)];
    let gone: Vec<i64> = model
        .keys()
        .copied()
        .filter(|key| key % 1000 == number)
        .collect();
    changed::commit(database, &table, &gone, &few).unwrap();
    gone.iter().for_each(|key| {
        model.remove(key);
    });
    model.extend(some.into_iter().chain(few));
    database.wait_for_near_copies().unwrap();
}

#[test]
fn a_backup_since_another_has_only_what_is_new() {
    let place = Place::new();
    let database = Database::create(&place.path("db"), &options()).unwrap();
    database.create_table(changed::spec("t", true)).unwrap();
    let mut models = Vec::new();
    let mut model = Model::new();
    let names = ["monday", "tuesday", "wednesday", "thursday"];
    let mut sizes = Vec::new();
    for (number, name) in (0..).zip(names) {
        day(&database, &mut model, number);
        let since = (number > 0).then(|| names[number as usize - 1]);
        let taken = place.take(&database, name, since).unwrap();
        assert_eq!(taken.rows, model.len() as u64);
        sizes.push(taken.file_bytes);
        models.push(model.clone());
    }
    let whole = place.take(&database, "whole", None).unwrap().file_bytes;
    assert!(sizes[3] * 2 < whole, "{sizes:?}, {whole}");
    for (name, model) in names.iter().zip(&models) {
        place.check(&Backup::open(&place.path(name)).unwrap(), model);
    }
    // Nothing is new but the time.
    let again = place.take(&database, "again", Some("thursday")).unwrap();
    assert!(again.file_bytes < 100_000, "{again:?}");
    place.check(&Backup::open(&place.path("again")).unwrap(), &models[3]);
    // One that is elsewhere is named.
    fs::rename(place.path("tuesday"), place.path("away")).unwrap();
    let error = Backup::open(&place.path("thursday")).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, BackupError::Older { .. }), "{text}");
    assert!(
        text.contains("wednesday") && text.contains("\"tuesday\""),
        "{text}"
    );
    let backup = Backup::open_with(&place.path("thursday"), &[place.path("away")]).unwrap();
    place.check(&backup, &models[3]);
    // Another backup in its place.
    fs::copy(place.path("whole"), place.path("tuesday")).unwrap();
    let text = Backup::open(&place.path("thursday"))
        .unwrap_err()
        .to_string();
    assert!(text.contains("another one"), "{text}");
    // Damage of an older one is found.
    fs::rename(place.path("away"), place.path("tuesday")).unwrap();
    let mut bytes = fs::read(place.path("monday")).unwrap();
    bytes[1000] ^= 1;
    fs::write(place.path("monday"), bytes).unwrap();
    let backup = Backup::open(&place.path("thursday")).unwrap();
    let error = backup.check(&Stop::default(), |_| {}).unwrap_err();
    assert!(error.to_string().contains("monday"), "{error}");
    let restored = place.path("restored");
    let how = RestoreOptions::default();
    assert!(backup.restore(&restored, &options(), &how, |_| {}).is_err());
    assert!(!restored.exists());
}

#[test]
fn only_a_backup_of_an_earlier_state_is_built_on() {
    let place = Place::new();
    let database = Database::create(&place.path("db"), &options()).unwrap();
    database.create_table(changed::spec("t", true)).unwrap();
    let mut model = Model::new();
    day(&database, &mut model, 0);
    place.take(&database, "first", None).unwrap();
    drop(database);
    Backup::open(&place.path("first"))
        .unwrap()
        .restore(
            &place.path("copy"),
            &options(),
            &RestoreOptions::default(),
            |_| {},
        )
        .unwrap();
    let copy = Database::open(&place.path("copy"), &options()).unwrap();
    let refused = place.take(&copy, "second", Some("first")).unwrap_err();
    assert!(matches!(refused, BackupError::Since { .. }), "{refused}");
    assert!(!place.path("second").exists() && !place.path("second.partial").exists());
    day(&copy, &mut model, 1);
    place.take(&copy, "second", None).unwrap();
    day(&copy, &mut model, 2);
    place.take(&copy, "third", Some("second")).unwrap();
    place.check(&Backup::open(&place.path("third")).unwrap(), &model);
    // What was merged or compacted since is new.
    let table = copy.table("t").unwrap();
    let most: Vec<i64> = model.keys().copied().filter(|key| key % 3 > 0).collect();
    changed::commit(&copy, &table, &most, &[]).unwrap();
    model.retain(|key, _| key % 3 == 0);
    table.merge_dictionaries().unwrap();
    copy.wait_for_near_copies().unwrap();
    drop(table);
    place.take(&copy, "fourth", Some("third")).unwrap();
    place.check(&Backup::open(&place.path("fourth")).unwrap(), &model);
}
