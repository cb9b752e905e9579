//! A guest that traps, loops, floods the host or returns nonsense fails its own run and affects
//! nothing else.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pilothouse_core::{InformerId, Plugin, RunError, Snapshot};
use pilothouse_wasm::{Clocks, Engine, EngineOptions, LimitPolicy, Reading};
use tracing_subscriber::layer::SubscriberExt;

use crate::support::{
    GET, GET_A, LOG, SAY_A, guest, little_fuel, pod_request, reader, reader_of, request, said,
    subscribed,
};

fn over_limit(error: RunError) -> String {
    match error {
        RunError::OverLimit(text) => text,
        other => panic!("not over a limit: {other}"),
    }
}

#[test]
fn a_trap_is_the_run_s_error_and_the_next_run_is_well() {
    let plugin = guest()
        .of_pods()
        .with("(global $runs (mut i32) (i32.const 0))")
        // Traps for keys whose name begins with "b".
        .reconciling("(if (i32.eq (i32.load8_u (i32.load offset=20 (local.get $request))) (i32.const 98)) (then unreachable))")
        .plugin();
    let error = plugin
        .reconcile(&pod_request("b"), &mut reader())
        .unwrap_err();
    assert!(
        matches!(&error, RunError::Trap(text) if text.contains("unreachable")),
        "{error}"
    );
    assert!(plugin.reconcile(&pod_request("a"), &mut reader()).is_ok());
}

/// Logs the reason, as the SDK's panic hook does, and then traps. The functions have the names that
/// rustc gives them.
const PANICS: &str = r#"(import "pilothouse:controller/log@0.2.0" "log" (func $log (param i32 i32 i32 i32 i32)))
    (data (i32.const 600) "panic") (data (i32.const 610) "panicked at src/lib.rs:1:2:\0ano such image")
    (data (i32.const 700) "\58\02\00\00\05\00\00\00\62\02\00\00\29\00\00\00")
    (func $_ZN4core9panicking9panic_fmt17h0123456789abcdefE
        (call $log (i32.const 3) (i32.const 600) (i32.const 5) (i32.const 700) (i32.const 1)) unreachable)
    (func $_ZN7website5image17h0123456789abcdefE (call $_ZN4core9panicking9panic_fmt17h0123456789abcdefE))"#;

#[test]
fn a_panic_is_told_in_its_own_words_and_by_its_own_frames() {
    const PANIC: &str = "(call $_ZN7website5image17h0123456789abcdefE)";
    const TOLD: &str =
        "panicked at src/lib.rs:1:2: no such image; trap: unreachable; in website::image";
    let error = guest().with(PANICS).reconciling(PANIC).run_error();
    assert!(matches!(error, RunError::Panic { .. }), "{error:?}");
    assert_eq!(error.to_string(), TOLD);
    let error = guest().with(PANICS).describing(PANIC).load_error();
    assert_eq!(error, format!("describe: {TOLD}"));
}

#[test]
fn a_trap_without_words_is_told_by_what_it_is_and_where() {
    let broken = guest()
        .with(
            "(func $_ZN4core3ptr4read17h0123456789abcdefE (drop (i32.load (i32.const -1))))
            (func $_ZN7website4list17h0123456789abcdefE (call $_ZN4core3ptr4read17h0123456789abcdefE))",
        )
        .reconciling("(call $_ZN7website4list17h0123456789abcdefE)");
    assert_eq!(
        broken.run_error().to_string(),
        "trap: out of bounds memory access; in website::list"
    );
}

#[test]
fn however_much_a_guest_says_before_it_traps_little_of_it_is_told() {
    let wordy = guest()
        .with(PANICS)
        .reconciling(
            "(memory.fill (i32.const 65536) (i32.const 65) (i32.const 60000))
            (i32.store (i32.const 708) (i32.const 65536)) (i32.store (i32.const 712) (i32.const 60000))
            (call $_ZN7website5image17h0123456789abcdefE)",
        );
    let error = wordy.run_error().to_string();
    assert!(
        error.starts_with("AAAA") && error.ends_with("website::image") && error.len() < 410,
        "{error}"
    );
}

#[test]
fn what_was_read_is_given_back_also_after_a_trap() {
    let broken = format!("{GET_A} unreachable");
    let plugin = guest().with(GET).reconciling(broken.leak()).plugin();
    let mut reader = reader();
    plugin.reconcile(&request("a"), &mut reader).unwrap_err();
    assert_eq!(reader.into_reads().len(), 1);
}

/// Gets default/default, which does not exist.
const GET_NOTHING: &str = "(call $get (i32.const 64) (i32.const 6) (i32.const 80) (i32.const 7) (i32.const 80) (i32.const 7)
    (i32.const 3072))";
const SAY_V1: &str =
    "(call $log (i32.const 0) (i32.const 64) (i32.const 2) (i32.const 0) (i32.const 0))";

