//! Instances that are used again, and runs that are repeated.

use std::time::Duration;

use pilothouse_core::{Outcome, Plugin, RunError};
use pilothouse_wasm::{Engine, EngineOptions, LimitPolicy, RunOptions, RunTotals, WasmPlugin};

use crate::support::{GET, GET_A, Guest, after, guest, reader, request};

const REUSING: RunOptions = RunOptions {
    reuse: true,
    verify: 0.0,
    forget_memos: false,
    log_lines: 100,
};
const VERIFYING: RunOptions = RunOptions {
    verify: 1.0,
    ..REUSING
};

/// Answers with the number of its calls, as the requeue delay in milliseconds.
fn counting() -> Guest {
    guest()
        .with("(global $calls (mut i64) (i64.const 0))")
        .reconciling(
            "(global.set $calls (i64.add (global.get $calls) (i64.const 1)))
            (global.set $heap (i32.const 65536))
            (i32.store8 (i32.const 2072) (i32.const 1)) (i64.store (i32.const 2080) (global.get $calls))",
        )
}

/// A guest that counts its calls, for a `how` that fails in the second.
fn failing_second(how: &'static str) -> Guest {
    guest()
        .with("(global $calls (mut i32) (i32.const 0))")
        .reconciling(how)
}

fn with(guest: &Guest, options: RunOptions) -> WasmPlugin {
    guest.plugin().with(&LimitPolicy::default(), options)
}

fn run(plugin: &WasmPlugin) -> Result<Outcome, RunError> {
    plugin.reconcile(&request("a"), &mut reader())
}

fn calls(plugin: &WasmPlugin) -> u128 {
    after(&run(plugin).unwrap())
}

#[test]
fn nothing_is_left_from_one_call_to_the_next_unless_reuse_is_on() {
    let plugin = counting().plugin();
    assert_eq!([calls(&plugin), calls(&plugin)], [1, 1]);
    let plugin = plugin.with(&LimitPolicy::default(), REUSING);
    assert_eq!([calls(&plugin), calls(&plugin)], [1, 2]);
    let plugin = plugin.with(&LimitPolicy::default(), RunOptions::default());
    assert_eq!(calls(&plugin), 1, "switched off again");
}

#[test]
fn an_instance_is_asked_a_thousand_times_and_no_more() {
    let plugin = with(&counting(), REUSING);
    let counts: Vec<u128> = (0..1_001).map(|_| calls(&plugin)).collect();
    assert_eq!((counts[999], counts[1_000]), (1_000, 1));
}

#[test]
fn an_instance_that_breaks_is_thrown_away_and_its_key_runs_in_a_fresh_one() {
    const BREAKS: &str =
        "(if (global.get $calls) (then unreachable)) (global.set $calls (i32.const 1))";
    let plugin = with(&failing_second(BREAKS), REUSING);
    for _ in 0..10 {
        run(&plugin).unwrap();
    }
    let RunTotals { runs, reused, .. } = plugin.totals();
    assert_eq!(
        (runs, reused),
        (10, 0),
        "no answer is from a broken instance"
    );
}

#[test]
fn an_instance_that_says_it_failed_is_thrown_away() {
    const FAILS: &str = "(if (global.get $calls) (then (call $fail (i32.const 96) (i32.const 1)))) (global.set $calls (i32.const 1))";
    let plugin = with(&failing_second(FAILS), REUSING);
    run(&plugin).unwrap();
    assert!(matches!(run(&plugin), Err(RunError::Failure(_))));
    run(&plugin).unwrap();
}

#[test]
fn no_more_than_half_of_the_room_for_instances_is_kept_between_calls() {
    let options = EngineOptions {
        instances: 2,
        ..EngineOptions::default()
    };
    let engine = Engine::new(&options).unwrap();
    let plugins: Vec<WasmPlugin> = (0..3)
        .map(|_| {
            let plugin = counting().load_with(&engine, &LimitPolicy::default());
            plugin.unwrap().with(&LimitPolicy::default(), REUSING)
        })
        .collect();
    let round = || plugins.iter().map(calls).collect::<Vec<_>>();
    assert_eq!(
        [round(), round(), round()],
        [[1, 1, 1], [2, 1, 1], [3, 1, 1]]
    );
}

