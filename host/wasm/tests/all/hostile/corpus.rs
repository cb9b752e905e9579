//! Guests that load and then misbehave.

use crate::support::{GET, Guest, LOG, guest};

pub struct Hostile {
    /// The row in the list of hostile guests that the project promises to withstand (RATIONALE.md).
    pub row: u32,
    pub name: &'static str,
    pub guest: Guest,
    /// A part of the error that each of its runs must have.
    pub verdict: &'static str,
}

const FUEL: &str = "over limit: fuel: all of its 3000000 used";
const MEMORY: &str = "over limit: memory: asked for ";
const ANSWER: &str = "over limit: an answer or an argument of more than 4194304 bytes";
const STACK: &str = "trap: call stack exhausted";

/// A guest that uses handles. The contract has no resources, so it uses the streams of WASI.
const HANDLES: &str = r#"
    (import "wasi:cli/stdout@0.2.6" "get-stdout" (func $open (result i32)))
    (import "wasi:io/streams@0.2.6" "[resource-drop]output-stream" (func $drop (param i32)))
    (import "wasi:io/streams@0.2.6" "[method]output-stream.subscribe" (func $subscribe (param i32) (result i32)))"#;
const STREAMS: &str = "
    package test:handles;
    package wasi:cli@0.2.6 {
        interface stdout { use wasi:io/streams@0.2.6.{output-stream}; get-stdout: func() -> output-stream; }
    }
    package wasi:io@0.2.6 {
        interface poll { resource pollable; }
        interface streams {
            use poll.{pollable};
            resource output-stream { subscribe: func() -> pollable; }
        }
    }";
const WORLD: &str = "  import wasi:cli/stdout@0.2.6;\n  import wasi:io/streams@0.2.6;";

fn with_handles() -> Guest {
    guest().of_world_with(WORLD, STREAMS).with(HANDLES)
}

fn hostile(row: u32, name: &'static str, verdict: &'static str, guest: Guest) -> Hostile {
    Hostile {
        row,
        name,
        guest,
        verdict,
    }
}

pub fn all() -> Vec<Hostile> {
    let mut all = cpu();
    all.extend(memory());
    all.extend(answers());
    all.extend(calls());
    all
}

fn cpu() -> Vec<Hostile> {
    vec![
        hostile(1, "an endless loop", FUEL, guest().reconciling("(loop $l (br $l))")),
        hostile(
            3,
            "an endless loop in the allocator",
            FUEL,
            // There is no such test for `describe`, because nothing is allocated for it.
            guest().reallocating("(loop $l (br $l))"),
        ),
        hostile(
            3,
            "an endless loop after the answer",
            FUEL,
            guest().with(r#"(func (export "cabi_post_pilothouse:controller/plugin@0.2.0#reconcile") (param i32) (loop $l (br $l)))"#),
        ),
        hostile(
            7,
            "bulk fills without end",
            FUEL,
            guest().with_pages(200).reconciling(
                "(loop $l (memory.fill (i32.const 65536) (i32.const 1) (i32.const 12000000)) (br $l))",
            ),
        ),
        hostile(
            7,
            "bulk copies without end",
            FUEL,
            guest().with_pages(200).reconciling(
                "(loop $l (memory.copy (i32.const 65536) (i32.const 65537) (i32.const 12000000)) (br $l))",
            ),
        ),
        hostile(6, "endless recursion", STACK, guest().with("(func $deep (call $deep))").reconciling("(call $deep)")),
        hostile(
            6,
            "mutual recursion through a table",
            STACK,
            guest()
                .with(
                    "(type $t (func)) (table 2 funcref) (elem (i32.const 0) $a $b)
                    (func $a (call_indirect (type $t) (i32.const 1))) (func $b (call_indirect (type $t) (i32.const 0)))",
                )
                .reconciling("(call $a)"),
        ),
        hostile(
            6,
            "recursion with huge frames",
            STACK,
            guest().with(huge_frames()).reconciling("(drop (call $huge (i64.const 1)))"),
        ),
    ]
}

/// A function that keeps a thousand values alive across a call of itself.
fn huge_frames() -> &'static str {
    let locals = "(local i64)".repeat(1_000);
    let sets: String = (1..1_000)
        .map(|n| format!("(local.set {n} (i64.load offset={n} (i32.const 0)))"))
        .collect();
    let sum: String = (1..1_000)
        .map(|n| format!("(local.set 0 (i64.xor (local.get 0) (local.get {n})))"))
        .collect();
    format!("(func $huge (param i64) (result i64) {locals} {sets} (local.set 0 (call $huge (local.get 0))) {sum} (local.get 0))").leak()
}

fn memory() -> Vec<Hostile> {
    vec![
        hostile(
            4,
            "a memory bomb",
            MEMORY,
            guest().reconciling(
                "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable",
            ),
        ),
        hostile(
            5,
            "a table bomb",
            MEMORY,
            guest().with("(table $t 1 funcref)").with_pages(1_020).reconciling(
                "(drop (table.grow $t (ref.null func) (i32.const 60000))) unreachable",
            ),
        ),
        hostile(
            5,
            "a table that grows to the end of the address space",
            FUEL,
            guest()
                .with("(table $t 1 funcref)")
                .reconciling("(if (i32.eq (table.grow $t (ref.null func) (i32.const -2)) (i32.const -1)) (then unreachable))"),
        ),
        hostile(
            4,
            "a memory that grows to the end of the address space",
            MEMORY,
            guest().reconciling("(if (i32.eq (memory.grow (i32.const 65530)) (i32.const -1)) (then unreachable))"),
        ),
        hostile(
            6,
            "reading outside of its memory",
            "trap: out of bounds memory access",
            guest().reconciling("(drop (i64.load offset=4294967280 (i32.const -1)))"),
        ),
        hostile(
            6,
            "calling outside of its table",
            "trap: undefined element",
            guest().with("(type $t (func)) (table 1 funcref)").reconciling("(call_indirect (type $t) (i32.const 77))"),
        ),
    ]
}

