//! The same request on the same snapshot gives the same answer: the same bytes, for the same fuel.

use std::thread;

use pilothouse_core::{Kind, ListFilter, Plugin, ReadError, Reader, Request};

use crate::support::{GET, NOW_MS, SAY_A, after, guest, pod_request, reader, request, said};

#[test]
fn a_hundred_runs_give_the_same_bytes_for_the_same_fuel() {
    let plugin = guest().with(GET).reconciling(SAY_A).plugin();
    let run = || {
        let (result, stats) = plugin.run(&request("a"), &mut reader());
        (said(result.unwrap_err()), stats.fuel, stats.memory_bytes)
    };
    let first = run();
    assert!(
        first.0.contains(r#""name":"a""#) && first.1 > 0 && first.2 >= 128 << 10,
        "{first:?}"
    );
    for _ in 0..100 {
        assert_eq!(run(), first);
    }
}

#[test]
fn nothing_is_left_from_one_run_to_the_next() {
    let counting = guest()
        .with("(global $runs (mut i32) (i32.const 0))")
        .reconciling(
            "(global.set $runs (i32.add (global.get $runs) (i32.const 1)))
            (i32.store8 (i32.const 500) (i32.add (i32.load8_u (i32.const 500)) (i32.add (global.get $runs) (i32.const 47))))
            (call $fail (i32.const 500) (i32.const 1))",
        )
        .plugin();
    for _ in 0..3 {
        assert_eq!(
            said(
                counting
                    .reconcile(&request("a"), &mut reader())
                    .unwrap_err()
            ),
            "0"
        );
    }
}

#[test]
fn plugins_run_beside_each_other() {
    let (quick, endless) = (
        guest().plugin(),
        guest().reconciling("(loop $l (br $l))").plugin(),
    );
    thread::scope(|scope| {
        scope.spawn(|| endless.reconcile(&request("a"), &mut reader()).unwrap_err());
        for _ in 0..4 {
            scope.spawn(|| {
                (0..100).for_each(|_| drop(quick.reconcile(&request("a"), &mut reader()).unwrap()));
            });
        }
    });
}

#[test]
fn the_request_arrives_whole() {
    // The address and the length of the config are the last two parameters.
    let echo = guest()
        .reconciling("(call $fail (i32.load offset=64 (local.get $request)) (i32.load offset=68 (local.get $request)))")
        .plugin();
    let request = Request {
        config: r#"{"größe":1}"#.into(),
        ..request("a")
    };
    assert_eq!(
        said(echo.reconcile(&request, &mut reader()).unwrap_err()),
        request.config
    );
}

#[test]
fn a_key_arrives_with_its_object_which_counts_as_read() {
    // The address and the length of the kind are the parameters 1 and 2, of the object 8 and 9.
    let kind = guest()
        .of_pods()
        .reconciling("(call $fail (i32.load offset=4 (local.get $request)) (i32.load offset=8 (local.get $request)))")
        .plugin();
    let error = kind
        .reconcile(&pod_request("a"), &mut reader())
        .unwrap_err();
    assert_eq!(said(error), "v1/Pod");
    let object = guest()
        .of_pods()
        .reconciling("(call $fail (i32.load offset=32 (local.get $request)) (i32.load offset=36 (local.get $request)))")
        .plugin();
    let mut reader = reader();
    let object = said(
        object
            .reconcile(&pod_request("a"), &mut reader)
            .unwrap_err(),
    );
    assert!(object.contains(r#""name":"a""#), "{object}");
    assert_eq!(reader.into_reads().len(), 1);
}

#[test]
fn a_key_whose_object_is_gone_arrives_without_it() {
    // Parameter 7 says whether there is an object.
    let plugin = guest()
        .of_pods()
        .reconciling("(if (i32.load8_u offset=28 (local.get $request)) (then unreachable))")
        .plugin();
    let run = |name: &str, reader: &mut Reader| plugin.reconcile(&pod_request(name), reader);
    assert!(run("a", &mut reader()).is_err(), "there is default/a");
    let mut reader = reader();
    assert!(run("gone", &mut reader).is_ok());
    assert_eq!(reader.into_reads().len(), 1, "it runs when it comes back");
}

#[test]
fn the_clock_stands_still_and_reading_it_is_recorded() {
    let now = r#"(import "pilothouse:controller/clock@0.2.0" "now" (func $now (result i64)))"#;
    let later =
        "(i64.store (i32.const 2080) (call $now)) (i32.store8 (i32.const 2072) (i32.const 1))";
    let plugin = guest().with(now).reconciling(later).plugin();
    let mut reader = reader();
    let outcome = plugin.reconcile(&request("a"), &mut reader).unwrap();
    assert_eq!(after(&outcome), u128::from(NOW_MS));
    assert!(reader.depends_on_time());
}

#[test]
fn a_list_is_one_json_array_and_a_kind_out_of_scope_is_denied() {
    let list = r#"(import "pilothouse:controller/snapshot@0.2.0" "list"
        (func $list (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#;
    let pods = "(call $list (i32.const 64) (i32.const 6) (i32.const 0) (i32.const 0) (i32.const 0)
        (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 3072))
        (call $fail (i32.load (i32.const 3076)) (i32.load (i32.const 3080)))";
    let text = said(guest().with(list).reconciling(pods).run_error());
    assert!(
        text.starts_with("[\n{")
            && text.contains(r#""name":"a""#)
            && text.contains(r#""name":"b""#),
        "{text}"
    );

    // Asks for the kind v1/Po, by passing a shorter length.
    let denied = SAY_A.replacen("(i32.const 6)", "(i32.const 5)", 1);
    let text = said(guest().with(GET).reconciling(denied.leak()).run_error());
    assert_eq!(text, "v1/Po is not among the manifest's reads");
}

#[test]
fn a_list_that_no_guest_could_hold_is_not_put_together_but_counts_as_read() {
    let mut reader = reader();
    reader.limit_answers(100);
    let pods = Kind::new("", "v1", "Pod");
    let error = reader
        .list(&pods, None, &ListFilter::Everything)
        .unwrap_err();
    assert_eq!(error, ReadError::TooLarge(100));
    assert_eq!(
        reader.into_reads().len(),
        1,
        "the key runs again when the list changes"
    );
}
