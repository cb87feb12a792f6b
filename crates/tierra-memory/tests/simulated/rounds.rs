//! Publications: each round stores two extents and a root that names them, and frees those of the round
//! before. Round `n` is step `n`.

use std::ops::RangeInclusive;

use super::*;

fn payload(round: u64, which: usize) -> Vec<u8> {
    let len = [200 + 37 * round as usize, 9000][which];
    (0..len)
        .map(|at| (at as u64 * 7 + round * 31 + which as u64) as u8)
        .collect()
}

pub(crate) fn run(rounds: u64) -> impl FnOnce(&Arc<Pool>, &Recorder) {
    move |pool, recorder| go_on(pool, recorder, Vec::new(), 1..=rounds)
}

/// As `run`, but each round frees what the published one names before it publishes.
pub(crate) fn run_freeing_early(pool: &Arc<Pool>, recorder: &Recorder) {
    let mut before: Vec<Extent> = Vec::new();
    for round in 1..=4 {
        for extent in before.drain(..) {
            pool.free(extent);
        }
        let data = [0, 1].map(|which| finish(pool, &payload(round, which)).extent());
        let mut root = round.to_le_bytes().to_vec();
        root.extend([0; 8]);
        root.extend(names(&data));
        let root = finish(pool, &root);
        pool.publish(&root).unwrap();
        recorder.acknowledge(round);
        before = [vec![root.extent()], data.to_vec()].concat();
    }
}

/// `before` are the extents of the round before the first one.
pub(crate) fn go_on(
    pool: &Arc<Pool>,
    recorder: &Recorder,
    mut before: Vec<Extent>,
    rounds: RangeInclusive<u64>,
) {
    for round in rounds {
        let data = [0, 1].map(|which| finish(pool, &payload(round, which)).extent());
        let mut root = round.to_le_bytes().to_vec();
        root.extend([0; 8]);
        root.extend(names(&data));
        // A writer given up leaves nothing.
        let mut given_up = pool.allocate(500, 0).unwrap();
        given_up.fill(round as u8);
        drop(given_up);
        let root = finish(pool, &root);
        pool.publish(&root).unwrap();
        recorder.acknowledge(round);
        let now = [vec![root.extent()], data.to_vec()].concat();
        for extent in std::mem::replace(&mut before, now) {
            pool.free(extent);
        }
    }
}

/// The round that a pool holds, all of it there, and its extents.
pub(crate) fn recover(pool: &Pool) -> Result<(u64, Vec<Extent>), String> {
    let text = |error: tierra_memory::PoolError| error.to_string();
    let Some(root) = pool.root() else {
        pool.retain(&[]).map_err(text)?;
        return Ok((0, Vec::new()));
    };
    pool.verify_extent(root).map_err(text)?;
    let bytes = pool.bytes(root);
    let found = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let mut extents = named(&bytes[16..]);
    pool.retain(&extents).map_err(text)?;
    for (which, extent) in extents.iter().enumerate() {
        pool.verify_extent(*extent).map_err(text)?;
        if pool.bytes(*extent) != payload(found, which) {
            return Err(format!("round {found} has other bytes"));
        }
    }
    extents.push(root);
    Ok((found, extents))
}

/// The round found is the one acknowledged or the next, and whole.
pub(crate) fn check(image: &Image<'_>) -> Result<(), String> {
    let pool = Pool::open(image.path, &options(&image.recorder));
    let pool = pool.map_err(|error| error.to_string())?;
    within_one_step(recover(&pool)?.0, image.acknowledged)
}
