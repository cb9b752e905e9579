use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn directory() -> (tempfile::TempDir, Directory) {
    let temporary = tempfile::tempdir().unwrap();
    let directory = Directory::open(temporary.path()).unwrap();
    (temporary, directory)
}

fn problem(listing: &DirectoryListing, name: &str) -> String {
    listing.plugins[name].wasm.clone().unwrap_err()
}

#[test]
fn plugins_are_listed_with_their_settings() {
    let (temporary, directory) = directory();
    let write = |name: &str, text: &str| std::fs::write(temporary.path().join(name), text).unwrap();
    write("b.wasm", "b");
    write("a.wasm", "a");
    write("a.toml", "paused = true");
    write("pilothouse.toml", "weight = 2");
    write(".c.wasm", "half");
    write("readme.md", "");
    let listing = directory.list().unwrap();
    let names: Vec<&str> = listing.plugins.keys().map(String::as_str).collect();
    assert_eq!(names, ["a.wasm", "b.wasm"]);
    let settings = listing.plugins["a.wasm"].settings.clone();
    assert_eq!(settings, Some(Ok("paused = true".into())));
    assert_eq!(listing.plugins["b.wasm"].settings, None);
    assert_eq!(listing.defaults, Some(Ok("weight = 2".into())));
    assert_eq!(directory.read("a.wasm"), Ok(b"a".to_vec()));
}

#[test]
fn no_two_plugins_have_the_same_settings() {
    let (temporary, directory) = directory();
    let write = |name: &str| std::fs::write(temporary.path().join(name), "").unwrap();
    for name in [
        "a.wasm",
        "a.wasm.wasm",
        "a.toml",
        "pilothouse.wasm",
        "pilothouse.toml",
    ] {
        write(name);
    }
    let listing = directory.list().unwrap();
    assert!(listing.plugins["a.wasm"].settings.is_some());
    assert_eq!(listing.plugins["a.wasm.wasm"].settings, None);
    assert_eq!(listing.plugins["pilothouse.wasm"].settings, None);
    let problem = problem(&listing, "pilothouse.wasm");
    assert!(problem.ends_with("rename it"), "{problem}");
}

#[test]
fn settings_that_are_for_no_plugin_are_listed_and_the_files_of_other_tools_are_not() {
    let (temporary, directory) = directory();
    let write = |name: &str, text: &str| std::fs::write(temporary.path().join(name), text).unwrap();
    write("my_site.wasm", "");
    write("my-site.toml", "pausd = true");
    write("gone.toml", "paused = true");
    write("other.wasm", "");
    write("other.toml", "");
    write("Cargo.toml", "[package]\nname = \"my-site\"");
    write("pilothouse.toml", "");
    let files = |listing: DirectoryListing| -> Vec<String> {
        let strays = listing.strays.into_iter();
        strays.map(|stray| stray.file).collect()
    };
    let all = files(directory.list().unwrap());
    assert_eq!(all, ["gone.toml", "my-site.toml"]);
    for (only, told) in [("my_site.wasm", &["my-site.toml"][..]), ("other.wasm", &[])] {
        let directory = Directory::open(&temporary.path().join(only)).unwrap();
        assert_eq!(files(directory.list().unwrap()), told, "{only}");
    }
}

#[test]
fn a_replaced_file_is_another_one_and_an_untouched_one_is_not() {
    let (temporary, directory) = directory();
    let path = temporary.path().join("a.wasm");
    std::fs::write(&path, "one").unwrap();
    let before = directory.list().unwrap();
    assert_eq!(directory.list().unwrap(), before);
    std::fs::write(temporary.path().join("new"), "two").unwrap();
    std::fs::rename(temporary.path().join("new"), &path).unwrap();
    assert_ne!(directory.list().unwrap(), before);
}

