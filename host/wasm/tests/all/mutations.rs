//! Randomly mutated files and random answers: none of them makes the host panic.

use std::sync::OnceLock;

use pilothouse_core::{Plugin, RunError};
use pilothouse_wasm::{CompileOptions, Compiler, LimitPolicy, LoadError, load_with};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::support::{GET, LOG, SAY_A, engine, guest, reader, request};

/// One change to a file.
#[derive(Clone, Debug)]
enum Mutation {
    Flip(prop::sample::Index, u8),
    Set(prop::sample::Index, u8),
    Remove(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
    /// Copies a part of another file.
    Splice(prop::sample::Index, prop::sample::Index, usize),
    Truncate(prop::sample::Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    use Mutation as M;
    let place = any::<prop::sample::Index>;
    prop_oneof![
        6 => (place(), 0_u8..8).prop_map(|(at, bit)| M::Flip(at, bit)),
        4 => (place(), any::<u8>()).prop_map(|(at, byte)| M::Set(at, byte)),
        1 => (place(), 1..64_usize).prop_map(|(at, count)| M::Remove(at, count)),
        1 => (place(), 1..64_usize).prop_map(|(at, count)| M::Repeat(at, count)),
        1 => (place(), place(), 1..256_usize).prop_map(|(at, from, count)| M::Splice(at, from, count)),
        1 => place().prop_map(M::Truncate),
    ]
}

/// Real guests, as core modules and as a component.
fn originals() -> &'static [Vec<u8>] {
    static ORIGINALS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    ORIGINALS.get_or_init(|| {
        let modules = [
            guest().module(),
            guest().with(GET).reconciling(SAY_A).module(),
            guest().with(LOG).module(),
        ];
        let component = wit_component::ComponentEncoder::default()
            .module(&modules[1])
            .unwrap()
            .encode()
            .unwrap();
        modules.into_iter().chain([component]).collect()
    })
}

fn mutate(mut bytes: Vec<u8>, other: &[u8], mutations: &[Mutation]) -> Vec<u8> {
    for mutation in mutations {
        if bytes.is_empty() {
            return bytes;
        }
        let length = bytes.len();
        let end = |at: usize, count: usize| (at + count).min(length);
        match mutation {
            Mutation::Flip(at, bit) => bytes[at.index(length)] ^= 1 << bit,
            Mutation::Set(at, byte) => bytes[at.index(length)] = *byte,
            Mutation::Remove(at, count) => {
                let at = at.index(length);
                bytes.drain(at..end(at, *count));
            }
            Mutation::Repeat(at, count) => {
                let at = at.index(length);
                let piece = bytes[at..end(at, *count)].to_vec();
                bytes.splice(at..at, piece);
            }
            Mutation::Splice(at, from, count) => {
                let from = from.index(other.len());
                let piece = other[from..(from + count).min(other.len())].to_vec();
                let at = at.index(length);
                bytes.splice(at..at, piece);
            }
            Mutation::Truncate(at) => bytes.truncate(at.index(length)),
        }
    }
    bytes
}

/// Runs the same cases every time. With more than 1,000 cases it uses new ones, which then find
/// more.
fn runner(cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    if cases > 1_000 {
        return TestRunner::new(config);
    }
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

fn policy() -> LimitPolicy {
    let mut policy = LimitPolicy::default();
    policy.default.fuel = 1_000_000;
    policy
}

/// Loads mutated files. Each load must fail with an error of one line, or succeed, and then a run
/// must return an answer or an error.
fn load_mutated(cases: u32) {
    let choice = (
        0..originals().len(),
        0..originals().len(),
        vec(mutation(), 1..4),
    );
    // In this process a mutated file could end the tests (see
    // `tests/promises/files/endless-world.wasm`), so compile in a child process.
    let child =
        std::env::var_os("PILOTHOUSE_BIN").expect("PILOTHOUSE_BIN is not set; run `make test`");
    let compiler = Compiler::new(CompileOptions {
        child: Some(child.into()),
        ..CompileOptions::default()
    });
    runner(cases)
        .run(&choice, |(one, other, mutations)| {
            let bytes = mutate(originals()[one].clone(), &originals()[other], &mutations);
            match load_with(&compiler, engine(), &bytes, &policy()) {
                Ok(plugin) => {
                    let result = plugin.reconcile(&request("a"), &mut reader());
                    prop_assert!(
                        !matches!(result, Err(RunError::Host(_) | RunError::HostPanic(_))),
                        "{result:?}"
                    );
                }
                Err(LoadError::Describe(error @ (RunError::Host(_) | RunError::HostPanic(_)))) => {
                    return Err(TestCaseError::fail(error.to_string()));
                }
                Err(error) => prop_assert!(!error.to_string().contains('\n'), "{error}"),
            }
            Ok(())
        })
        .unwrap();
}

/// A guest that answers with these bytes: an outcome, followed by data that its pointers may refer
/// to.
fn answer_with(bytes: &[u8]) -> String {
    let stores = bytes.chunks(4).enumerate().map(|(number, chunk)| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        let (at, word) = (2048 + 4 * number, i32::from_le_bytes(word));
        format!("(i32.store (i32.const {at}) (i32.const {word}))")
    });
    stores.collect()
}

/// Four bytes that resemble a part of an answer: mostly small numbers and pointers into memory,
/// sometimes anything.
fn word() -> impl Strategy<Value = [u8; 4]> {
    prop_oneof![
        4 => (0_u32..9).prop_map(u32::to_le_bytes),
        3 => (2048_u32..2300).prop_map(|at| (at & !7).to_le_bytes()),
        1 => any::<[u8; 4]>(),
    ]
}

fn lift_chance(cases: u32) {
    runner(cases)
        .run(&vec(word(), 1..64), |words| {
            let plugin = guest()
                .reconciling(answer_with(&words.concat()).leak())
                .load_with(engine(), &policy())
                .unwrap();
            let result = plugin.reconcile(&request("a"), &mut reader());
            prop_assert!(
                !matches!(result, Err(RunError::Host(_) | RunError::HostPanic(_))),
                "{result:?}"
            );
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_mutated_file_is_an_error_or_a_plugin_and_never_a_panic() {
    load_mutated(1_000);
}

#[test]
fn an_answer_of_chance_is_an_error_or_an_outcome_and_never_a_panic() {
    lift_chance(500);
}

#[test]
#[ignore = "takes minutes; make soak"]
fn many_mutated_files_and_answers_of_chance_are_no_panic_either() {
    load_mutated(10_000);
    lift_chance(5_000);
}
