//! Ctrl-C, SIGTERM and SIGHUP in the middle of a run.
#![cfg(unix)]

use crate::support::Bench;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn ctrl_c_ends_the_run_quickly_without_output() {
    ends("-INT", 130, "logsum", "out.npy");
}

#[test]
fn so_does_sigterm() {
    ends("-TERM", 143, "logsum", "out.npy");
}

/// A terminal that is closed leaves no part of an output and no lock behind.
#[test]
fn so_does_sighup() {
    ends("-HUP", 129, "logsum", "out.npy");
}

#[test]
fn several_reductions_leave_no_folder_behind() {
    ends("-INT", 130, "logsum,sum,com", "out/");
}

fn ends(signal: &str, code: i32, reductions: &str, output: &str) {
    let bench = Bench::new();
    // 64 GiB without a byte on the disk: takes far longer than the test.
    File::create(bench.path("long.raw")).unwrap().set_len(64 << 30).unwrap();
    let line = format!(
        "run {reductions} long.raw --format raw --dtype uint8 --nav-shape 1048576 \
         --sig-shape 256,256 -o {output}"
    );
    let child = bench.command(&line).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    wait_for_handler(&child, signal);
    // Most of the time, the run has begun then; there is nothing of its output before its end.
    std::thread::sleep(Duration::from_millis(500));
    let start = Instant::now();
    let kill = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(code));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr, "framefold: 'long.raw': the run was cancelled\n");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(bench.names(), ["long.raw"]);
}

/// Waits until the process handles this signal.
#[cfg(target_os = "linux")]
fn wait_for_handler(child: &Child, signal: &str) {
    let number = match signal {
        "-HUP" => 1,
        "-INT" => 2,
        _ => 15,
    };
    let begin = Instant::now();
    let handles = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() >> (number - 1) & 1 == 1
    };
    while !handles() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not handle {signal}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(not(target_os = "linux"))]
fn wait_for_handler(_child: &Child, _signal: &str) {
    std::thread::sleep(Duration::from_secs(1));
}