/// The layout of a ConfigMap's volume: `..data` is swapped for another directory in one step.
#[test]
fn the_links_of_a_mounted_volume_are_followed() {
    let (temporary, directory) = directory();
    let at = |name: &str| temporary.path().join(name);
    for (version, text) in [("..2026_1", "one"), ("..2026_2", "two")] {
        std::fs::create_dir(at(version)).unwrap();
        std::fs::write(at(version).join("a.wasm"), text).unwrap();
    }
    symlink("..2026_1", at("..data")).unwrap();
    symlink("..data/a.wasm", at("a.wasm")).unwrap();
    let before = directory.list().unwrap();
    assert_eq!(directory.read("a.wasm"), Ok(b"one".to_vec()));
    symlink("..2026_2", at("..data_tmp")).unwrap();
    std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
    assert_ne!(directory.list().unwrap(), before);
    assert_eq!(directory.read("a.wasm"), Ok(b"two".to_vec()));
}

#[test]
fn a_link_out_of_the_directory_is_refused() {
    let (temporary, directory) = directory();
    let link = |to: &str, name: &str| symlink(to, temporary.path().join(name)).unwrap();
    link("/etc/passwd", "absolute.wasm");
    link("../../etc/passwd", "relative.wasm");
    link("/proc/self/exe", "proc.wasm");
    link("loop.wasm", "loop.wasm");
    link("/etc/passwd", "absolute.toml");
    let listing = directory.list().unwrap();
    for name in ["absolute.wasm", "relative.wasm", "proc.wasm"] {
        let problem = problem(&listing, name);
        assert!(problem.contains("out of the plugin directory"), "{problem}");
    }
    assert!(problem(&listing, "loop.wasm").contains("leads nowhere"));
    let settings = listing.plugins["absolute.wasm"].settings.clone().unwrap();
    assert!(
        settings
            .unwrap_err()
            .contains("out of the plugin directory")
    );
}

#[test]
fn only_a_regular_file_is_a_plugin() {
    let (temporary, directory) = directory();
    std::fs::create_dir(temporary.path().join("folder.wasm")).unwrap();
    let pipe = temporary.path().join("pipe.wasm");
    let made = std::process::Command::new("mkfifo").arg(pipe).status();
    assert!(made.unwrap().success());
    let listing = directory.list().unwrap();
    for name in ["folder.wasm", "pipe.wasm"] {
        assert_eq!(problem(&listing, name), "is not a regular file");
    }
}

#[test]
fn what_everybody_may_write_is_not_run() {
    let (temporary, directory) = directory();
    let open_to_all = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let file = temporary.path().join("a.wasm");
    std::fs::write(&file, "a").unwrap();
    open_to_all(&file, 0o666);
    let listing = directory.list().unwrap();
    assert!(problem(&listing, "a.wasm").contains("chmod o-w"));
    open_to_all(temporary.path(), 0o777);
    let error = Directory::open(temporary.path()).unwrap_err().to_string();
    assert!(error.contains("chmod o-w"), "{error}");
}

