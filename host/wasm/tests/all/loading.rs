//! A file that is not a plugin is refused, with the reason in one line.

use pilothouse_core::Plugin;
use pilothouse_wasm::{LimitPolicy, load};

use crate::support::{GET, GET_A, engine, guest, little_fuel};

fn error_of(bytes: &[u8]) -> String {
    let error = load(engine(), bytes, &LimitPolicy::default())
        .err()
        .expect("it loads")
        .to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn a_core_module_of_the_world_becomes_a_plugin() {
    let plugin = guest().plugin();
    assert_eq!(
        (&*plugin.manifest().name, &*plugin.manifest().version),
        ("guest", "1.0.0")
    );
    assert!(plugin.manifest().reconciles.is_empty());
    assert_eq!(*plugin.limits(), LimitPolicy::default().default);
}

#[test]
fn what_is_not_webassembly_is_named_by_its_first_bytes() {
    assert_eq!(
        error_of(b"(module)"),
        "is not WebAssembly: begins with \"(module)\""
    );
    assert_eq!(
        error_of(b"\x7fELF\x02\n"),
        r#"is not WebAssembly: begins with "\x7fELF\x02\n""#
    );
    assert_eq!(
        error_of(b""),
        "is not WebAssembly: begins with nothing: the file is empty"
    );
}

#[test]
fn a_truncated_file_is_refused_wherever_it_ends() {
    let module = guest().module();
    for end in 4..module.len() - 1 {
        error_of(&module[..end]);
    }
}

#[test]
fn a_core_module_without_its_world_is_told_how_to_be_built() {
    let module = wat::parse_str("(module)").unwrap();
    assert!(
        error_of(&module)
            .starts_with("core module without a component-type section; build it against")
    );
}

#[test]
fn a_core_module_that_does_not_keep_to_its_world_is_refused() {
    let error = guest()
        .with(r#"(import "env" "puts" (func (param i32)))"#)
        .load_error();
    assert!(
        error.starts_with("core module cannot be made a component: ") && error.contains("env"),
        "{error}"
    );
}

#[test]
fn a_component_of_another_world_is_told_what_is_missing() {
    let component =
        wat::parse_str(r#"(component (component $c) (export "run" (component $c)))"#).unwrap();
    assert_eq!(
        error_of(&component),
        r#"does not export "pilothouse:controller/plugin@0.2.0", so it is not a plugin; it exports ["run"]"#
    );
}

#[test]
fn a_foreign_import_is_named() {
    let error = guest()
        .of_world_with(
            "  import acme:db/query@1.0.0;",
            "package acme:db@1.0.0; interface query { run: func(); }",
        )
        .with(r#"(import "acme:db/query@1.0.0" "run" (func))"#)
        .load_error();
    assert_eq!(
        error,
        r#"imports "acme:db/query@1.0.0", which is neither of pilothouse:controller nor of wasi"#
    );
}

#[test]
fn an_unknown_version_of_the_contract_is_named_with_the_known_one() {
    for abi in ["0.1.0", "1.0.0"] {
        let expected = format!("speaks pilothouse:controller@{abi}; this host speaks 0.2.x");
        assert_eq!(guest().of_abi(abi).load_error(), expected);
    }
}

#[test]
fn an_older_or_newer_version_of_the_same_track_loads() {
    guest().of_abi("0.2.9").plugin();
}

/// A component that has the right exports and wraps a core module, instantiated `instances` times.
fn component_around(items: &str, instances: usize) -> Vec<u8> {
    let more = "(core instance (instantiate $m))".repeat(instances - 1);
    let text = format!(
        r#"(component (core module $m {items} (func (export "f"))) (core instance $i (instantiate $m)) {more}
            (func $f (canon lift (core func $i "f")))
            (instance $p (export "describe" (func $f)) (export "reconcile" (func $f)))
            (export "pilothouse:controller/plugin@0.2.0" (instance $p)))"#
    );
    wat::parse_str(text).unwrap()
}

#[test]
fn an_export_of_another_type_is_refused() {
    let error = error_of(&component_around("", 1));
    assert!(
        error.starts_with("does not fit the world: ") && error.contains("describe"),
        "{error}"
    );
}

#[test]
fn features_that_are_switched_off_do_not_compile() {
    for (items, feature) in [
        ("(memory 1) (memory 1)", "multiple memories"),
        ("(memory i64 1)", "memory64"),
        ("(memory 1 1 shared)", "threads"),
        ("(func $t (return_call $t))", "tail calls"),
        ("(tag)", "exceptions"),
        ("(type (struct))", "gc"),
        ("(rec (type (func)) (type (func)))", "gc"),
        ("(type (sub (func)))", "gc"),
        (
            "(func (param funcref) (drop (ref.test funcref (local.get 0))))",
            "gc",
        ),
        (
            "(type $t (func)) (func (param (ref $t)) (call_ref $t (local.get 0)))",
            "function references",
        ),
        (
            "(func (param v128) (drop (i8x16.relaxed_swizzle (local.get 0) (local.get 0))))",
            "relaxed SIMD",
        ),
    ] {
        let error = error_of(&component_around(items, 1));
        assert!(
            error.starts_with("does not compile: ") && error.contains(feature),
            "{items}: {error}"
        );
    }
}

#[test]
fn many_memories_or_instances_in_one_component_do_not_compile() {
    let error = error_of(&component_around("(memory 1)", 10));
    assert!(
        error.starts_with("does not compile: ") && error.contains("memories"),
        "{error}"
    );
    let error = error_of(&component_around("", 100));
    assert!(
        error.starts_with("does not compile: ") && error.contains("instances"),
        "{error}"
    );
}

#[test]
fn a_function_that_would_compile_for_long_is_refused_unread() {
    let body = "(drop (i32.const 1))".repeat(200_000);
    let module = wat::parse_str(format!("(module (func {body}))")).unwrap();
    assert!(error_of(&module).starts_with("is too large: a function of "));
}

#[test]
fn describe_may_call_no_import() {
    let error = guest().with(GET).describing(GET_A).load_error();
    assert!(
        error.contains("snapshot.get was called from describe, which may call no import but log"),
        "{error}"
    );
}

#[test]
fn describe_that_breaks_or_does_not_end_is_an_error_of_loading() {
    assert!(
        guest()
            .describing("unreachable")
            .load_error()
            .starts_with("describe: trap: ")
    );
    let looping = guest().describing("(loop $l (br $l))");
    let error = looping.load_with(engine(), &little_fuel()).err();
    let error = error.expect("it loads").to_string();
    assert!(
        error.starts_with("describe: over limit: fuel: all of its 10000000 used, which took "),
        "{error}"
    );
}

#[test]
fn a_manifest_that_is_not_valid_is_refused() {
    let error = guest().named("Not_valid").load_error();
    assert!(
        error.starts_with("manifest: name \"Not_valid\" is not a DNS label"),
        "{error}"
    );
}
