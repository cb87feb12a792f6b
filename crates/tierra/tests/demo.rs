//! The promise of `tierra demo`: every answer right, both tiers in use, no other files touched.
#![cfg(feature = "cli")]

mod binary;

use std::fs;

use binary::tierra;

#[test]
fn the_demo_runs_again_and_again() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("demo").display().to_string();
    // The second run replaces what the first left. Few rows stay in tails, so only the first is
    // large enough to fill both tiers.
    for scale in ["0.02", "0.001"] {
        let ended = tierra(["demo", "--scale", scale, "--dir", &dir]).well();
        assert_eq!(ended.out.matches("  right\n").count(), 15, "{}", ended.out);
        for part in [
            "Q1.1",
            "Q4.3",
            "IN (10000)",
            "SELECT * (1000 columns)",
            "All 15 answers are right",
            &format!("sql --db {dir}"),
        ] {
            assert!(ended.out.contains(part), "no {part:?} in: {}", ended.out);
        }
        let tiers = if scale == "0.02" {
            &["near", "far"][..]
        } else {
            &["far"]
        };
        for tier in tiers {
            let line = ended
                .out
                .lines()
                .find(|line| line.starts_with(&format!("{tier} ")));
            let line = line.unwrap_or_else(|| panic!("no {tier} tier in: {}", ended.out));
            assert!(!line.contains("  0 B  "), "{line}");
        }
        // What is said of near memory first is what the table says of it.
        let (_, budget) = ended.out.split_once(" with ").expect(&ended.out);
        let (budget, _) = budget.split_once(" of near memory").expect(budget);
        let near = ended.out.lines().find(|line| line.starts_with("near "));
        let near = near.expect(&ended.out);
        assert!(near.contains(&format!("  {budget}  ")), "{near}, {budget}");
        assert!(
            ended.out.contains("always near, beside copies: "),
            "{}",
            ended.out
        );
    }
    let count = "SELECT count(*) AS n FROM wide";
    let ended = tierra(["sql", "--db", &dir, "--format=csv", "-c", count]).well();
    assert_eq!(ended.out, "n\n1000\n");
}

#[test]
fn a_directory_of_somebody_else_s_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("thesis.txt"), "years of work").unwrap();
    let dir = scratch.path().display().to_string();
    tierra(["demo", "--dir", &dir]).with_error(&[&dir, "--dir"]);
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
}