#[test]
fn what_its_group_may_write_is_run_and_named() {
    let (temporary, directory) = directory();
    for (name, mode) in [("a.wasm", 0o664), ("a.toml", 0o660), ("b.wasm", 0o644)] {
        let path = temporary.path().join(name);
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let listing = directory.list().unwrap();
    assert!(listing.plugins["a.wasm"].wasm.is_ok());
    assert_eq!(listing.plugins["a.wasm"].settings, Some(Ok(String::new())));
    let named: Vec<&str> = listing.open_to_group.iter().map(String::as_str).collect();
    assert_eq!(named, ["a.toml", "a.wasm"]);
}

/// Only root can make such files.
#[test]
fn what_belongs_to_another_user_is_not_run() {
    let (temporary, directory) = directory();
    let path = temporary.path().join("a.wasm");
    std::fs::write(&path, "a").unwrap();
    std::fs::write(temporary.path().join("a.toml"), "").unwrap();
    if std::os::unix::fs::chown(&path, Some(12345), None).is_err() {
        return;
    }
    let listing = directory.list().unwrap();
    let fault = problem(&listing, "a.wasm");
    assert!(fault.contains("another user (12345)"), "{fault}");
    assert!(directory.read("a.wasm").is_err());
    assert!(listing.plugins["a.wasm"].settings.as_ref().unwrap().is_ok());
    std::os::unix::fs::chown(temporary.path(), Some(12345), None).unwrap();
    let error = Directory::open(temporary.path()).unwrap_err().to_string();
    assert!(error.contains("another user (12345)"), "{error}");
}

#[test]
fn a_name_with_a_path_in_it_is_not_read() {
    let (_temporary, directory) = directory();
    for name in ["../a.wasm", "/etc/passwd"] {
        assert!(directory.read(name).is_err(), "{name}");
    }
}

#[tokio::test]
async fn a_change_is_heard_of() {
    let (temporary, directory) = directory();
    let mut changes = Changes::of(&directory);
    std::fs::write(temporary.path().join("a.wasm"), "a").unwrap();
    timeout(Duration::from_secs(5), changes.next())
        .await
        .expect("it is heard of before the next look");
}

#[tokio::test]
async fn looking_at_the_directory_is_no_change_of_it() {
    let (temporary, directory) = directory();
    std::fs::write(temporary.path().join("a.wasm"), "a").unwrap();
    let mut changes = Changes::of(&directory);
    directory.list().unwrap();
    directory.read("a.wasm").unwrap();
    let is_heard = timeout(QUIET + Duration::from_millis(300), changes.next()).await;
    assert!(is_heard.is_err());
    std::fs::write(temporary.path().join("a.wasm"), "b").unwrap();
    changes.next().await;
}

/// Waits for the next change as a supervisor does that is called away every 50 ms. Returns how long
/// that took.
async fn with_interruptions(changes: &mut Changes) -> Duration {
    let began = tokio::time::Instant::now();
    let short = QUIET / 4;
    while timeout(short, changes.next()).await.is_err() {
        assert!(began.elapsed() < 2 * RESCAN, "it is never told");
    }
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_change_is_not_lost_however_often_the_wait_for_it_is_cancelled() {
    let heard = Arc::new(Notify::new());
    let mut changes = Changes::heard_by(heard.clone());
    heard.notify_one();
    assert!(with_interruptions(&mut changes).await < 2 * QUIET);
    let without_notice = with_interruptions(&mut changes).await;
    assert!(without_notice <= RESCAN + QUIET, "{without_notice:?}");
}

#[tokio::test(start_paused = true)]
async fn the_task_that_hears_of_changes_ends_with_its_owner() {
    let heard = Arc::new(Notify::new());
    let changes = Changes::heard_by(heard.clone());
    tokio::task::yield_now().await;
    assert_eq!(Arc::strong_count(&heard), 2, "the task has one");
    drop(changes);
    tokio::task::yield_now().await;
    assert_eq!(Arc::strong_count(&heard), 1);
}

#[test]
fn one_file_that_is_named_is_the_only_plugin() {
    let (temporary, _) = directory();
    let at = |name: &str| temporary.path().join(name);
    for name in ["a.wasm", "b.wasm", "a.toml", "notes.txt"] {
        std::fs::write(at(name), name).unwrap();
    }
    let directory = Directory::open(&at("a.wasm")).unwrap();
    let listing = directory.list().unwrap();
    let names: Vec<&str> = listing.plugins.keys().map(String::as_str).collect();
    assert_eq!(names, ["a.wasm"]);
    assert_eq!(
        listing.plugins["a.wasm"].settings,
        Some(Ok("a.toml".into()))
    );
    std::fs::remove_file(at("a.wasm")).unwrap();
    assert!(directory.list().unwrap().plugins.is_empty());
    let error = Directory::open(&at("notes.txt")).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "notes.txt is no *.wasm file; --plugins names one, or a directory with some"
        ),
        "{error}"
    );
    assert!(Directory::open(&at("nowhere.wasm")).is_err());
}
