//! What has passed between the host and the server, in the path of every request: what the host has
//! asked for, what it was answered, and what its watches have told it.

use std::collections::HashMap;

use http::Method;
use pilothouse_tests::proxy::{Answer, Record, Seen, SentLine};
use serde_json::Value;
use tokio::time::Instant;

/// What a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Delete,
    /// Changes the finalizers.
    Finalizers,
    /// Changes something else.
    Other,
}

/// A write of the host.
#[derive(Clone, Debug)]
pub struct Write {
    pub at: Instant,
    connection: u64,
    act: Act,
    /// The object that it is meant for, if it says so.
    pub uid: Option<String>,
    /// The version that the object must have for the write, if it says so.
    pub version: Option<u64>,
    /// The finalizers that the object must have for the write, if it says so.
    pub finalizers: Option<Vec<String>>,
    /// Nothing if the answer was not seen: the host was killed meanwhile.
    answer: Option<Written>,
}

/// The server's answer to a write.
#[derive(Clone, Debug)]
struct Written {
    is_done: bool,
    uid: String,
    version: Option<u64>,
}

/// The server's answer to a question of the host about an object.
#[derive(Clone, Debug)]
pub struct Answered {
    /// When it was asked.
    pub at: Instant,
    /// Uid and version; nothing if there was no such object.
    pub found: Option<(String, u64)>,
}

/// A change of an object, as far as it tells which write has made it.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    pub uid: &'a str,
    /// The version of the object before the change.
    pub before: u64,
    /// The version that the change has made.
    pub version: u64,
    /// With it the object is gone.
    pub is_gone: bool,
}

/// All that was seen.
#[derive(Default)]
pub struct Witness {
    /// By path.
    writes: HashMap<String, Vec<Write>>,
    /// By path.
    gets: HashMap<String, Vec<Answered>>,
    /// When pods were listed, by path, each with the version of the answer.
    lists: HashMap<String, Vec<(Instant, u64)>>,
    /// What the host's watches have told it, by uid.
    told: HashMap<String, Vec<(Instant, u64)>>,
    /// When they have first told it that an object is gone, by uid.
    gone: HashMap<String, Instant>,
    pub counts: Counts,
}

/// How many there were.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub writes: usize,
    pub done: usize,
    pub refused: usize,
    pub questions: usize,
    pub lines: usize,
}

impl Witness {
    /// Takes in what the proxy has recorded.
    pub fn learn(&mut self, record: &Record) {
        for seen in &record.requests {
            if !matches!(seen.method, Method::GET | Method::HEAD) {
                self.asked(seen);
            }
        }
        for (seen, answer) in &record.answers {
            if seen.method == Method::GET {
                self.answered(seen, answer);
            } else {
                self.written(seen, answer);
            }
        }
        for line in &record.sent {
            self.was_told(line);
        }
    }

    fn asked(&mut self, seen: &Seen) {
        self.counts.writes += 1;
        let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        let finalizers = tested_finalizers(&body);
        let act = match seen.method {
            Method::DELETE => Act::Delete,
            _ if finalizers.is_some() => Act::Finalizers,
            _ => Act::Other,
        };
        let writes = self.writes.entry(seen.path.clone()).or_default();
        writes.push(Write {
            at: seen.at,
            connection: seen.connection,
            act,
            uid: named(&body, "uid").map(str::to_owned),
            version: named(&body, "resourceVersion").and_then(|version| version.parse().ok()),
            finalizers,
            answer: None,
        });
    }

    fn written(&mut self, seen: &Seen, answer: &Answer) {
        let is_done = (200..300).contains(&answer.status);
        match is_done {
            true => self.counts.done += 1,
            false => self.counts.refused += 1,
        }
        let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let uid = [&body["metadata"]["uid"], &body["details"]["uid"]];
        let uid = uid.iter().find_map(|uid| uid.as_str());
        let written = Written {
            is_done,
            uid: uid.unwrap_or_default().to_owned(),
            version: version_of(&body),
        };
        let writes = self.writes.get_mut(&seen.path).into_iter().flatten();
        for write in writes {
            if write.at == seen.at && write.connection == seen.connection {
                write.answer = Some(written.clone());
            }
        }
    }

