//! Plans a `finalizer` action.

use serde_json::{Value, json};

use super::{Draft, Planner, write};
use crate::access::permission::Denied;
use crate::model::key::{Kind, ObjectKey};
use crate::model::manifest::Verb;
use crate::model::outcome::{ActionResult, EffectVerb, PatchType};
use crate::plan::write::Operation;
use crate::plan::{ActionError, ObjectAddress};

impl Planner<'_, '_> {
    /// A JSON Patch that requires the uid of the object that the snapshot shows, and the finalizers
    /// that the object has there or that this outcome has given it. So no other writer's finalizer
    /// is lost. Other changes of the object do not matter.
    pub(super) fn finalizer(
        &mut self,
        kind: &Kind,
        key: &ObjectKey,
        name: &str,
        present: bool,
    ) -> Result<Draft, ActionError> {
        self.check(Verb::Patch, kind, key, &None)?;
        let known = |result| Draft::known(kind, key, EffectVerb::Finalizer, result);
        if !self.reader.may_read(kind) {
            return Err(Denied::NotRead(kind.clone()).into());
        }
        let target = ObjectAddress::of(kind, key);
        let seen = self.reader.look_at(kind, key);
        let seen = seen.filter(|_| !self.born.contains(&target));
        let own = self.finalizers.get(&target).cloned();
        let have = own.or_else(|| seen.as_ref().map(|object| object.finalizers()));
        let Some(have) = have else {
            let is_done = !present && self.reader.knows(kind, key);
            let gone = || ActionResult::NotFound(format!("{kind} {key} is not in the cache"));
            return Ok(known(if is_done {
                ActionResult::Unchanged
            } else {
                gone()
            }));
        };
        let is_so = have.iter().any(|have| have == name) == present;
        if is_so && !self.is_written(kind, key) {
            return Ok(known(ActionResult::Unchanged));
        }
        let others = have.iter().map(String::as_str).filter(|have| *have != name);
        let wanted: Vec<&str> = others.chain(present.then_some(name)).collect();
        let uid = seen.as_ref().map(|object| object.uid());
        let uid = uid.filter(|uid| !uid.is_empty());
        let body = finalizer_patch(uid, &have, &wanted);
        let wanted = wanted.into_iter().map(str::to_owned).collect();
        self.finalizers.insert(target, wanted);
        let operation = Operation::Patch {
            patch_type: PatchType::Json,
            body: body.to_string(),
        };
        let write = write(kind, key, &None, operation);
        Ok(Draft::send(EffectVerb::Finalizer, write).of_finalizer(present))
    }
}

/// A JSON Patch from these finalizers to those, for the object of this uid alone.
fn finalizer_patch(uid: Option<&str>, have: &[String], wanted: &[&str]) -> Value {
    let is_it = uid.map(|uid| json!({"op": "test", "path": "/metadata/uid", "value": uid}));
    // An object without finalizers has no such field, which a test sees as null.
    let now = if have.is_empty() {
        Value::Null
    } else {
        json!(have)
    };
    let is_now = json!({"op": "test", "path": "/metadata/finalizers", "value": now});
    let set = json!({"op": "add", "path": "/metadata/finalizers", "value": wanted});
    is_it.into_iter().chain([is_now, set]).collect()
}
