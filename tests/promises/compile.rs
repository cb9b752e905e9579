//! Compiling an untrusted file: in a process of its own with limits, only once, and never from a
//! cache entry that another has written.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pilothouse_core::{ObjectKey, Plugin, Reader, Request, Scope, Snapshot, SubjectKey};
use pilothouse_tests::guest;
use pilothouse_wasm::{
    CacheStats, CodeCache, CompileLimits, CompileOptions, Compiler, Engine, EngineOptions,
    LimitPolicy, LoadError, WasmPlugin, load_with,
};
use tokio::time::Instant;

fn engine() -> Engine {
    let options = EngineOptions {
        instances: 8,
        ..EngineOptions::default()
    };
    Engine::new(&options).expect("an engine")
}

fn binary() -> PathBuf {
    std::env::var_os("PILOTHOUSE_BIN")
        .expect("PILOTHOUSE_BIN is not set; run `make test`")
        .into()
}

fn options(limits: CompileLimits) -> CompileOptions {
    CompileOptions {
        child: Some(binary()),
        limits,
        ..CompileOptions::default()
    }
}

fn with_child() -> Compiler {
    Compiler::new(options(CompileLimits::default()))
}

fn load(compiler: &Compiler, bytes: &[u8]) -> Result<WasmPlugin, LoadError> {
    load_with(compiler, &engine(), bytes, &LimitPolicy::default())
}

fn refused(compiler: &Compiler, bytes: &[u8]) -> String {
    let error = load(compiler, bytes).err().expect("it loads").to_string();
    assert!(!error.contains('\n') && error.len() < 4_000, "{error}");
    error
}

fn rust_guest() -> Vec<u8> {
    fs::read(guest("hello-rust")).expect("the guest")
}

/// Returns a component of functions that each pass the scan and together take long to compile.
fn bomb(functions: usize, additions: usize) -> Vec<u8> {
    // i = i * 3 + (i >> 1): 13 bytes of opcodes and LEB128.
    let step = [
        0x20, 0, 0x42, 3, 0x7e, 0x20, 0, 0x42, 1, 0x88, 0x7c, 0x21, 0,
    ];
    repeated(functions, additions, &step)
}

/// Returns a component of this many functions from an i64 to an i64, each of which repeats `step`
/// this often.
fn repeated(functions: usize, times: usize, step: &[u8]) -> Vec<u8> {
    let mut body = vec![0];
    for _ in 0..times {
        body.extend_from_slice(step);
    }
    body.extend_from_slice(&[0x20, 0, 0x0b]);
    let code: Vec<u8> = (0..functions)
        .flat_map(|_| [leb(body.len()), body.clone()].concat())
        .collect();
    let module = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &[1, 0x60, 1, 0x7e, 1, 0x7e]),
        section(3, &[leb(functions), vec![0; functions]].concat()),
        section(10, &[leb(functions), code].concat()),
    ]
    .concat();
    // The component around the module, which exports the right name.
    let mut component = b"\0asm\x0d\0\x01\0".to_vec();
    component.extend(section(1, &module));
    component.extend(section(4, &[b"\0asm\x0d\0\x01\0".as_slice()].concat()));
    component.extend(section(5, &[1, 0, 0, 0]));
    let export = |name: &str| {
        [
            vec![0],
            leb(name.len()),
            name.as_bytes().to_vec(),
            // Sort: instance; index 0; no type.
            vec![5, 0, 0],
        ]
        .concat()
    };
    let exports = [vec![1], export("pilothouse:controller/plugin@0.2.0")].concat();
    component.extend(section(11, &exports));
    component
}

fn section(id: u8, body: &[u8]) -> Vec<u8> {
    [vec![id], leb(body.len()), body.to_vec()].concat()
}

fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = vec![];
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        bytes.push(if number == 0 { low } else { low | 0x80 });
        if number == 0 {
            return bytes;
        }
    }
}

#[test]
fn a_plugin_compiled_by_another_process_runs() {
    let plugin = load(&with_child(), &rust_guest()).expect("it loads");
    assert_eq!(plugin.manifest().name, "hello-rust");
    assert!(plugin.report().compiled.is_some() && plugin.report().native_bytes > 1_000);
}

/// Returns the value of a line of `/proc/PID/status`.
fn status(pid: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mut lines = status.lines();
    lines.find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
}

