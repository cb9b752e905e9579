//! Sends writes to the server in memory, and shows the plugin what they have changed.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use pilothouse_core::{self as host, Execution};
use serde_json::Value;

use super::FakeCluster;

impl FakeCluster {
    /// Sends the writes of an outcome, and answers each before the next is begun; then its Events.
    pub(super) fn perform(&mut self, mut execution: Execution) -> host::Executed {
        let mut pending = VecDeque::new();
        loop {
            let under_way = match execution.advance() {
                ControlFlow::Break(executed) => {
                    self.write_events(&executed.events);
                    return executed;
                }
                ControlFlow::Continue((begun, under_way)) => {
                    pending.extend(begun);
                    under_way
                }
            };
            let write = pending.pop_front().expect("a write is under way");
            let answer = self.send(write.write());
            execution = under_way.answered(write, answer);
        }
    }

    /// Writes the Events of an outcome. None of them fails.
    pub(super) fn write_events(&mut self, events: &[host::TakenEvent]) {
        for event in events {
            self.carry_to_server(&event.write);
        }
    }

    /// Sends a write, unless the test wants it to fail.
    pub(super) fn send(&mut self, write: &host::Write) -> host::WriteAnswer {
        match self.failing.of(write) {
            None => self.carry_to_server(write),
            Some(error) => {
                if error.is_done() {
                    self.carry_to_server(write);
                }
                error.answer()
            }
        }
    }

    fn carry_to_server(&mut self, write: &host::Write) -> host::WriteAnswer {
        if let host::Operation::DeleteAll { labels, .. } = &write.operation {
            return self.delete_all(&write.kind, &write.key.namespace, labels);
        }
        let before = self.server.get(&write.kind, &write.key).cloned();
        let answer = self.server.write(write);
        let caches = self.caches.get_mut();
        if before.is_some() && before.as_ref() != self.server.get(&write.kind, &write.key) {
            // A watch brings what no reconcile has seen before what was made of it.
            let version = self.server.version();
            caches.show(&write.kind, &write.key, before.as_ref(), version, self.now);
        }
        caches.watch(&self.server, &write.kind, &write.key, self.now);
        answer
    }

    fn delete_all(
        &mut self,
        kind: &host::Kind,
        namespace: &str,
        labels: &str,
    ) -> host::WriteAnswer {
        let labels = host::LabelSelector::parse(labels);
        let wanted = host::InformerKey {
            namespace: Some(namespace.into()),
            labels: labels.expect("the host has written the selector"),
            ..host::InformerKey::all(kind.clone())
        };
        let text = |object: &Value, member: &str| {
            let text = object["metadata"][member].as_str();
            text.unwrap_or_default().to_owned()
        };
        let deleted = self.server.matching(&wanted).into_iter().map(|object| {
            let key = host::ObjectKey::new(&text(object, "namespace"), &text(object, "name"));
            (key, text(object, "uid"))
        });
        let deleted: Vec<(host::ObjectKey, String)> = deleted.collect();
        for (key, _) in &deleted {
            self.delete_one(kind, key);
        }
        host::WriteAnswer {
            deleted,
            ..host::ActionResult::Done(None).into()
        }
    }

    pub(super) fn delete_one(&mut self, kind: &host::Kind, key: &host::ObjectKey) {
        // Without preconditions nothing refuses it.
        drop(self.server.delete(kind, key, None, None));
        let caches = self.caches.get_mut();
        caches.watch(&self.server, kind, key, self.now);
    }
}
