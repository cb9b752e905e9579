//! Files that are refused as plugins.

use crate::support::{Guest, guest};

pub struct File {
    /// The row in the list of hostile guests that the project promises to withstand (RATIONALE.md).
    pub row: u32,
    pub name: &'static str,
    pub bytes: Vec<u8>,
    /// A part of the error that loading it must have.
    pub verdict: &'static str,
}

fn file(row: u32, name: &'static str, verdict: &'static str, bytes: Vec<u8>) -> File {
    File {
        row,
        name,
        bytes,
        verdict,
    }
}

fn module(items: &str) -> Vec<u8> {
    wat::parse_str(format!("(module {items})")).unwrap()
}

/// A guest with these additional items.
fn with(items: String) -> Vec<u8> {
    guest().with(items.leak()).module()
}

fn describing(how: &'static str) -> Vec<u8> {
    guest().describing(how).module()
}

pub fn all() -> Vec<File> {
    let mut all = starting();
    all.extend(large());
    all.extend(broken());
    all
}

fn starting() -> Vec<File> {
    const FUEL: &str = "describe: over limit: fuel: all of its 3000000 used";
    vec![
        file(
            2,
            "an endless loop before the first call",
            FUEL,
            with("(func $s (loop $l (br $l))) (start $s)".into()),
        ),
        file(
            2,
            "an endless loop in describe",
            FUEL,
            describing("(loop $l (br $l))"),
        ),
        file(
            2,
            "a trap before the first call",
            "describe: trap: ",
            with("(func $s unreachable) (start $s)".into()),
        ),
        file(
            4,
            "a memory larger than any may be",
            "does not ",
            guest().with_pages(10_000).module(),
        ),
        file(
            4,
            "ten memories",
            "does not compile: ",
            component(&"(memory 1)".repeat(10)),
        ),
        file(
            5,
            "ten thousand tables",
            "does not compile: ",
            component(&"(table 1 funcref)".repeat(10_000)),
        ),
        file(
            5,
            "a table of the whole address space",
            "does not compile: ",
            component("(table 4294967295 funcref)"),
        ),
        file(
            5,
            "a table beyond the pool's",
            "does not compile: ",
            component("(table 10000000 funcref)"),
        ),
        file(
            8,
            "a manifest of nonsense",
            "manifest: name ",
            guest().named("Not_valid").module(),
        ),
    ]
}

/// A component that has the right exports and wraps a module with these items.
fn component(items: &str) -> Vec<u8> {
    let text = format!(
        r#"(component (core module $m {items} (func (export "f"))) (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f")))
            (instance $p (export "describe" (func $f)) (export "reconcile" (func $f)))
            (export "pilothouse:controller/plugin@0.2.0" (instance $p)))"#
    );
    wat::parse_str(text).unwrap()
}

fn large() -> Vec<File> {
    const LARGE: &str = "is too large: a ";
    let many = |item: &str, count: usize| with(item.repeat(count));
    let exports: String = (0..50_000)
        .map(|n| format!(r#"(export "e{n}" (memory 0))"#))
        .collect();
    let imports: String = (0..50_000)
        .map(|n| format!(r#"(import "i" "{n}" (func))"#))
        .collect();
    let types: String = (0..50_000)
        .map(|n| format!("(type (func (param i32 {})))", ["i32", "i64"][n % 2]))
        .collect();
    let nested = format!(
        "(func {} {})",
        "(block ".repeat(100_000),
        ")".repeat(100_000)
    );
    vec![
        file(
            27,
            "50,000 exports",
            "is too large: a number of exports of 50001",
            module(&format!("(memory (export \"m\") 1){exports}")),
        ),
        file(
            27,
            "50,000 imports",
            "is too large: a number of imports of 50000",
            module(&imports),
        ),
        file(
            27,
            "50,000 types",
            "is too large: a number of types of 50000",
            module(&types),
        ),
        file(27, "300,000 functions", LARGE, many("(func)", 300_000)),
        file(
            27,
            "300,000 globals",
            LARGE,
            many("(global i32 (i32.const 0))", 300_000),
        ),
        file(
            27,
            "a function of 2 MiB",
            "is too large: a function of ",
            many(
                &format!("(func {})", "(drop (i32.const 1))".repeat(700_000)),
                1,
            ),
        ),
        file(
            27,
            "100,000 nested blocks",
            "is too large: a depth of nested blocks of 100000",
            with(nested),
        ),
        file(
            27,
            "300 modules inside of each other's component",
            "is too large: a number of nested modules",
            wat::parse_str(format!("(component {})", "(core module)".repeat(300))).unwrap(),
        ),
    ]
}

fn broken() -> Vec<File> {
    let whole = guest().module();
    let cut = |part: usize| whole[..whole.len() * part / 10].to_vec();
    let other = |guest: Guest| guest.module();
    vec![
        file(28, "no file at all", "is not WebAssembly", vec![]),
        file(28, "a tenth of a file", "", cut(1)),
        file(28, "nine tenths of a file", "", cut(9)),
        file(
            28,
            "another program",
            "is not WebAssembly",
            b"\x7fELF\x02\x01\x01".to_vec(),
        ),
        file(
            28,
            "a module of no world",
            "core module without a component-type section",
            module(""),
        ),
        file(
            28,
            "a newer contract",
            "speaks pilothouse:controller@0.9.0",
            other(guest().of_abi("0.9.0")),
        ),
        file(
            28,
            "a component of another world",
            "does not export \"pilothouse:controller/plugin@0.2.0\"",
            wat::parse_str("(component)").unwrap(),
        ),
        file(
            28,
            "a claim of four billion functions",
            "is ",
            [b"\0asm\x01\0\0\0\x03\x06\xff\xff\xff\xff\x0f\x00".as_slice()].concat(),
        ),
    ]
}