#[test]
fn the_other_process_has_no_way_to_more_rights_and_only_the_calls_for_computing() {
    for word in ["compile-child", "schema-child"] {
        let mut child = Command::new(binary())
            .args([word, "536870912", "5"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        // The child limits itself first and then waits for its input.
        let filters = || status(child.id(), "Seccomp:").is_some_and(|mode| mode == "2");
        let waiting = Instant::now();
        while !filters() && waiting.elapsed() < Duration::from_secs(30) {
            std::thread::yield_now();
        }
        assert!(filters(), "{word}");
        let rights = status(child.id(), "NoNewPrivs:");
        assert_eq!(rights.as_deref(), Some("1"), "{word}");
        drop(child.stdin.take());
        assert!(child.wait().is_ok());
    }
}

#[test]
fn what_is_wrong_with_a_file_is_said_as_if_it_were_compiled_here() {
    let whole = rust_guest();
    let here = Compiler::default();
    for bytes in [
        &whole[..whole.len() / 2],
        b"\0asm\x0d\0\x01\0",
        &bomb(1, 1)[..60],
    ] {
        assert_eq!(refused(&with_child(), bytes), refused(&here, bytes));
    }
    // An error that only the compiler finds: the module has two memories.
    let mut broken = bomb(1, 1);
    let at = broken
        .windows(4)
        .position(|bytes| bytes == [3, 2, 1, 0])
        .expect("the functions");
    broken[at + 3] = 1;
    assert!(refused(&with_child(), &broken).starts_with("does not compile: "));
    assert_eq!(refused(&with_child(), &broken), refused(&here, &broken));
}

#[test]
fn a_file_that_grows_many_times_when_compiled_is_refused() {
    // Converts to a float and back. The way back must trap where it is not possible, so two of
    // these six bytes become dozens.
    let bytes = repeated(100, 1_000, &[0x20, 0, 0xb9, 0xb0, 0x21, 0]);
    let error = refused(&with_child(), &bytes);
    assert!(error.contains("its native code is larger than"), "{error}");
    assert_eq!(error, refused(&Compiler::default(), &bytes));
}

#[test]
fn a_file_that_takes_too_long_or_too_much_ends_the_other_process_and_nothing_else() {
    let bomb = bomb(400, 12_000);
    let limited = |limits| Compiler::new(options(limits));
    let default = CompileLimits::default();
    let cpu = limited(CompileLimits {
        cpu: Duration::from_secs(1),
        ..default
    });
    assert_eq!(
        refused(&cpu, &bomb),
        "does not compile: compiling needs more than 1 s of CPU time"
    );
    let memory = limited(CompileLimits {
        memory_bytes: 200 << 20,
        ..default
    });
    assert_eq!(
        refused(&memory, &bomb),
        "does not compile: compiling needs more than 200 MiB of memory"
    );
    let wall = limited(CompileLimits {
        wall: Duration::from_millis(300),
        ..default
    });
    assert_eq!(
        refused(&wall, &bomb),
        "does not compile: compiling needs more than 300ms"
    );
    assert!(
        load(&with_child(), &rust_guest()).is_ok(),
        "the next is well"
    );
}

/// Found by mutating files at random (`host/wasm/tests/all/mutations.rs`). Its component-type
/// section makes wit-component's merging of worlds recurse without end: a process that makes a
/// component of it dies.
const ENDLESS_WORLD: &[u8] = include_bytes!("files/endless-world.wasm");

#[test]
fn a_file_that_crashes_the_compiler_ends_the_other_process_and_nothing_else() {
    let error = refused(&with_child(), ENDLESS_WORLD);
    assert!(
        error.starts_with("does not compile: the compiling process has died")
            && error.contains("overflowed its stack"),
        "{error}"
    );
}

#[test]
fn an_executable_that_is_no_compiler_is_said_to_be_none() {
    let with = |child: &str| {
        Compiler::new(CompileOptions {
            child: Some(child.into()),
            ..CompileOptions::default()
        })
    };
    let error = refused(&with("/does/not/exist"), &rust_guest());
    assert!(
        error.contains("the compiling process cannot be started"),
        "{error}"
    );
    for other in ["/bin/false", "/bin/true"] {
        let error = refused(&with(other), &rust_guest());
        assert!(error.contains("the compiling process has died"), "{error}");
    }
}

/// Returns the p50 and the p99 of a well-behaved plugin's reconciles while `act` runs.
fn latency_while(plugin: &Arc<WasmPlugin>, act: impl FnOnce()) -> [Duration; 2] {
    let has_ended = AtomicBool::new(false);
    let kind = Arc::new(plugin.manifest().reconciles[0].kind.clone());
    let key = SubjectKey::of(&kind, ObjectKey::new("default", "a"));
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| {
            let mut times = vec![];
            while !has_ended.load(Ordering::Relaxed) {
                let request = Request {
                    key: key.clone(),
                    attempt: 1,
                    previous: vec![],
                    memo: None,
                    config: "{}".into(),
                };
                let started = Instant::now();
                let mut reader = Reader::new(Snapshot::default(), Arc::new(Scope::default()), 0);
                drop(plugin.reconcile(&request, &mut reader));
                times.push(started.elapsed());
                std::thread::sleep(Duration::from_micros(200));
            }
            times
        });
        act();
        has_ended.store(true, Ordering::Relaxed);
        neighbour.join().expect("the neighbour")
    });
    times.sort();
    [times[times.len() / 2], times[times.len() * 99 / 100]]
}

