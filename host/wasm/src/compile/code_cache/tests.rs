use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;
use crate::engine::Engine;

const CODE: &[u8] = b"native code of some plugin";

struct Rig {
    engine: wasmtime::Engine,
    directory: TempDir,
    cache: CodeCache,
}

fn rig() -> Rig {
    let directory = TempDir::new().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
    Rig {
        engine: Engine::for_compiling().unwrap(),
        cache: CodeCache::open(directory.path(), CodeCache::DEFAULT_BYTES).unwrap(),
        directory,
    }
}

impl Rig {
    fn key(&self, wasm: u8) -> EntryKey {
        EntryKey::new([wasm; 32], &self.engine)
    }

    fn put(&self, wasm: u8) -> PathBuf {
        let key = self.key(wasm);
        let code = NativeCode::of_own_child(CODE.into());
        self.cache.put(&key, &code);
        self.directory.path().join(key.file_name())
    }

    fn has(&self, wasm: u8) -> bool {
        let found = self.cache.get(&self.key(wasm));
        assert!(found.as_ref().is_none_or(|code| code.bytes() == CODE));
        found.is_some()
    }
}

#[test]
fn what_is_stored_is_found_again_also_after_the_cache_was_opened_anew() {
    let mut rig = rig();
    assert!(!rig.has(1));
    rig.put(1);
    assert!(rig.has(1) && !rig.has(2));
    rig.cache = CodeCache::open(rig.directory.path(), 1 << 20).unwrap();
    assert!(rig.has(1));
}

#[test]
fn an_entry_of_which_any_byte_was_changed_is_removed_and_counted() {
    let rig = rig();
    for byte in 0..rig.put(1).metadata().unwrap().len() as usize {
        let file = rig.put(1);
        let mut bytes = fs::read(&file).unwrap();
        bytes[byte] ^= 1;
        fs::write(&file, bytes).unwrap();
        assert!(!rig.has(1), "byte {byte}");
        assert!(!file.exists());
    }
    assert_eq!(rig.cache.stats().refused, 32 + CODE.len() as u64);
}

#[test]
fn an_entry_that_was_cut_emptied_or_replaced_by_something_else_is_removed() {
    let rig = rig();
    for length in [0, 10, 32, 33, 32 + CODE.len() - 1] {
        let file = rig.put(1);
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..length]).unwrap();
        assert!(!rig.has(1) && !file.exists(), "{length}");
    }
    let (file, other) = (rig.put(1), rig.put(2));
    fs::remove_file(&file).unwrap();
    symlink(&other, &file).unwrap();
    assert!(!rig.has(1) && !file.is_symlink(), "a link");
    assert!(rig.has(2));
}

#[test]
fn an_entry_under_another_plugin_s_name_or_of_another_host_is_removed() {
    let rig = rig();
    let (one, two) = (rig.put(1), rig.put(2));
    fs::copy(&one, &two).unwrap();
    assert!(!rig.has(2) && rig.has(1));
    let other_host = self::rig();
    fs::copy(other_host.put(1), &one).unwrap();
    assert!(!rig.has(1));
}

#[test]
fn code_for_another_engine_is_another_entry() {
    let rig = rig();
    rig.put(1);
    let mut config = wasmtime::Config::new();
    config.consume_fuel(false);
    let other = wasmtime::Engine::new(&config).unwrap();
    assert!(rig.cache.get(&EntryKey::new([1; 32], &other)).is_none());
    assert_eq!(rig.cache.stats().refused, 0);
}

#[test]
fn what_has_not_been_used_for_the_longest_time_goes_first() {
    let mut rig = rig();
    let size = rig.put(1).metadata().unwrap().len();
    rig.cache = CodeCache::open(rig.directory.path(), 2 * size).unwrap();
    let two = rig.put(2);
    for (file, age) in [(rig.put(1), 200), (two, 100)] {
        let then = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        fs::File::open(file).unwrap().set_modified(then).unwrap();
    }
    assert!(rig.has(1), "used just now");
    rig.put(3);
    assert!(rig.has(1) && rig.has(3) && !rig.has(2));
    assert_eq!(rig.cache.stats().evicted, 1);
}

#[test]
fn an_entry_that_another_process_has_evicted_first_is_no_error() {
    let rig = rig();
    let ages = [(1, 300), (2, 200), (3, 100)];
    let [one, two, three] = ages.map(|(wasm, age)| {
        let file = rig.put(wasm);
        let then = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        fs::File::open(&file).unwrap().set_modified(then).unwrap();
        file
    });
    let size = one.metadata().unwrap().len();
    let entries = directory::tidy(rig.directory.path()).unwrap();
    fs::remove_file(one).unwrap();
    let removed = directory::make_room(entries, size).unwrap();
    assert_eq!(removed, 1, "not counting that one");
    assert!(!two.exists() && three.exists());
}

#[test]
fn files_and_directory_are_for_this_user_alone() {
    let parent = TempDir::new().unwrap();
    let directory = parent.path().join("a/b");
    let rig = Rig {
        cache: CodeCache::open(&directory, 1 << 20).unwrap(),
        engine: Engine::for_compiling().unwrap(),
        directory: parent,
    };
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory), 0o700);
    rig.put(1);
    let files: Vec<_> = fs::read_dir(&directory)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    assert_eq!(files.len(), 2, "the secret and one entry: {files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
}

#[test]
fn a_directory_or_secret_that_others_can_reach_is_refused() {
    let rig = rig();
    let path = rig.directory.path();
    let open = || {
        CodeCache::open(path, 1 << 20)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let chmod =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    chmod(path, 0o750);
    assert!(
        open()
            .unwrap_err()
            .contains("can be read or written by others")
    );
    chmod(path, 0o700);
    let secret = path.join("secret");
    chmod(&secret, 0o604);
    assert!(
        open()
            .unwrap_err()
            .contains("can be read or written by others")
    );
    chmod(&secret, 0o600);
    fs::write(&secret, "short").unwrap();
    assert!(open().unwrap_err().contains("not a secret"));
    fs::remove_file(&secret).unwrap();
    symlink("/etc/hostname", &secret).unwrap();
    assert!(open().unwrap_err().contains("link"));
    let link = path.join("link");
    symlink("/tmp", &link).unwrap();
    let error = CodeCache::open(&link, 1 << 20).unwrap_err().to_string();
    assert!(error.contains("link"), "{error}");
}

#[test]
fn two_hosts_that_begin_at_once_agree_on_one_secret() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("cache");
    let secrets: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| CodeCache::open(&path, 1 << 20).unwrap().secret))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(secrets.iter().all(|secret| *secret == secrets[0]));
}
