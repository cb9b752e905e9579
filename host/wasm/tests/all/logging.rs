//! A plugin's lines reach the host's log and can have no other effect there.
#![allow(
    clippy::disallowed_types,
    reason = "how many lines a plugin may write depends on real time"
)]

use std::sync::{Arc, Mutex};
use std::time::Instant;

use pilothouse_core::Plugin;
use pilothouse_wasm::{LOG_FIELDS, LOG_TARGET, LimitPolicy, RunOptions, WasmPlugin};
use serde_json::{Value, json};

use crate::support::{Guest, LOG, guest, reader, request, subscribed};

/// The lines logged while `guest` ran once.
pub fn logged_by(guest: &Guest) -> Vec<Value> {
    logged_by_runs(&guest.plugin(), 1)
}

/// The lines logged while `plugin` ran as many times as `runs`.
pub fn logged_by_runs(plugin: &WasmPlugin, runs: usize) -> Vec<Value> {
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let sink = Sink::default();
    let writer = sink.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_writer(move || writer.clone())
        .finish();
    let guard = subscribed(subscriber);
    for _ in 0..runs {
        drop(plugin.reconcile(&request("a"), &mut reader()));
    }
    drop(guard);
    let bytes = sink.0.lock().unwrap();
    let lines = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

/// The plugin's own fields in a line.
fn fields(line: &Value) -> Value {
    serde_json::from_str(line[LOG_FIELDS].as_str().unwrap()).unwrap()
}

#[test]
fn a_line_says_whose_it_is_and_has_the_plugin_s_fields() {
    let line = guest().with(LOG).with_pages(3).reconciling(
        // The message "a\n", and twice the field "v1" with the value "Pod".
        r#"(i32.store8 (i32.const 97) (i32.const 10))
            (i32.store (i32.const 500) (i32.const 64)) (i32.store (i32.const 504) (i32.const 2))
            (i32.store (i32.const 508) (i32.const 72)) (i32.store (i32.const 512) (i32.const 3))
            (memory.copy (i32.const 516) (i32.const 500) (i32.const 16))
            (call $log (i32.const 2) (i32.const 96) (i32.const 2) (i32.const 500) (i32.const 2))"#,
    );
    let log = logged_by(&line);
    assert_eq!(log.len(), 1, "{log:?}");
    let line = &log[0];
    for (name, value) in [
        ("level", "WARN"),
        ("target", LOG_TARGET),
        ("message", "a\n"),
        ("plugin", "guest"),
        ("object", "default/a"),
    ] {
        assert_eq!(line[name], value, "{line}");
    }
    assert_eq!(fields(line), json!([["v1", "Pod"], ["v1.2", "Pod"]]));
}

/// Logs 5,000 lines in one run.
fn flood() -> Guest {
    guest().with(LOG).reconciling(
        "(local $i i32) (loop $l (call $log (i32.const 1) (i32.const 96) (i32.const 1) (i32.const 0) (i32.const 0))
            (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 5000))))",
    )
}

#[test]
fn a_flood_is_cut_off_and_counted() {
    let log = logged_by(&flood());
    assert_eq!(log.len(), 101);
    assert_eq!(
        fields(log.last().unwrap()),
        json!([["dropped", "4900"], ["limit_per_run", "100"]])
    );
}

#[test]
fn of_dropped_lines_every_limit_is_named_that_they_exceeded() {
    let options = RunOptions {
        log_lines: 1,
        ..RunOptions::default()
    };
    let plugin = flood().plugin().with(&LimitPolicy::default(), options);
    let log = logged_by_runs(&plugin, 1);
    let dropped = plugin.dropped_log_lines();
    assert_eq!(dropped, 5_000 - (log.len() as u64 - 1));
    assert_eq!(
        fields(log.last().unwrap()),
        json!([
            ["dropped", dropped.to_string()],
            ["limit_per_run", "100"],
            ["limit_per_second", "1"]
        ])
    );
}

#[test]
fn many_runs_together_are_cut_off_too_and_said_to_be_once() {
    let chatty = guest().with(LOG).reconciling(
        "(local $i i32) (loop $l (call $log (i32.const 1) (i32.const 96) (i32.const 1) (i32.const 0) (i32.const 0))
            (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 50))))",
    );
    let options = RunOptions {
        log_lines: 1,
        ..RunOptions::default()
    };
    let plugin = chatty.plugin().with(&LimitPolicy::default(), options);
    let began = Instant::now();
    let log = logged_by_runs(&plugin, 20);
    let seconds = began.elapsed().as_secs() as usize;
    let is_own = |line: &&Value| line["message"] == "a";
    let (own, said): (Vec<&Value>, Vec<&Value>) = log.iter().partition(is_own);
    // A burst of ten, and one more per second that this takes.
    assert!((10..=11 + seconds).contains(&own.len()), "{log:?}");
    assert_eq!(said.len(), 1, "{log:?}");
    assert_eq!(fields(said[0])[1], json!(["limit_per_second", "1"]));
    assert_eq!(fields(said[0])[2], Value::Null, "no run exceeded its own");
    assert_eq!(plugin.dropped_log_lines() + own.len() as u64, 1_000);
}