#[test]
fn a_compile_bomb_does_not_slow_down_who_runs() {
    let plugin = Arc::new(load(&with_child(), &rust_guest()).expect("it loads"));
    let alone = latency_while(&plugin, || std::thread::sleep(Duration::from_secs(3)));
    let limits = CompileLimits {
        cpu: Duration::from_secs(3),
        ..CompileLimits::default()
    };
    let beside = latency_while(&plugin, || {
        let error = refused(&Compiler::new(options(limits)), &bomb(400, 12_000));
        assert!(error.contains("3 s of CPU time"), "{error}");
    });
    println!("a run, p50 and p99: alone {alone:?}, beside a compile bomb {beside:?}");
    // The bomb may take away one core. A host that compiled in its own threads would be slower by
    // far.
    assert!(beside[0] < alone[0] * 3 + Duration::from_millis(1));
}

fn cached(directory: &std::path::Path) -> Compiler {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).expect("chmod");
    let cache = CodeCache::open(directory, CodeCache::DEFAULT_BYTES).expect("a cache");
    Compiler::new(CompileOptions {
        cache: Some(cache),
        ..options(CompileLimits::default())
    })
}

#[test]
fn a_file_is_compiled_once_and_tampered_code_is_compiled_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let compiler = cached(directory.path());
    let wasm = rust_guest();
    let first = load(&compiler, &wasm).expect("it loads");
    assert!(first.report().compiled.is_some());
    let again = load(&compiler, &wasm).expect("it loads");
    assert!(again.report().compiled.is_none());
    println!(
        "hello-rust: {:?} compiled, {:?} cached",
        first.report().total,
        again.report().total
    );
    // Another compiler on the same directory, as after a restart of the host.
    let compiler = cached(directory.path());
    assert!(
        load(&compiler, &wasm)
            .expect("it loads")
            .report()
            .compiled
            .is_none()
    );
    let entry = fs::read_dir(directory.path())
        .expect("the cache")
        .map(|file| file.expect("a file").path())
        .find(|path| {
            path.extension()
                .is_some_and(|extension| extension == "code")
        })
        .expect("an entry");
    let mut code = fs::read(&entry).expect("the entry");
    let middle = code.len() / 2;
    code[middle] ^= 1;
    fs::write(&entry, code).expect("tampering");
    assert!(
        load(&compiler, &wasm)
            .expect("it loads")
            .report()
            .compiled
            .is_some()
    );
    assert!(
        load(&compiler, &wasm)
            .expect("it loads")
            .report()
            .compiled
            .is_none()
    );
    let stats = CacheStats {
        hits: 2,
        refused: 1,
        ..CacheStats::default()
    };
    assert_eq!(compiler.cache_stats(), stats);
}

#[test]
#[ignore = "takes half a minute; make soak"]
fn python_is_compiled_within_the_limits_and_loaded_from_the_cache_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let compiler = cached(directory.path());
    let wasm = fs::read(guest("hello-python")).expect("the guest");
    let first = load(&compiler, &wasm).expect("it loads");
    let again = load(&compiler, &wasm).expect("it loads");
    assert!(again.report().compiled.is_none());
    println!(
        "hello-python, {} bytes, {} of native code: {:?} compiled, {:?} cached",
        first.report().bytes,
        first.report().native_bytes,
        first.report().total,
        again.report().total
    );
}
