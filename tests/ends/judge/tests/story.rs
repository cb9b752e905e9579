//! What happened at the server and between it and the host, told step by step for the judge.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use pilothouse_tests::What;
use pilothouse_tests::proxy::{Answer, Record as Passed, Seen, SentLine};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Thing;
use crate::actor::Doings;
use crate::facts::Facts;
use crate::judge::{Verdict, judge};
use crate::kinds::KindOf;
use crate::witness::Witness;
use crate::world::Record;

/// So long after it was told, everything is known.
const LONG: Duration = Duration::from_secs(10);

pub struct Story {
    now: Instant,
    version: u64,
    /// What there is, by path, each with its version.
    present: HashMap<String, (Thing, u64)>,
    records: Vec<Record>,
    doings: Doings,
    passed: Passed,
}

impl Story {
    /// These objects are there, and the host has known them for a while.
    pub fn of(things: &[&Thing]) -> Self {
        let mut story = Self {
            now: Instant::now(),
            version: 100,
            present: HashMap::new(),
            records: Vec::new(),
            doings: Doings::default(),
            passed: Passed::default(),
        };
        for thing in things {
            story = story.known(thing);
        }
        story
    }

    /// An actor has created or changed this, and the host has known it for a while.
    pub fn known(self, thing: &Thing) -> Self {
        self.unknown(thing).told(thing).later(LONG)
    }

    /// An actor has removed this, and the host has known it for a while.
    pub fn known_gone(self, thing: &Thing) -> Self {
        self.unknown_gone(thing).told_gone(thing).later(LONG)
    }

    /// The watches tell the host that this is gone.
    pub fn told_gone(mut self, thing: &Thing) -> Self {
        self.line("DELETED", &thing.object, self.version);
        self
    }

    /// An actor has created or changed this, and no watch has told the host.
    pub fn unknown(mut self, thing: &Thing) -> Self {
        self.is_so(thing);
        self.doings.changed(&self.shown(thing));
        self
    }

    /// An actor has removed this, and no watch has told the host.
    pub fn unknown_gone(mut self, thing: &Thing) -> Self {
        self.is_gone(thing);
        self.doings.removed(thing.uid());
        self
    }

    /// The watches tell the host of this object as it is.
    pub fn told(mut self, thing: &Thing) -> Self {
        let shown = self.shown(thing);
        self.line("MODIFIED", &shown, self.version);
        self
    }

    pub fn later(mut self, time: Duration) -> Self {
        self.now += time;
        self
    }

    /// The host asks for the object at this place, and is answered.
    pub fn asks(mut self, thing: &Thing) -> Self {
        let found = self.present.get(&thing.path());
        let answer = match found {
            Some((found, _)) => Answer::json(200, &self.shown(found)),
            None => Answer::status(404),
        };
        self.exchange(Method::GET, &thing.path(), &Value::Null, Some(answer));
        self
    }

    /// The host asks for all pods, and is answered.
    pub fn lists_pods(mut self) -> Self {
        let list = json!({"metadata": {"resourceVersion": self.version.to_string()}, "items": []});
        let path = KindOf::of("pods").path("story", "");
        self.exchange(
            Method::GET,
            &path,
            &Value::Null,
            Some(Answer::json(200, &list)),
        );
        self
    }

    /// The host deletes this at its version, and so it is afterwards; none: it is gone.
    pub fn deletes(self, thing: &Thing, after: Option<&Thing>) -> Self {
        let version = self.version_of(thing).to_string();
        let named = json!({"uid": thing.uid(), "resourceVersion": version});
        self.deletes_if(thing, &named, after)
    }

    /// The host deletes this by its uid alone.
    pub fn deletes_by_uid(self, thing: &Thing, after: Option<&Thing>) -> Self {
        self.deletes_if(thing, &json!({"uid": thing.uid()}), after)
    }

    pub fn deletes_if(self, thing: &Thing, named: &Value, after: Option<&Thing>) -> Self {
        let options = json!({"kind": "DeleteOptions", "preconditions": named});
        self.writes(Method::DELETE, thing, &options, after)
    }

    /// The host deletes this, and is answered with the object as it was last.
    pub fn deletes_and_shows(mut self, thing: &Thing) -> Self {
        let (shown, path) = (self.shown(thing), thing.path());
        let options = json!({"preconditions": {"uid": thing.uid()}});
        self.is_gone(thing);
        let answer = Answer::json(200, &shown);
        self.exchange(Method::DELETE, &path, &options, Some(answer));
        self
    }

    /// The host takes finalizers or puts them on, so that this is so afterwards; none: it is gone.
    pub fn finalizes(self, thing: &Thing, after: Option<&Thing>) -> Self {
        let tested = thing.finalizers().clone();
        self.finalizes_if(thing, &tested, after)
    }