#[test]
fn what_a_plugin_keeps_goes_with_it() {
    let options = EngineOptions {
        instances: 2,
        ..EngineOptions::default()
    };
    let engine = Engine::new(&options).unwrap();
    for _ in 0..5 {
        let plugin = counting()
            .load_with(&engine, &LimitPolicy::default())
            .unwrap();
        let plugin = plugin.with(&LimitPolicy::default(), REUSING);
        assert_eq!([calls(&plugin), calls(&plugin)], [1, 2]);
    }
}

#[test]
fn an_instance_that_has_grown_large_is_not_kept() {
    let plugin = with(&counting().with_pages(600), REUSING);
    assert_eq!([calls(&plugin), calls(&plugin)], [1, 1], "37 of 64 MiB");
}

#[test]
fn memory_of_a_reused_instance_still_counts() {
    // Each call grows memory by 16 MiB.
    let plugin = guest()
        .reconciling("(global.set $heap (i32.const 65536)) (drop (memory.grow (i32.const 256)))");
    let plugin = with(&plugin, REUSING);
    let held: Vec<usize> = (0..4)
        .map(|_| plugin.run(&request("a"), &mut reader()).1.memory_bytes >> 20)
        .collect();
    assert_eq!(
        held,
        [16, 32, 16, 32],
        "more than half of 64 MiB is not kept"
    );
}

#[test]
fn the_same_request_takes_the_same_fuel_and_gives_the_same_bytes_in_a_thousand_runs() {
    let reading = format!("{GET_A} (global.set $heap (i32.const 65536))");
    let plugin = guest().with(GET).reconciling(reading.leak()).plugin();
    let mut fuels = vec![];
    for options in [RunOptions::default(), REUSING] {
        let plugin = plugin.with(&LimitPolicy::default(), options);
        let runs = (0..1_000).map(|_| plugin.run(&request("a"), &mut reader()));
        for (result, stats) in runs {
            assert_eq!(result.unwrap(), Outcome::default());
            fuels.push(stats.fuel);
        }
    }
    assert!(
        fuels.iter().all(|fuel| *fuel == fuels[0] && *fuel > 0),
        "{fuels:?}"
    );
    assert_eq!(plugin.totals().fuel, fuels.iter().sum::<u64>());
}

#[test]
fn a_loop_ends_with_the_same_fuel_in_every_run() {
    let plugin = guest().reconciling("(loop $l (br $l))").plugin();
    let mut policy = LimitPolicy::default();
    policy.default.fuel = 1_000_000;
    let plugin = plugin.with(&policy, RunOptions::default());
    let fuel = || plugin.run(&request("a"), &mut reader()).1.fuel;
    let first = fuel();
    assert!((0..1_000).all(|_| fuel() == first));
}

#[test]
fn a_guest_that_carries_something_over_is_found_out() {
    let plugin = with(&counting(), VERIFYING);
    assert_eq!(calls(&plugin), 1, "the first is fresh");
    let error = run(&plugin).unwrap_err();
    assert_eq!(
        error.to_string(),
        "is not deterministic: next: After(2ms), then After(1ms)"
    );
    let RunTotals {
        verified, differed, ..
    } = plugin.totals();
    assert_eq!((verified, differed), (2, 1));
}

#[test]
fn a_fresh_run_is_the_same_when_done_twice_whatever_it_does() {
    let options = RunOptions {
        reuse: false,
        ..VERIFYING
    };
    for guest in [
        counting(),
        guest().reconciling("unreachable"),
        guest().reconciling("(call $fail (i32.const 96) (i32.const 1))"),
        guest().reconciling(
            "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable",
        ),
    ] {
        let plugin = with(&guest, options);
        for _ in 0..10 {
            let (result, stats) = plugin.run(&request("a"), &mut reader());
            assert!(
                !matches!(result, Err(RunError::NonDeterministic(_))),
                "{result:?}"
            );
            assert!(stats.is_verified);
        }
    }
}

#[test]
fn a_verified_run_has_the_reads_of_its_first() {
    let plugin = guest().with(GET).reconciling(GET_A).plugin();
    let plugin = plugin.with(&LimitPolicy::default(), VERIFYING);
    let mut reader = reader();
    plugin.reconcile(&request("a"), &mut reader).unwrap();
    assert_eq!(reader.into_reads().len(), 1);
}

#[test]
fn settings_change_limits_without_compiling() {
    let plugin = guest().plugin();
    let mut policy = LimitPolicy::default();
    policy.default.timeout = Duration::from_millis(7);
    let changed = plugin.with(&policy, REUSING);
    assert_eq!(changed.limits().timeout, Duration::from_millis(7));
    assert_eq!(changed.report().digest, plugin.report().digest);
}
