//! The WASI that language runtimes get: an empty environment, which is the same in every run.

use pilothouse_core::{Plugin, RunError};
use pilothouse_wasm::{
    CodeCache, CompileOptions, Compiler, Engine, EngineOptions, LimitPolicy, WasmPlugin, load_with,
};

use crate::logging::logged_by;
use crate::support::{Guest, guest, reader, request, said};

const PACKAGES: &str = "
    package test:wasi;
    package wasi:random@0.2.6 {
        interface random { get-random-u64: func() -> u64; }
        interface insecure { get-insecure-random-u64: func() -> u64; }
        interface insecure-seed { insecure-seed: func() -> tuple<u64, u64>; }
    }
    package wasi:clocks@0.2.6 {
        interface monotonic-clock {
            use wasi:io/poll@0.2.6.{pollable};
            now: func() -> u64;
            subscribe-duration: func(when: u64) -> pollable;
        }
        interface wall-clock {
            record datetime { seconds: u64, nanoseconds: u32 }
            now: func() -> datetime;
        }
    }
    package wasi:sockets@0.2.6 { interface instance-network { resource network; instance-network: func() -> network; } }
    package wasi:cli@0.2.6 {
        interface exit { exit: func(status: result); }
        interface stderr { use wasi:io/streams@0.2.6.{output-stream}; get-stderr: func() -> output-stream; }
        interface stdout { use wasi:io/streams@0.2.6.{output-stream}; get-stdout: func() -> output-stream; }
    }
    package wasi:io@0.2.6 {
        interface error { resource error; }
        interface poll { resource pollable; poll: func(in: list<borrow<pollable>>) -> list<u32>; }
        interface streams {
            use error.{error};
            variant stream-error { last-operation-failed(error), closed }
            resource output-stream { blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>; }
        }
    }";
const WORLD: &str = "
  import wasi:random/random@0.2.6;
  import wasi:random/insecure@0.2.6;
  import wasi:random/insecure-seed@0.2.6;
  import wasi:clocks/monotonic-clock@0.2.6;
  import wasi:clocks/wall-clock@0.2.6;
  import wasi:io/poll@0.2.6;
  import wasi:sockets/instance-network@0.2.6;
  import wasi:cli/exit@0.2.6;
  import wasi:cli/stderr@0.2.6;
  import wasi:cli/stdout@0.2.6;";

fn wasi_guest() -> Guest {
    guest().of_world_with(WORLD, PACKAGES)
}

