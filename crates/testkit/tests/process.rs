//! Programs that a test starts.

use std::time::Duration;
use testkit::{Process, which_or_explain};

fn shell(script: &str) -> Process {
    Process::start(which_or_explain("sh", "apt-get install dash"), ["-c", script])
}

#[tokio::test]
async fn a_line_is_found_by_its_prefix_and_the_others_are_kept() {
    let mut process = shell("echo starting; echo listening on http://127.0.0.1:1; echo key: demo");
    assert_eq!(process.line_after("listening on ").await, "http://127.0.0.1:1");
    assert_eq!(process.line().await.as_deref(), Some("starting"));
    assert_eq!(process.line_after("key: ").await, "demo");
    assert_eq!(process.line().await, None);
    assert!(process.exit().await.success());
}

#[tokio::test]
#[should_panic(expected = "ended before a line that begins with \"listening on \"")]
async fn a_program_that_ends_early_is_told_with_what_it_said() {
    shell("echo no port is free; exit 1")
        .line_after("listening on ")
        .await;
}

#[tokio::test]
async fn a_program_ends_when_it_is_asked_to() {
    let mut process = shell("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done");
    process.line_after("up").await;
    process.terminate();
    assert_eq!(process.exit().await.code(), Some(3));
    assert_eq!(process.line_after("b").await, "ye");
}

#[tokio::test]
async fn a_program_is_killed_with_its_handle() {
    let mut process = shell("trap '' TERM; echo up; exec sleep 60");
    process.line_after("up").await;
    let folder = format!("/proc/{}", process.id().expect("it runs"));
    drop(process);
    for _ in 0..200 {
        let state = std::fs::read_to_string(format!("{folder}/stat")).unwrap_or_default();
        if state.is_empty() || state.contains(") Z ") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{folder} still runs");
}

#[test]
#[should_panic(expected = "`no-such-program` is not installed. Install it: apt-get install it")]
fn a_missing_program_is_told_with_the_command_that_installs_it() {
    which_or_explain("no-such-program", "apt-get install it");
}
