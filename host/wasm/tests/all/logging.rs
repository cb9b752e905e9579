//! A plugin's lines reach the host's log, and can do no more there than be read.
#![allow(
    clippy::disallowed_types,
    reason = "how many lines a plugin may write depends on real time"
)]

use std::sync::{Arc, Mutex};
use std::time::Instant;

use pilothouse_core::plugin::Plugin;
use pilothouse_wasm::{LimitPolicy, RunOptions, WasmPlugin};

use crate::support::{Guest, LOG, guest, reader, request};

/// What was logged while `guest` ran once.
pub fn logged_by(guest: &Guest) -> String {
    logged_by_runs(&guest.plugin(), 1)
}

/// What was logged while `plugin` ran so often.
pub fn logged_by_runs(plugin: &WasmPlugin, runs: usize) -> String {
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
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        for _ in 0..runs {
            drop(plugin.reconcile(&request("a"), &mut reader()));
        }
    });
    let bytes = sink.0.lock().unwrap();
    String::from_utf8(bytes.clone()).unwrap()
}

#[test]
fn a_line_says_whose_it_is_and_is_escaped() {
    let line = guest()
        .with(LOG)
        .reconciling(
            r#"(i32.store8 (i32.const 97) (i32.const 10)) (call $log (i32.const 2) (i32.const 96) (i32.const 2) (i32.const 0) (i32.const 0))"#,
        );
    let log = logged_by(&line);
    assert_eq!(log.lines().count(), 1, "{log}");
    for part in ["WARN plugin: a\\n", r#"plugin="guest""#, "object=default/a"] {
        assert!(log.contains(part), "{part} in {log}");
    }
}

#[test]
fn a_flood_is_cut_off_and_counted() {
    let flood = guest().with(LOG).reconciling(
        "(local $i i32) (loop $l (call $log (i32.const 1) (i32.const 96) (i32.const 1) (i32.const 0) (i32.const 0))
            (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 5000))))",
    );
    let log = logged_by(&flood);
    assert_eq!(log.lines().count(), 101);
    assert!(
        log.lines()
            .last()
            .unwrap()
            .contains("dropped=4900 limit=100"),
        "{log}"
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
    let (own, said): (Vec<&str>, Vec<&str>) = log
        .lines()
        .partition(|line| !line.contains("plugin logs too much"));
    // Ten at once, and one a second while this takes.
    assert!((10..=11 + seconds).contains(&own.len()), "{log}");
    assert_eq!(said.len(), 1, "{log}");
    assert_eq!(plugin.dropped_log_lines() + own.len() as u64, 1_000);
}