#[test]
fn what_the_host_does_in_a_guest_s_calls_costs_fuel() {
    let fuel = |items: &'static str, reconcile: &'static str| {
        let plugin = guest().with(items).reconciling(reconcile).plugin();
        plugin.run(&request("a"), &mut reader()).1.fuel
    };
    let (nothing, got) = (fuel("", ""), fuel(GET, GET_A));
    assert!((1_000..5_000).contains(&(got - nothing)), "{nothing} {got}");
    assert!(fuel(LOG, SAY_V1) - nothing >= 500);
}

#[test]
fn a_loop_of_calls_ends_with_its_fuel() {
    for (items, call) in [(GET, GET_NOTHING), (LOG, SAY_V1)] {
        let endless = format!("(loop $l {call} (br $l))");
        let plugin = guest()
            .with(items)
            .reconciling(endless.leak())
            .load_with(crate::support::engine(), &little_fuel())
            .unwrap();
        let (result, stats) = plugin.run(&request("a"), &mut reader());
        let error = result.unwrap_err();
        assert!(matches!(error, RunError::OutOfFuel { .. }), "{error}");
        assert_eq!(stats.fuel, 10_000_000);
    }
}

#[test]
fn an_endless_loop_ends_with_its_fuel_wherever_it_is() {
    for looping in [
        guest().reconciling("(loop $l (br $l))"),
        // The host calls the allocator to pass the request to the guest.
        guest().reallocating("(loop $l (br $l))"),
    ] {
        let plugin = looping
            .load_with(crate::support::engine(), &little_fuel())
            .unwrap();
        let error = plugin.reconcile(&request("a"), &mut reader()).unwrap_err();
        assert!(
            matches!(error, RunError::OutOfFuel { fuel: 10_000_000, took } if !took.is_zero()),
            "{error}"
        );
    }
    let in_start = guest().with("(func $s (loop $l (br $l))) (start $s)");
    let error = in_start.load_with(crate::support::engine(), &little_fuel());
    let error = error.err().expect("it loads").to_string();
    assert!(error.contains("fuel: all of its 10000000 used"), "{error}");
}

thread_local! {
    static NOW: Cell<Reading> = Cell::default();
}

/// Each reading of the clocks finds that this much more time has passed.
fn each_look_passes(cpu: Duration, wall: Duration) -> Reading {
    let mut now = NOW.get();
    (now.cpu, now.wall) = (now.cpu + cpu, now.wall + wall);
    NOW.replace(now)
}

/// An engine whose epoch is advanced by hand, and a policy with a timeout of one second.
fn timed_by(clocks: Clocks) -> (Engine, LimitPolicy) {
    let options = EngineOptions {
        tick: None,
        instances: 2,
        clocks,
    };
    let mut policy = little_fuel();
    policy.default.timeout = Duration::from_secs(1);
    (Engine::new(&options).unwrap(), policy)
}

/// Returns the error of an endless loop with practically unlimited fuel, while the epoch advances.
fn end_of_an_endless_loop(clocks: Clocks) -> (Engine, RunError) {
    let (engine, mut policy) = timed_by(clocks);
    (policy.default.fuel, policy.max.fuel) = (u64::MAX / 4, u64::MAX / 4);
    let plugin = guest()
        .reconciling("(loop $l (br $l))")
        .load_with(&engine, &policy)
        .unwrap();
    let has_ended = AtomicBool::new(false);
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                engine.increment_epoch();
                thread::yield_now();
            }
        });
        let error = plugin.reconcile(&request("a"), &mut reader()).unwrap_err();
        has_ended.store(true, Ordering::Relaxed);
        error
    });
    (engine, error)
}

#[test]
fn a_run_that_uses_more_cpu_time_than_it_may_ends() {
    let both = || each_look_passes(Duration::from_millis(100), Duration::from_millis(100));
    let (engine, error) = end_of_an_endless_loop(both);
    assert!(matches!(error, RunError::Timeout(_)), "{error}");
    assert_eq!(error.to_string(), "timeout: used more than 1s of CPU time");
    assert!(!engine.is_ticking() && crate::support::engine().is_ticking());
}

#[test]
fn a_run_that_only_waits_ends_too_at_ten_times_its_limit() {
    let waiting = || each_look_passes(Duration::ZERO, Duration::from_secs(1));
    let (_, error) = end_of_an_endless_loop(waiting);
    assert_eq!(
        error.to_string(),
        "timeout: took longer than 10s, most of it waiting"
    );
}

