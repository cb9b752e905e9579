//! Objects that are like others.

use pilothouse_sdk::Time;
use serde_json::{Map, Value, json};

/// Most steps from an object to the one that it is like in the end.
const MAX_DEPTH: u32 = 20;

/// The named objects of a file.
pub struct Named(Map<String, Value>);

impl Named {
    pub fn new(objects: Map<String, Value>) -> Self {
        Self(objects)
    }

    /// The objects of a case that is about this time.
    pub fn objects(&self, entries: &[Value], now: Time) -> Result<Vec<Value>, String> {
        let objects = entries.iter().map(|entry| self.entry(entry));
        let objects: Vec<Vec<Value>> = objects.collect::<Result<_, _>>()?;
        let objects = objects.into_iter().flatten();
        objects.map(|object| completed(object, now)).collect()
    }

    fn entry(&self, entry: &Value) -> Result<Vec<Value>, String> {
        if let Some(name) = entry.as_str() {
            return Ok(vec![self.named(name, 0)?]);
        }
        let Some(names) = entry.get("names").filter(|_| entry.get("like").is_some()) else {
            return Ok(vec![self.expanded(entry, 0)?]);
        };
        let names = names.as_array().ok_or("`names` is a list of names")?;
        let mut like = entry.clone();
        like.as_object_mut().map(|members| members.remove("names"));
        let object = self.expanded(&like, 0)?;
        let named = names
            .iter()
            .map(|name| merged(object.clone(), &json!({"metadata": {"name": name}})));
        Ok(named.collect())
    }

    /// A document in which each `{"like": NAME, "with": PATCH}` is replaced by what it means.
    pub fn expanded(&self, value: &Value, depth: u32) -> Result<Value, String> {
        let all = |members: &Map<String, Value>| {
            let members = members
                .iter()
                .map(|(name, member)| Ok((name.clone(), self.expanded(member, depth)?)));
            members.collect::<Result<Map<_, _>, String>>()
        };
        match value {
            Value::Array(items) => items
                .iter()
                .map(|item| self.expanded(item, depth))
                .collect(),
            Value::Object(members) => match members.get("like").and_then(Value::as_str) {
                Some(name) => self.like(name, members, depth),
                None => Ok(Value::Object(all(members)?)),
            },
            other => Ok(other.clone()),
        }
    }

    fn like(&self, name: &str, members: &Map<String, Value>, depth: u32) -> Result<Value, String> {
        let is_known = |member: &&String| matches!(member.as_str(), "like" | "with");
        if let Some(unknown) = members.keys().find(|member| !is_known(member)) {
            return Err(format!(
                "`{unknown}` stands beside `like`; put it into `with`"
            ));
        }
        let object = self.named(name, depth + 1)?;
        match members.get("with") {
            Some(with) => Ok(merged(object, &self.expanded(with, depth)?)),
            None => Ok(object),
        }
    }

    fn named(&self, name: &str, depth: u32) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(format!("`{name}` is like itself"));
        }
        let found = self.0.get(name);
        let found = found.ok_or_else(|| format!("the file's `objects` have no `{name}`"))?;
        self.expanded(found, depth)
    }
}

/// An object with what a server would have set, so that it is the same for all who run the case.
fn completed(mut object: Value, now: Time) -> Result<Value, String> {
    let kind = object["kind"].as_str().map(str::to_lowercase);
    let kind = kind.ok_or_else(|| format!("an object has no `kind`: {object}"))?;
    let name = object["metadata"]["name"].as_str().map(ToOwned::to_owned);
    let name = name.ok_or_else(|| format!("an object has no `metadata.name`: {object}"))?;
    let metadata = &mut object["metadata"];
    for (member, value) in [
        ("uid", json!(format!("{kind}-{name}"))),
        ("resourceVersion", json!("1")),
        ("generation", json!(0)),
        ("creationTimestamp", json!(now)),
    ] {
        if metadata[member].is_null() {
            metadata[member] = value;
        }
    }
    Ok(object)
}

/// A document after a merge patch (RFC 7386).
fn merged(document: Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else {
        return patch.clone();
    };
    let Value::Object(mut members) = document else {
        return merged(json!({}), patch);
    };
    for (name, change) in changes {
        let before = members.remove(name).unwrap_or_default();
        if !change.is_null() {
            members.insert(name.clone(), merged(before, change));
        }
    }
    Value::Object(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named() -> Named {
        let objects = json!({
            "pod": {"kind": "Pod", "metadata": {"namespace": "n"}, "spec": {"a": 1, "b": [1, 2]}},
            "ready": {"like": "pod", "with": {"status": "ready", "spec": {"a": null}}},
            "circle": {"like": "circle"},
        });
        Named::new(objects.as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn an_object_is_like_another_with_changes_once_for_each_name() {
        let entry = json!({"like": "ready", "names": ["x", "y"], "with": {"spec": {"b": [3]}}});
        let object = |name: &str| {
            json!({
                "kind": "Pod", "status": "ready", "spec": {"b": [3]},
                "metadata": {"namespace": "n", "name": name, "uid": format!("pod-{name}"),
                    "resourceVersion": "1", "generation": 0,
                    "creationTimestamp": "1970-01-01T00:00:00Z"},
            })
        };
        assert_eq!(
            named().objects(&[entry], Time::default()),
            Ok(vec![object("x"), object("y")])
        );
    }

    #[test]
    fn an_object_is_expanded_wherever_it_stands() {
        let value = json!({"stages": [[{"create": {"object": {"like": "ready"}}}]]});
        let expanded = named().expanded(&value, 0).unwrap_or_default();
        let created = expanded.pointer("/stages/0/0/create/object/status");
        assert_eq!(created, Some(&json!("ready")));
    }

    #[test]
    fn a_mistake_is_told_and_not_repaired() {
        let fault = |entry: Value| {
            named()
                .objects(&[entry], Time::default())
                .expect_err("there is a mistake")
        };
        assert_eq!(fault(json!("node")), "the file's `objects` have no `node`");
        assert_eq!(fault(json!("circle")), "`circle` is like itself");
        assert!(fault(json!("pod")).starts_with("an object has no `metadata.name`"));
        let beside = fault(json!({"like": "pod", "metadata": {"name": "x"}}));
        assert_eq!(
            beside,
            "`metadata` stands beside `like`; put it into `with`"
        );
    }
}
