//! What a controller has decided, as the `expect` of a case has it.

use pilothouse_sdk::testing::to_json;
use pilothouse_sdk::{Failure, Filter, Next, ObjectRef, Outcome, Question, Stage};
use serde_json::{Map, Value, json};

/// The members that an `expect` can have.
const MEMBERS: [&str; 7] = [
    "stages",
    "next",
    "memo",
    "confirm",
    "not_before",
    "settled",
    "failure",
];

/// What a reconcile has returned, in the form of a case's `expect`. What is as in an outcome that
/// does nothing is left out.
#[must_use]
pub fn decision(decided: &Result<Outcome, Failure>) -> Value {
    match decided {
        Ok(outcome) => of_outcome(outcome),
        Err(Failure::Retry(text)) => json!({"failure": {"retry": text}}),
        Err(Failure::Terminal(text)) => json!({"failure": {"terminal": text}}),
    }
}

fn of_outcome(outcome: &Outcome) -> Value {
    let stages = outcome
        .stages
        .iter()
        .filter(|stage| !stage.actions.is_empty());
    let stages: Vec<Value> = stages.map(of_stage).collect();
    let confirm: Vec<Value> = outcome.confirm.iter().map(of_question).collect();
    let next = match &outcome.next {
        Next::OnChange => Value::Null,
        Next::After(milliseconds) => json!({"after": milliseconds}),
        Next::Retry(text) => json!({"retry": text}),
    };
    let memo = outcome.memo.as_deref().map(|memo| {
        serde_json::from_str(memo).unwrap_or_else(|error| json!({"not JSON": error.to_string()}))
    });
    given(json!({
        "stages": stages, "confirm": confirm, "next": next, "memo": memo,
        "not_before": outcome.not_before, "settled": outcome.settled,
    }))
}

fn of_stage(stage: &Stage) -> Value {
    let actions = stage.actions.iter().map(to_json).collect();
    if stage.always {
        json!({"always": true, "actions": Value::Array(actions)})
    } else {
        Value::Array(actions)
    }
}

fn of_question(question: &Question) -> Value {
    match question {
        Question::Object(object) => json!({"object": named(object)}),
        Question::Unchanged(object) => json!({"unchanged": named(object)}),
        Question::Objects(query) => {
            let filter = match &query.filter {
                Filter::Everything => json!("everything"),
                Filter::Labels(selector) => json!({"labels": selector}),
                Filter::Index(index) => {
                    json!({"index": {"name": index.name, "value": index.value}})
                }
            };
            let (kind, namespace) = (&query.kind, &query.namespace);
            json!({"objects": {"kind": kind, "namespace": namespace, "filter": filter}})
        }
    }
}

fn named(object: &ObjectRef) -> Value {
    json!({"kind": object.kind, "namespace": object.namespace, "name": object.name})
}

/// Brings the `expect` of a file, in which `like` is expanded already, into the form of
/// [`decision`].
pub(crate) fn normalised(expect: Value) -> Result<Value, String> {
    let Value::Object(members) = expect else {
        return Err(format!("`expect` is an object with {}", MEMBERS.join(", ")));
    };
    if let Some(name) = members
        .keys()
        .find(|name| !MEMBERS.contains(&name.as_str()))
    {
        let known = MEMBERS.join(", ");
        return Err(format!(
            "`expect` has no member `{name}`; it can have {known}"
        ));
    }
    let mut members = members;
    if let Some(Value::Array(stages)) = members.remove("stages") {
        let stages: Vec<Value> = stages.into_iter().map(stage).collect::<Result<_, _>>()?;
        let stages = stages.into_iter().filter(|stage| !is_empty(stage));
        members.insert("stages".to_owned(), stages.collect());
    }
    Ok(given(Value::Object(members)))
}

fn stage(stage: Value) -> Result<Value, String> {
    match stage {
        Value::Array(actions) => Ok(repeated(actions)?.into()),
        Value::Object(mut members) => {
            let (always, actions) = (members.remove("always"), members.remove("actions"));
            match (always, actions, members.is_empty()) {
                (Some(Value::Bool(true)), Some(Value::Array(actions)), true) => {
                    Ok(json!({"always": true, "actions": repeated(actions)?}))
                }
                _ => Err(WRONG_STAGE.to_owned()),
            }
        }
        _ => Err(WRONG_STAGE.to_owned()),
    }
}

const WRONG_STAGE: &str = "a stage is a list of actions, or {\"always\": true, \"actions\": […]}";

/// Actions, each as often as its `times` says.
fn repeated(actions: Vec<Value>) -> Result<Vec<Value>, String> {
    let mut all = Vec::new();
    for action in actions {
        match (action["times"].as_u64(), action.get("of")) {
            (None, None) => all.push(action),
            (Some(times), Some(of)) => all.extend((0..times).map(|_| of.clone())),
            _ => return Err("`times`, a number, and `of`, an action, go together".to_owned()),
        }
    }
    Ok(all)
}

fn is_empty(stage: &Value) -> bool {
    let actions = stage.get("actions").unwrap_or(stage);
    actions.as_array().is_some_and(Vec::is_empty)
}

/// Leaves out what is as in an outcome that does nothing.
fn given(decision: Value) -> Value {
    let Value::Object(members) = decision else {
        return decision;
    };
    let defaults = [Value::Null, json!([]), json!(0), json!(false)];
    let is_default = |value: &Value| defaults.contains(value);
    let members = members.into_iter().filter(|(_, value)| !is_default(value));
    Value::Object(members.collect::<Map<_, _>>())
}
