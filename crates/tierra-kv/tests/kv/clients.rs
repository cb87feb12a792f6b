//! redis-py, as an independent implementation of the protocol: drives every command once.

use std::process::Command;

use super::support::Tierra;

/// Where Python has no redis-py nothing is driven.
#[test]
fn redis_py_drives_every_command() {
    let python = std::env::var("TIERRA_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let imports = Command::new(&python).args(["-c", "import redis"]).output();
    if !imports.is_ok_and(|output| output.status.success()) {
        println!("{python} has no redis-py: nothing is driven");
        return;
    }
    let tierra = Tierra::start("--enable-debug-command yes");
    let script = "tests/kv/every_command.py";
    for protocol in ["2", "3"] {
        let run = Command::new(&python)
            .args(["-W", "ignore", script])
            .arg(&tierra.path)
            .arg(protocol)
            .output();
        let run = run.unwrap();
        let told = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "RESP{protocol}: {told}");
    }
}