/// A guest that fails with a random number as its text, as eight letters.
fn drawing() -> Guest {
    wasi_guest()
        .with(r#"(import "wasi:random/random@0.2.6" "get-random-u64" (func $random (result i64)))"#)
        .reconciling("(i64.store (i32.const 500) (i64.or (i64.and (call $random) (i64.const 0x0f0f0f0f0f0f0f0f)) (i64.const 0x4040404040404040)))
            (call $fail (i32.const 500) (i32.const 8))")
}

fn drawn(plugin: &WasmPlugin, name: &str) -> String {
    said(plugin.reconcile(&request(name), &mut reader()).unwrap_err())
}

#[test]
fn random_bytes_depend_on_plugin_and_key() {
    let (plugin, other) = (drawing().plugin(), drawing().named("other").plugin());
    assert_eq!(drawn(&plugin, "a"), drawn(&plugin, "a"));
    assert_ne!(drawn(&plugin, "a"), drawn(&plugin, "b"));
    assert_ne!(drawn(&plugin, "a"), drawn(&other, "a"));
}

#[test]
fn random_bytes_cannot_be_computed_without_the_host_s_secret() {
    let small = EngineOptions {
        instances: 2,
        ..EngineOptions::default()
    };
    let engines = [Engine::new(&small).unwrap(), Engine::new(&small).unwrap()];
    let file = drawing().module();
    let draw = |compiler: &Compiler| {
        engines.each_ref().map(|engine| {
            let plugin = load_with(compiler, engine, &file, &LimitPolicy::default());
            drawn(&plugin.unwrap(), "a")
        })
    };
    let [one, other] = draw(&Compiler::default());
    assert_ne!(one, other, "each host has a secret of its own");

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("code");
    let cached = || {
        Compiler::new(CompileOptions {
            cache: Some(CodeCache::open(&path, CodeCache::DEFAULT_BYTES).unwrap()),
            ..CompileOptions::default()
        })
    };
    let [kept, again] = draw(&cached());
    assert_eq!(kept, again, "the cache keeps it");
    assert_eq!(draw(&cached()), [kept, again], "also for the next process");
}

#[test]
fn waiting_for_the_monotonic_clock_ends_and_is_not_reading_the_time() {
    let plugin = wasi_guest()
        .with(r#"(import "wasi:clocks/monotonic-clock@0.2.6" "now" (func $now (result i64)))"#)
        .reconciling("(loop $l (br_if $l (i64.lt_u (call $now) (i64.const 5000000000))))")
        .plugin();
    let mut reader = reader();
    plugin.reconcile(&request("a"), &mut reader).unwrap();
    assert!(!reader.depends_on_time());
}

/// The fuel of one run.
fn fuel(items: &'static str, reconcile: &'static str) -> u64 {
    let plugin = wasi_guest().with(items).reconciling(reconcile).plugin();
    let (result, stats) = plugin.run(&request("a"), &mut reader());
    result.unwrap();
    stats.fuel
}

#[test]
fn every_call_costs_fuel_and_each_random_byte_does() {
    let nothing = fuel("", "");
    for (module, function, returns, cost) in [
        ("wasi:random/random", "get-random-u64", "(result i64)", 628),
        (
            "wasi:random/insecure",
            "get-insecure-random-u64",
            "(result i64)",
            628,
        ),
        (
            "wasi:random/insecure-seed",
            "insecure-seed",
            "(param i32)",
            756,
        ),
        ("wasi:clocks/monotonic-clock", "now", "(result i64)", 500),
        ("wasi:clocks/wall-clock", "now", "(param i32)", 500),
        ("wasi:cli/stdout", "get-stdout", "(result i32)", 500),
        ("pilothouse:controller/clock", "now", "(result i64)", 500),
    ] {
        let version = if module.starts_with("wasi:") {
            "0.2.6"
        } else {
            "0.2.0"
        };
        let import =
            format!(r#"(import "{module}@{version}" "{function}" (func $call {returns}))"#);
        let call = match returns {
            "(param i32)" => "(call $call (i32.const 3072))",
            _ => "(drop (call $call))",
        };
        let more = fuel(import.leak(), call) - nothing;
        // The call itself is a few instructions.
        assert!(
            (cost..cost + 50).contains(&more),
            "{module} {function}: {more}"
        );
    }
}

#[test]
fn a_poll_costs_fuel_for_each_thing_that_it_waits_for() {
    const POLL: &str = r#"
        (import "wasi:clocks/monotonic-clock@0.2.6" "subscribe-duration" (func $subscribe (param i64) (result i32)))
        (import "wasi:io/poll@0.2.6" "poll" (func $poll (param i32 i32 i32)))
        (func $poll_one_so_often (param $times i32) (local $at i32) (local $handle i32)
            (local.set $handle (call $subscribe (i64.const 1)))
            (local.set $at (i32.const 8096))
            (loop $l
                (local.set $at (i32.sub (local.get $at) (i32.const 4)))
                (i32.store (local.get $at) (local.get $handle))
                (br_if $l (i32.gt_u (local.get $at) (i32.const 4096))))
            (call $poll (i32.const 4096) (local.get $times) (i32.const 3072)))"#;
    let one = fuel(POLL, "(call $poll_one_so_often (i32.const 1))");
    let many = fuel(POLL, "(call $poll_one_so_often (i32.const 100))");
    assert_eq!(many - one, 2 * 99, "four bytes in and four out");
}

#[test]
fn there_is_no_network_and_no_exit() {
    let sockets = wasi_guest()
        .with(r#"(import "wasi:sockets/instance-network@0.2.6" "instance-network" (func $network (result i32)))"#)
        .reconciling("(drop (call $network))");
    let exit = wasi_guest()
        .with(r#"(import "wasi:cli/exit@0.2.6" "exit" (func $exit (param i32)))"#)
        .reconciling("(call $exit (i32.const 1))");
    for (guest, expected) in [
        (
            sockets,
            "wasi:sockets/instance-network#instance-network is not available to plugins",
        ),
        (exit, "the guest called exit"),
    ] {
        let error = guest.run_error();
        assert!(
            matches!(&error, RunError::Trap(text) if text.contains(expected)),
            "{error}"
        );
    }
}

#[test]
fn output_becomes_lines_of_the_plugin_s_log() {
    let print = wasi_guest()
        .with(
            r#"(import "wasi:cli/stdout@0.2.6" "get-stdout" (func $stdout (result i32)))
            (import "wasi:io/streams@0.2.6" "[method]output-stream.blocking-write-and-flush" (func $write (param i32 i32 i32 i32)))"#,
        )
        .reconciling(
            "(i32.store (i32.const 500) (i32.const 0x620a6161))
            (call $write (call $stdout) (i32.const 500) (i32.const 4) (i32.const 3072))
            (call $write (call $stdout) (i32.const 500) (i32.const 2) (i32.const 3072))",
        );
    let log = logged_by(&print);
    let messages: Vec<_> = log.iter().map(|line| line["message"].clone()).collect();
    assert_eq!(messages, ["aa", "baa"], "{log:?}");
}

#[test]
fn what_a_language_prints_before_it_traps_leads_the_error() {
    let print = wasi_guest()
        .with(
            r#"(import "wasi:cli/stderr@0.2.6" "get-stderr" (func $stderr (result i32)))
            (import "wasi:io/streams@0.2.6" "[method]output-stream.blocking-write-and-flush" (func $write (param i32 i32 i32 i32)))
            (data (i32.const 500) "going on\0apanic: no such image")"#,
        )
        .reconciling(
            "(call $write (call $stderr) (i32.const 500) (i32.const 29) (i32.const 3072)) unreachable",
        );
    let error = print.run_error().to_string();
    assert!(
        error.starts_with("panic: no such image; trap: unreachable"),
        "{error}"
    );
}