fn answers() -> Vec<Hostile> {
    let answer =
        |row, name, verdict, reconcile| hostile(row, name, verdict, guest().reconciling(reconcile));
    vec![
        hostile(
            8,
            "an answer of 60 MB",
            ANSWER,
            guest().with_pages(1_000).reconciling("(call $fail (i32.const 65536) (i32.const 60000000))"),
        ),
        hostile(
            8,
            "half a million stages of nothing",
            ANSWER,
            guest().with_pages(1_000).reconciling(
                "(i32.store (i32.const 2056) (i32.const 65536)) (i32.store (i32.const 2060) (i32.const 500000))",
            ),
        ),
        answer(9, "a list of more than there is memory", "trap: ", "(i32.store (i32.const 2056) (i32.const 65536)) (i32.store (i32.const 2060) (i32.const -1))"),
        answer(9, "text that is not UTF-8", "trap: ", "(i32.store8 (i32.const 100) (i32.const 255)) (call $fail (i32.const 100) (i32.const 1))"),
        answer(9, "a lone surrogate", "trap: ", "(i32.store (i32.const 100) (i32.const 0x80a0ed)) (call $fail (i32.const 100) (i32.const 3))"),
        answer(9, "text beyond its memory", "trap: ", "(call $fail (i32.const 131070) (i32.const 100))"),
        answer(9, "text at a wrapping address", "trap: ", "(call $fail (i32.const -4) (i32.const 8))"),
        answer(9, "neither outcome nor failure", "trap: ", "(i32.store8 (i32.const 2048) (i32.const 9))"),
        answer(9, "an unaligned list", "trap: ", "(i32.store (i32.const 2056) (i32.const 4097)) (i32.store (i32.const 2060) (i32.const 1))"),
        answer(9, "an unknown way to go on", "trap: ", "(i32.store8 (i32.const 2072) (i32.const 9))"),
        answer(9, "an unknown action", "trap: ", "(i32.store (i32.const 2056) (i32.const 4096)) (i32.store (i32.const 2060) (i32.const 1)) (i32.store (i32.const 4096) (i32.const 4160)) (i32.store (i32.const 4100) (i32.const 1)) (i32.store8 (i32.const 4160) (i32.const 77))"),
        hostile(
            9,
            "an allocator that answers with nonsense",
            "trap: ",
            guest().reallocating("(return (i32.const -8))"),
        ),
        hostile(
            9,
            "an allocator that answers unaligned",
            "trap: ",
            guest().reallocating("(return (i32.const 65537))"),
        ),
    ]
}

fn calls() -> Vec<Hostile> {
    vec![
        hostile(
            13,
            "a flood of log lines",
            "ok: 0 actions",
            guest().with(LOG).reconciling(
                "(local $i i32) (loop $l (call $log (i32.const 0) (i32.const 96) (i32.const 1) (i32.const 0) (i32.const 0))
                    (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 2000))))",
            ),
        ),
        hostile(
            13,
            "a log line of 12 MB",
            ANSWER,
            guest().with(LOG).with_pages(200).reconciling(
                "(call $log (i32.const 0) (i32.const 65536) (i32.const 12000000) (i32.const 0) (i32.const 0))",
            ),
        ),
        hostile(
            13,
            "a million empty log fields",
            ANSWER,
            guest().with(LOG).with_pages(400).reconciling(
                "(call $log (i32.const 0) (i32.const 96) (i32.const 1) (i32.const 65536) (i32.const 1000000))",
            ),
        ),
        hostile(
            14,
            "handles without end",
            "trap: ",
            with_handles().reconciling("(loop $l (drop (call $open)) (br $l))"),
        ),
        hostile(
            15,
            "a handle used after it was dropped",
            "trap: unknown handle",
            with_handles().reconciling(
                "(local $h i32) (local.set $h (call $open)) (call $drop (local.get $h)) (drop (call $subscribe (local.get $h)))",
            ),
        ),
        hostile(
            15,
            "a handle dropped twice",
            "trap: unknown handle",
            with_handles().reconciling(
                "(local $h i32) (local.set $h (call $open)) (call $drop (local.get $h)) (call $drop (local.get $h))",
            ),
        ),
        hostile(
            15,
            "a handle that it was never given",
            "trap: unknown handle",
            with_handles().reconciling("(drop (call $subscribe (i32.const 12345)))"),
        ),
        hostile(
            15,
            "a handle of another type",
            "trap: ",
            with_handles().reconciling("(call $drop (call $subscribe (call $open)))"),
        ),
        hostile(
            16,
            "a call of the host from inside the host's own",
            "trap: ",
            guest().with(GET).reallocating(
                "(call $get (i32.const 64) (i32.const 6)
                    (i32.const 80) (i32.const 7) (i32.const 96) (i32.const 1) (i32.const 3072))",
            ),
        ),
    ]
}