    fn answered(&mut self, seen: &Seen, answer: &Answer) {
        let is_of_pods = seen.is_list() && seen.resource == "pods";
        if seen.name.is_none() && !is_of_pods {
            return;
        }
        self.counts.questions += 1;
        let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let version = version_of(&body);
        match (answer.status, version) {
            (200, Some(version)) if is_of_pods => {
                let lists = self.lists.entry(seen.path.clone()).or_default();
                lists.push((seen.at, version));
            }
            (200, Some(version)) => {
                let uid = body["metadata"]["uid"].as_str().unwrap_or_default();
                self.found(seen, Some((uid.to_owned(), version)));
            }
            (404, _) => self.found(seen, None),
            _ => {}
        }
    }

    fn found(&mut self, seen: &Seen, found: Option<(String, u64)>) {
        let gets = self.gets.entry(seen.path.clone()).or_default();
        gets.push(Answered { at: seen.at, found });
    }

    fn was_told(&mut self, line: &SentLine) {
        self.counts.lines += 1;
        let event: Value = serde_json::from_slice(&line.text).unwrap_or_default();
        let uid = event["object"]["metadata"]["uid"].as_str();
        let (Some(uid), Some(version)) = (uid, version_of(&event["object"])) else {
            return;
        };
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => {
                let told = self.told.entry(uid.to_owned()).or_default();
                told.push((line.at, version));
            }
            Some("DELETED") => {
                self.gone.entry(uid.to_owned()).or_insert(line.at);
            }
            _ => {}
        }
    }

    /// The write that has made this change of the object at this path.
    pub fn write_of(&self, path: &str, change: Made<'_>, act: Act) -> Option<&Write> {
        let writes = self.writes.get(path)?.iter();
        let fits = writes.filter(|write| write.act == act && write.fit(change) > 0);
        fits.max_by_key(|write| write.fit(change))
    }

    /// The answers to questions about an object before this time.
    pub fn gets(&self, path: &str, before: Instant) -> impl Iterator<Item = &Answered> {
        let gets = self.gets.get(path).into_iter().flatten();
        gets.filter(move |get| get.at < before)
    }

    /// The lists of pods before this time: when each was asked for, and its version.
    pub fn lists(&self, path: &str, before: Instant) -> impl Iterator<Item = (Instant, u64)> {
        let lists = self.lists.get(path).into_iter().flatten();
        lists.copied().filter(move |(at, _)| *at < before)
    }

    /// When the host's watches have told it of this version of an object, or of a later one.
    pub fn told_at(&self, uid: &str, version: u64) -> Option<Instant> {
        let told = self.told.get(uid)?.iter();
        let told = told.filter(|(_, told)| *told >= version);
        told.map(|(at, _)| *at).min()
    }

    /// When the host's watches have told it that an object is gone.
    pub fn told_gone(&self, uid: &str) -> Option<Instant> {
        self.gone.get(uid).copied()
    }
}

impl Write {
    /// How well it explains a change: not at all (0), perhaps, as its answer is not known, as far
    /// as the uid says, or surely.
    fn fit(&self, change: Made<'_>) -> u8 {
        let is_meant = self.uid.as_ref().is_none_or(|uid| uid == change.uid)
            && self.version.is_none_or(|version| version == change.before);
        // What is answered is the object as the write has left it. A pod that goes at once is
        // marked first, so that the answer may be later than a change.
        let is_earlier = |answered: u64| !change.is_gone && answered < change.version;
        match &self.answer {
            _ if !is_meant => 0,
            None => 1,
            Some(answer) if !answer.is_done || answer.uid != change.uid => 0,
            Some(answer) if answer.version == Some(change.version) => 3,
            Some(answer) if answer.version.is_some_and(is_earlier) => 0,
            Some(_) => 2,
        }
    }
}

/// The finalizers for which a JSON Patch tests.
fn tested_finalizers(body: &Value) -> Option<Vec<String>> {
    let test = tested(body, "/metadata/finalizers")?;
    let names = test.as_array().into_iter().flatten();
    let names = names.filter_map(|name| name.as_str().map(str::to_owned));
    Some(names.collect())
}

/// The value for which a JSON Patch tests.
fn tested<'a>(body: &'a Value, path: &str) -> Option<&'a Value> {
    let mut steps = body.as_array()?.iter();
    let is_test = |step: &&Value| step["op"] == "test" && step["path"] == path;
    steps.find(is_test).map(|step| &step["value"])
}

/// What a write says that its object must have in this member of its metadata: in a deletion's
/// preconditions, a merge patch, or a test of a JSON Patch.
fn named<'a>(body: &'a Value, member: &str) -> Option<&'a str> {
    let tested = tested(body, &format!("/metadata/{member}"));
    let places = [&body["preconditions"][member], &body["metadata"][member]];
    tested.into_iter().chain(places).find_map(Value::as_str)
}

fn version_of(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}
