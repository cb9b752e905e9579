use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use pilothouse_core::Manifest;

use super::*;
use crate::trust::tests::manifest;

/// A version of `web` in `a.wasm` that asks to write these kinds.
struct Version {
    digest: &'static str,
    manifest: Manifest,
}

fn version(digest: &'static str, kinds: &[&str]) -> Version {
    Version {
        digest,
        manifest: manifest(kinds),
    }
}

impl Version {
    fn asked(&self) -> Asked<'_> {
        self.of("a.wasm", "web")
    }

    fn of<'a>(&'a self, file: &'a str, name: &'a str) -> Asked<'a> {
        Asked {
            file,
            name,
            digest: self.digest,
            manifest: &self.manifest,
        }
    }

    fn wants(&self) -> Wants {
        Wants::of(&self.manifest)
    }

    fn judged(&self, accepted: &AcceptedStore) -> Verdict {
        accepted.judge(self.asked(), &self.wants())
    }

    fn accept(&self, accepted: &mut AcceptedStore) {
        accepted.accept(self.asked(), &self.wants());
    }
}

fn more(kinds: &[&str]) -> Verdict {
    Verdict::More(kinds.iter().map(|kind| format!("delete {kind}")).collect())
}

fn state() -> (tempfile::TempDir, AcceptedStore) {
    let temporary = tempfile::tempdir().unwrap();
    let accepted = AcceptedStore::new(Some(temporary.path()));
    (temporary, accepted)
}

#[test]
fn the_first_version_is_told_from_those_that_ask_for_no_more_and_for_more() {
    let (_temporary, mut accepted) = state();
    let first = version("1", &["Pod", "Node"]);
    assert_eq!(first.judged(&accepted), Verdict::First);
    first.accept(&mut accepted);
    assert_eq!(version("2", &["Pod"]).judged(&accepted), Verdict::Accepted);
    let third = version("3", &["Pod", "Secret"]);
    assert_eq!(third.judged(&accepted), more(&["Secret"]));
    third.accept(&mut accepted);
    assert_eq!(third.judged(&accepted), Verdict::Accepted);
    assert_eq!(
        version("4", &["Node", "Secret"]).judged(&accepted),
        Verdict::Accepted,
        "what was accepted before still is"
    );
}

#[test]
fn what_was_accepted_is_known_to_the_next_process() {
    let (temporary, mut accepted) = state();
    version("1", &["Pod"]).accept(&mut accepted);
    let next = AcceptedStore::new(Some(temporary.path()));
    assert_eq!(version("1", &["Pod"]).judged(&next), Verdict::Accepted);
    assert_eq!(version("2", &["Node"]).judged(&next), more(&["Node"]));
    let mode = |name: &str| temporary.path().join(name).metadata().unwrap().mode() & 0o777;
    assert_eq!(mode("accepted"), 0o700);
    assert_eq!(mode("accepted/plugin-web.json"), 0o600);
    let names = std::fs::read_dir(temporary.path().join("accepted")).unwrap();
    assert_eq!(names.count(), 2, "nothing is left half-written");
}

/// A stranger may choose the name in a file, and the name of the file.
#[test]
fn neither_another_name_nor_another_file_is_a_new_beginning() {
    let (_temporary, mut accepted) = state();
    version("1", &["Pod"]).accept(&mut accepted);
    let new = version("2", &["Node"]);
    for (file, name) in [("a.wasm", "shop"), ("b.wasm", "web")] {
        let verdict = accepted.judge(new.of(file, name), &new.wants());
        assert_eq!(verdict, more(&["Node"]), "{file} {name}");
    }
    let verdict = accepted.judge(new.of("b.wasm", "shop"), &new.wants());
    assert_eq!(verdict, Verdict::First);
    accepted.accept(new.of("b.wasm", "shop"), &new.wants());
    let verdict = accepted.judge(new.of("a.wasm", "shop"), &new.wants());
    assert_eq!(
        verdict,
        more(&["Node"]),
        "it was never accepted of this file"
    );
}