    /// As `finalizes`, by a patch that tests for these finalizers.
    pub fn finalizes_if(self, thing: &Thing, tested: &Value, after: Option<&Thing>) -> Self {
        let wanted = after.map_or(json!([]), |after| after.finalizers().clone());
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": thing.uid()},
            {"op": "test", "path": "/metadata/finalizers", "value": tested},
            {"op": "add", "path": "/metadata/finalizers", "value": wanted},
        ]);
        self.writes(Method::PATCH, thing, &patch, after)
    }

    /// The host writes the references of this, so that they are those afterwards.
    pub fn refers(self, thing: &Thing, after: &Thing) -> Self {
        let version = self.version_of(thing).to_string();
        let references = &after.object["metadata"]["ownerReferences"];
        let metadata = json!({
            "uid": thing.uid(), "resourceVersion": version, "ownerReferences": references,
        });
        self.writes(
            Method::PATCH,
            thing,
            &json!({"metadata": metadata}),
            Some(after),
        )
    }

    /// Nobody has asked for this.
    pub fn happens(mut self, thing: &Thing, after: Option<&Thing>) -> Self {
        match after {
            Some(after) => self.is_so(after),
            None => self.is_gone(thing),
        }
        self
    }

    /// The host asks for a write of this, the server refuses it, and nothing changes.
    pub fn refused(mut self, method: Method, thing: &Thing, body: &Value) -> Self {
        let refusal = json!({"kind": "Status", "code": 409, "details": {"uid": thing.uid()}});
        let answer = Answer::json(409, &refusal);
        self.exchange(method, &thing.path(), body, Some(answer));
        self
    }

    /// The host asks for this write, and is killed before it is answered.
    pub fn unanswered(mut self, method: Method, thing: &Thing, body: &Value) -> Self {
        self.exchange(method, &thing.path(), body, None);
        self
    }

    fn writes(
        mut self,
        method: Method,
        thing: &Thing,
        body: &Value,
        after: Option<&Thing>,
    ) -> Self {
        let answer = match after {
            Some(after) => {
                self.is_so(after);
                self.shown(after)
            }
            None => {
                self.is_gone(thing);
                json!({"kind": "Status", "details": {"uid": thing.uid()}})
            }
        };
        let answer = Answer::json(200, &answer);
        self.exchange(method, &thing.path(), body, Some(answer));
        self
    }

    fn is_so(&mut self, thing: &Thing) {
        self.version += 1;
        let old = self
            .present
            .insert(thing.path(), (thing.clone(), self.version));
        let is_new = old.is_none_or(|(old, _)| old.uid() != thing.uid());
        let what = match is_new {
            true => What::Added,
            false => What::Modified,
        };
        self.record(what, thing);
    }

    fn is_gone(&mut self, thing: &Thing) {
        self.version += 1;
        self.present.remove(&thing.path());
        self.record(What::Deleted, thing);
    }

    fn record(&mut self, what: What, thing: &Thing) {
        self.records.push(Record {
            version: self.version,
            what,
            facts: Arc::new(Facts::of(thing.resource, &thing.object)),
        });
    }

    pub fn version_of(&self, thing: &Thing) -> u64 {
        self.present[&thing.path()].1
    }

    /// The object with its version.
    fn shown(&self, thing: &Thing) -> Value {
        let mut object = thing.object.clone();
        object["metadata"]["resourceVersion"] = self.version_of(thing).to_string().into();
        object
    }

    fn line(&mut self, what: &str, object: &Value, version: u64) {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let text = json!({"type": what, "object": object}).to_string();
        let line = SentLine {
            at: self.now,
            text: text.into(),
        };
        self.passed.sent.push(line);
        self.tick();
    }

    fn exchange(&mut self, method: Method, path: &str, body: &Value, answer: Option<Answer>) {
        let mut segments = path.trim_start_matches('/').rsplit('/');
        let last = segments.next().unwrap();
        let is_pods = last == "pods";
        let seen = Seen {
            method,
            path: path.to_owned(),
            query: String::new(),
            resource: if is_pods {
                "pods"
            } else {
                segments.next().unwrap()
            }
            .to_owned(),
            name: (!is_pods).then(|| last.to_owned()),
            at: self.now,
            connection: 1,
            body: body.to_string().into(),
        };
        self.passed.requests.push(seen.clone());
        self.passed
            .answers
            .extend(answer.map(|answer| (seen, answer)));
        self.tick();
    }

    /// No two things happen at the same time.
    fn tick(&mut self) {
        self.now += Duration::from_millis(1);
    }

    pub fn verdict(&self) -> Verdict {
        let mut witness = Witness::default();
        witness.learn(&self.passed);
        judge(&self.records, &self.doings, &witness)
    }

    /// Every write was as this rule says, without anything that is set apart.
    pub fn passes(self, rule: &str) {
        let verdict = self.verdict();
        assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
        assert!(verdict.excused.is_empty(), "{:?}", verdict.excused);
        assert!(verdict.checks[rule] > 0, "{rule} was not judged");
    }

    /// One thing was not as the rule says, and this excuses it.
    pub fn sets_apart(self, reason: &str) {
        let verdict = self.verdict();
        assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
        let excused: Vec<_> = verdict.excused.into_iter().collect();
        assert_eq!(excused, [(reason, 1)]);
    }

    /// A write breaks a rule, in this way.
    pub fn breaks(self, how: &str) {
        self.breaks_all(&[how]);
    }

    /// Rules are broken in these ways, in this order, and in no other.
    pub fn breaks_all(self, how: &[&str]) {
        let verdict = self.verdict();
        let violations = &verdict.violations;
        assert!(verdict.excused.is_empty(), "{:?}", verdict.excused);
        assert_eq!(violations.len(), how.len(), "{violations:#?}");
        for (violation, how) in violations.iter().zip(how) {
            assert!(violation.contains(how), "{violation}");
        }
    }
}