#[test]
fn a_guest_that_gets_little_of_a_core_is_ended_by_its_fuel_as_on_any_machine() {
    /// Advances the epoch by many ticks with every line that is logged.
    struct Ticking(Engine);
    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Ticking {
        fn on_event(&self, _: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
            (0..1_000).for_each(|_| self.0.increment_epoch());
        }
    }
    // At each reading one second has passed, in which the guest had a core for a tenth of the time.
    let (engine, policy) =
        timed_by(|| each_look_passes(Duration::from_millis(100), Duration::from_secs(1)));
    let plugin = guest()
        .with(LOG)
        .reconciling(
            "(local $i i32) (loop $l (call $log (i32.const 3) (i32.const 96) (i32.const 1) (i32.const 0) (i32.const 0))
                (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 5))))
            (loop $l (br $l))",
        )
        .load_with(&engine, &policy)
        .unwrap();
    let ticking = tracing_subscriber::registry().with(Ticking(engine));
    let _guard = subscribed(ticking);
    let error = plugin.reconcile(&request("a"), &mut reader()).unwrap_err();
    assert!(
        matches!(
            error,
            RunError::OutOfFuel {
                fuel: 10_000_000,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_guest_that_is_refused_memory_is_over_its_limit() {
    let bomb = guest().reconciling(
        "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable",
    );
    let text = over_limit(bomb.run_error());
    assert!(
        text.starts_with("memory: asked for ") && text.ends_with(&format!("limit {}", 64 << 20)),
        "{text}"
    );
}

#[test]
fn a_table_counts_as_memory() {
    let bomb = guest()
        .with("(table $t 1 funcref)")
        .reconciling("(drop (table.grow $t (ref.null func) (i32.const 60000))) unreachable");
    let mut policy = LimitPolicy::default();
    policy.default.memory_bytes = 256 << 10;
    let plugin = bomb.load_with(crate::support::engine(), &policy).unwrap();
    let error = plugin.reconcile(&request("a"), &mut reader()).unwrap_err();
    assert!(over_limit(error).starts_with("memory: asked for "));
}

#[test]
fn a_guest_may_live_with_being_refused_memory() {
    let modest = guest()
        .reconciling("(drop (memory.grow (i32.const 60000)))")
        .plugin();
    assert!(modest.reconcile(&request("a"), &mut reader()).is_ok());
}

#[test]
fn a_stack_overflow_is_a_trap() {
    let deep = guest()
        .with("(func $deep (call $deep))")
        .reconciling("(call $deep)");
    assert!(matches!(deep.run_error(), RunError::Trap(text) if text.contains("stack")));
}

#[test]
fn an_answer_that_cannot_be_read_is_a_trap() {
    for broken in [
        // Text that is not UTF-8; text beyond the end of memory; text at an address that wraps
        // around.
        "(i32.store8 (i32.const 100) (i32.const 255)) (call $fail (i32.const 100) (i32.const 1))",
        "(call $fail (i32.const 131070) (i32.const 100))",
        "(call $fail (i32.const -4) (i32.const 8))",
        // A result that is neither outcome nor failure; an unaligned list of stages; an unknown
        // action.
        "(i32.store8 (i32.const 2048) (i32.const 9))",
        "(i32.store (i32.const 2056) (i32.const 4097)) (i32.store (i32.const 2060) (i32.const 1))",
        "(i32.store (i32.const 2056) (i32.const 4096)) (i32.store (i32.const 2060) (i32.const 1)) (i32.store (i32.const 4096) (i32.const 4160)) (i32.store (i32.const 4100) (i32.const 1)) (i32.store8 (i32.const 4160) (i32.const 77))",
    ] {
        let error = guest().reconciling(broken).run_error();
        assert!(matches!(error, RunError::Trap(_)), "{broken}: {error}");
    }
}

#[test]
fn an_answer_larger_than_an_answer_may_be_is_refused_before_it_is_copied() {
    let flood = guest()
        .with_pages(200)
        .reconciling("(call $fail (i32.const 65536) (i32.const 10000000))");
    let text = over_limit(flood.run_error());
    assert_eq!(
        text,
        format!("an answer or an argument of more than {} bytes", 4 << 20)
    );
}

#[test]
fn a_failure_s_text_is_cut() {
    let wordy = guest().reconciling("(memory.fill (i32.const 65536) (i32.const 65) (i32.const 60000)) (call $fail (i32.const 65536) (i32.const 60000))");
    assert!(said(wordy.run_error()).len() < 3_000);
}

#[test]
fn a_panic_of_the_host_is_the_run_s_error() {
    let plugin = guest().with(GET).reconciling(SAY_A).plugin();
    // A scope never names a kind that the snapshot does not have. If it did, the reader would
    // panic.
    let mut reader_of_nothing = reader_of(Snapshot::default(), InformerId::first_at(7));
    let error = plugin
        .reconcile(&request("a"), &mut reader_of_nothing)
        .unwrap_err();
    assert!(
        matches!(&error, RunError::HostPanic(_)) && error.to_string().starts_with("host: panic: "),
        "{error}"
    );
    assert!(
        said(plugin.reconcile(&request("a"), &mut reader()).unwrap_err()).contains(r#""name":"a""#)
    );
}

#[test]
fn no_room_for_another_instance_is_the_host_s_fault() {
    let engine = Engine::new(&EngineOptions {
        instances: 0,
        ..EngineOptions::default()
    });
    let error = guest()
        .load_with(&engine.unwrap(), &LimitPolicy::default())
        .err()
        .expect("it loads");
    assert!(
        error.to_string().contains("no room for another instance"),
        "{error}"
    );
}