/// A host that reads more out of a manifest must not stop what runs.
#[test]
fn a_file_that_was_accepted_is_accepted_whatever_is_known_of_its_wants() {
    let (temporary, accepted) = state();
    let directory = temporary.path().join("accepted");
    std::fs::create_dir(&directory).unwrap();
    set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
    for text in [
        r#"{"digests":["1"]}"#,
        r#"{"digests":["1"],"wants":{"writes":[{"verb":"dance"}]},"more":3}"#,
    ] {
        std::fs::write(directory.join("plugin-web.json"), text).unwrap();
        assert_eq!(version("1", &["Pod"]).judged(&accepted), Verdict::Accepted);
        assert_eq!(version("2", &["Pod"]).judged(&accepted), more(&["Pod"]));
    }
}

#[test]
fn a_damaged_record_accepts_nothing_until_it_is_written_anew() {
    let (temporary, mut accepted) = state();
    let first = version("1", &["Pod"]);
    first.accept(&mut accepted);
    let path = temporary.path().join("accepted/plugin-web.json");
    std::fs::write(path, "{").unwrap();
    let Verdict::Unreadable(reason) = first.judged(&accepted) else {
        panic!("it is damaged");
    };
    assert!(
        reason.contains("plugin-web.json is damaged; restore it, or remove it"),
        "{reason}"
    );
    first.accept(&mut accepted);
    assert_eq!(first.judged(&accepted), Verdict::Accepted);
}

#[test]
fn what_is_removed_by_hand_is_forgotten() {
    let (temporary, mut accepted) = state();
    let first = version("1", &["Pod"]);
    first.accept(&mut accepted);
    for name in ["plugin-web.json", "file-a.json"] {
        std::fs::remove_file(temporary.path().join("accepted").join(name)).unwrap();
    }
    assert_eq!(first.judged(&accepted), Verdict::First);
}

#[test]
fn a_directory_that_others_may_write_to_is_not_believed() {
    let (temporary, mut accepted) = state();
    let first = version("1", &["Pod"]);
    first.accept(&mut accepted);
    let directory = temporary.path().join("accepted");
    set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
    let verdict = first.judged(&accepted);
    assert!(
        matches!(&verdict, Verdict::Unreadable(reason) if reason.contains("chmod o-w")),
        "{verdict:?}"
    );
    let moved = temporary.path().join("elsewhere");
    std::fs::rename(&directory, &moved).unwrap();
    symlink(&moved, &directory).unwrap();
    assert!(matches!(first.judged(&accepted), Verdict::Unreadable(_)));
}

/// A file stands where the directory should be, so that even root cannot write there.
#[test]
fn without_a_directory_what_is_accepted_is_known_as_long_as_the_process_lives() {
    let temporary = tempfile::NamedTempFile::new().unwrap();
    let nowhere = temporary.path().join("state");
    for place in [None, Some(nowhere.as_path())] {
        let mut accepted = AcceptedStore {
            directory: place.map(Path::to_owned),
            ..AcceptedStore::new(None)
        };
        let first = version("1", &["Pod"]);
        assert!(!matches!(first.judged(&accepted), Verdict::Accepted));
        first.accept(&mut accepted);
        assert_eq!(first.judged(&accepted), Verdict::Accepted);
        assert_eq!(version("2", &["Node"]).judged(&accepted), more(&["Node"]));
        assert_eq!(accepted.has_warned, place.is_some());
    }
}

#[test]
fn the_oldest_digests_are_forgotten() {
    let (_temporary, mut accepted) = state();
    let first = version("first", &["Pod"]);
    first.accept(&mut accepted);
    for number in 0..DIGESTS {
        let digest: &'static str = Box::leak(number.to_string().into());
        version(digest, &["Pod"]).accept(&mut accepted);
    }
    let record = accepted.read("plugin-web.json").unwrap().unwrap();
    assert_eq!(record.digests.len(), DIGESTS);
    assert!(!record.digests.contains(&"first".to_owned()));
    assert_eq!(first.judged(&accepted), Verdict::Accepted, "by its wants");
}

#[test]
fn what_is_known_already_is_not_written_again() {
    let (temporary, mut accepted) = state();
    let first = version("1", &["Pod"]);
    first.accept(&mut accepted);
    let inode = || {
        let path = temporary.path().join("accepted/plugin-web.json");
        path.metadata().unwrap().ino()
    };
    let before = inode();
    first.accept(&mut accepted);
    assert_eq!(inode(), before);
}
