//! Asks the server in memory, past every cache.

use pilothouse_core::{self as host, ReadFailure};
use serde_json::Value;

use super::FakeCluster;

impl FakeCluster {
    /// Whether the server has what an outcome wants to have confirmed as it was shown. If not, the
    /// next reconcile sees what the server has.
    pub(super) fn is_confirmed(&mut self, confirmed: &host::Confirmed) -> bool {
        let answers = self.confirm_answers(&confirmed.objects, &confirmed.lists);
        let caches = self.caches.get_mut();
        let contradicted = caches.hub.contradicted(confirmed, answers);
        let contradicted = contradicted.unwrap_or_else(|reason| panic!("{reason}"));
        let Some(questions) = contradicted else {
            return true;
        };
        for host::Question { kind, key, .. } in &questions {
            caches.watch(&self.server, kind, key, self.now);
        }
        false
    }

    pub(super) fn confirm_answers(
        &self,
        objects: &[host::ConfirmedObject],
        lists: &[host::ConfirmedList],
    ) -> host::ConfirmAnswers {
        let object = |asked: &host::ConfirmedObject| {
            let found = self.server.get(asked.kind(), &asked.key);
            let found = found.map(Value::to_string);
            asked
                .examine(found.as_deref())
                .map_err(ReadFailure::Refused)
        };
        let list = |asked: &host::ConfirmedList| {
            let objects = self.server.matching(&asked.target).into_iter();
            let found = objects.map(|object| asked.examine(&object.to_string()));
            let found: Result<Vec<_>, String> = found.collect();
            let found = found.map_err(ReadFailure::Refused)?;
            Ok(found.into_iter().flatten().collect())
        };
        host::ConfirmAnswers {
            objects: objects.iter().map(object).collect(),
            lists: lists.iter().map(list).collect(),
        }
    }

    pub(super) fn fetch(&self, question: &host::Question) -> Result<Option<String>, ReadFailure> {
        Ok(self.on_server(&question.kind, &question.key))
    }

    /// An object as the server has it.
    pub(super) fn on_server(&self, kind: &host::Kind, key: &host::ObjectKey) -> Option<String> {
        self.server.get(kind, key).map(Value::to_string)
    }

    /// Fetches the objects that a reconcile has asked about.
    pub(super) fn fetched(&self, fetching: host::Fetching) -> host::Finished {
        let objects = fetching.objects().iter();
        let answers = objects.map(|object| Ok(self.on_server(&object.kind, &object.key)));
        let answers = answers.collect();
        fetching.answered(answers)
    }
}
