//! What the host calls unchanged, held against a server that does what structured-merge-diff does:
//! atomic values, maps, structs, sets and lists with keys, owned by manager, with conflicts, fields
//! given up, defaults and normalised values.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Applied, AppliedState, ApplyTarget, hash};
use crate::model::detail::Detail;
use crate::model::key::{Kind, ObjectKey};
use crate::model::object::{Object, Schema};

/// How a value is merged.
#[derive(Clone, Copy)]
enum Type {
    /// Scalars, and atomic maps and lists.
    Leaf,
    /// Declared fields.
    Struct(fn(&str) -> Option<Type>),
    /// Fields of any name.
    Map(fn() -> Type),
    Set,
    /// Items known by `port` and `protocol`, of which the latter has a default.
    Ports,
}

fn object_type(name: &str) -> Option<Type> {
    match name {
        "metadata" => Some(Type::Struct(|name| {
            (name == "labels").then_some(Type::Map(|| Type::Leaf))
        })),
        "spec" => Some(Type::Struct(spec_type)),
        "status" => Some(Type::Leaf),
        _ => None,
    }
}

fn spec_type(name: &str) -> Option<Type> {
    match name {
        "n" | "cpu" | "selector" | "rules" => Some(Type::Leaf),
        "options" => Some(Type::Map(|| Type::Leaf)),
        "tree" => Some(Type::Map(|| Type::Struct(|_| Some(Type::Leaf)))),
        "tags" => Some(Type::Set),
        "ports" => Some(Type::Ports),
        _ => None,
    }
}

fn port_type(_: &str) -> Option<Type> {
    Some(Type::Leaf)
}

/// A path of fieldsV1, as its elements are written there.
type Path = Vec<String>;

/// Every path of a value, and the values of the leaves.
type Fields = BTreeMap<Path, Option<Value>>;

fn element_of(of: Type, item: &Value) -> String {
    match of {
        Type::Set => format!("v:{item}"),
        _ => {
            let protocol = item.get("protocol").cloned().unwrap_or("TCP".into());
            format!("k:{}", json!({"port": item["port"], "protocol": protocol}))
        }
    }
}

fn collect(of: Type, value: &Value, path: &Path, fields: &mut Fields) {
    let below = |element: String| path.iter().cloned().chain([element]).collect::<Path>();
    match (of, value) {
        (Type::Struct(type_of), Value::Object(members)) => {
            for (name, value) in members {
                let Some(of) = type_of(name) else { continue };
                let path = below(format!("f:{name}"));
                if value.as_object().is_some_and(Map::is_empty) {
                    fields.insert(path.clone(), None);
                }
                collect(of, value, &path, fields);
            }
        }
        (Type::Map(type_of), Value::Object(members)) => {
            for (name, value) in members {
                let path = below(format!("f:{name}"));
                fields.insert(path.clone(), None);
                collect(type_of(), value, &path, fields);
            }
        }
        (Type::Set | Type::Ports, Value::Array(items)) => {
            for item in items {
                let path = below(element_of(of, item));
                fields.insert(path.clone(), None);
                if let Type::Ports = of {
                    collect(Type::Struct(port_type), item, &path, fields);
                }
            }
        }
        _ => {
            fields.insert(path.clone(), Some(value.clone()));
        }
    }
}

fn fields_of(object: &Value) -> Fields {
    let mut fields = Fields::new();
    collect(Type::Struct(object_type), object, &Path::new(), &mut fields);
    fields.remove(&vec!["f:status".to_owned()]);
    fields
}

fn merge(of: Type, live: &Value, config: &Value) -> Value {
    match (of, live, config) {
        (Type::Struct(_) | Type::Map(_), Value::Object(live), Value::Object(config)) => {
            let mut merged = live.clone();
            for (name, value) in config {
                let of = match of {
                    Type::Struct(type_of) => type_of(name).unwrap_or(Type::Leaf),
                    Type::Map(type_of) => type_of(),
                    _ => Type::Leaf,
                };
                let have = live.get(name).unwrap_or(&Value::Null);
                merged.insert(name.clone(), merge(of, have, value));
            }
            merged.into()
        }
        (Type::Set | Type::Ports, Value::Array(live), Value::Array(config)) => {
            merge_lists(of, live, config).into()
        }
        _ => config.clone(),
    }
}

/// The config's items in the config's order; what only the live list has stays between its
/// neighbours.
fn merge_lists(of: Type, live: &[Value], config: &[Value]) -> Vec<Value> {
    let name = |item: &Value| element_of(of, item);
    let wanted: BTreeSet<String> = config.iter().map(name).collect();
    let merged = |item: &Value| {
        let have = live.iter().find(|have| name(have) == name(item));
        let have = have.unwrap_or(&Value::Null);
        merge(Type::Struct(port_type), have, item)
    };
    let (mut out, mut left, mut right) =
        (Vec::new(), live.iter().peekable(), config.iter().peekable());
    loop {
        match (left.peek(), right.peek()) {
            (None, None) => return out,
            (Some(have), Some(item)) if name(have) == name(item) => {
                out.push(merged(item));
                left.next();
                right.next();
            }
            (Some(have), _) if !wanted.contains(&name(have)) => out.extend(left.next().cloned()),
            // Shared, but not the next one of the config.
            (Some(_), _) => drop(left.next()),
            (None, Some(item)) => {
                out.push(merged(item));
                right.next();
            }
        }
    }
}

/// Takes a path away.
fn remove(of: Type, value: &mut Value, path: &[String]) {
    let Some((element, rest)) = path.split_first() else {
        return;
    };
    match value {
        Value::Object(members) => {
            let name = element.trim_start_matches("f:");
            if rest.is_empty() {
                members.remove(name);
                return;
            }
            let of = match of {
                Type::Struct(type_of) => type_of(name).unwrap_or(Type::Leaf),
                Type::Map(type_of) => type_of(),
                _ => Type::Leaf,
            };
            members
                .get_mut(name)
                .into_iter()
                .for_each(|value| remove(of, value, rest));
        }
        Value::Array(items) if rest.is_empty() => {
            items.retain(|item| element_of(of, item) != *element);
        }
        Value::Array(items) => {
            let mut own = items
                .iter_mut()
                .filter(|item| element_of(of, item) == *element);
            own.by_ref()
                .for_each(|item| remove(Type::Struct(port_type), item, rest));
        }
        _ => {}
    }
}

/// As the server stores it: quantities in one form, defaults filled in, nothing empty.
fn store(value: &mut Value) {
    if value["spec"]["cpu"] == "1000m" {
        value["spec"]["cpu"] = "1".into();
    }
    if let Some(ports) = value
        .pointer_mut("/spec/ports")
        .and_then(Value::as_array_mut)
    {
        for port in ports {
            let port = port.as_object_mut().unwrap();
            port.entry("protocol").or_insert("TCP".into());
        }
    }
    drop_empty(value);
}

fn drop_empty(value: &mut Value) {
    if let Value::Object(members) = value {
        members.values_mut().for_each(drop_empty);
        members.retain(|_, value| {
            let is_empty = value.is_null()
                || value.as_object().is_some_and(Map::is_empty)
                || value.as_array().is_some_and(Vec::is_empty);
            !is_empty
        });
    }
}

fn fields_v1(paths: &BTreeSet<Path>) -> Value {
    let mut root = json!({});
    for path in paths {
        let mut node = &mut root;
        for element in path {
            node = node
                .as_object_mut()
                .unwrap()
                .entry(element.clone())
                .or_insert(json!({}));
        }
    }
    // A member that has parts is one itself.
    for path in paths {
        let mut node = &mut root;
        for element in path {
            node = &mut node[element.as_str()];
        }
        let node = node.as_object_mut().unwrap();
        if !node.is_empty() {
            node.insert(".".into(), json!({}));
        }
    }
    root
}

/// A manager, and whether it applies or updates.
type Manager = (&'static str, &'static str);

#[derive(Clone, Debug, PartialEq)]
struct Server {
    live: Value,
    owned: BTreeMap<Manager, BTreeSet<Path>>,
    version: u64,
}

impl Server {
    fn new() -> Self {
        Self {
            live: intent(json!({}), json!({})),
            owned: BTreeMap::new(),
            version: 1,
        }
    }

    /// The paths that a change alters, and what of them is gone.
    fn changed(&self, new: &Value) -> (BTreeSet<Path>, BTreeSet<Path>) {
        let (old, new) = (fields_of(&self.live), fields_of(new));
        let altered = new
            .iter()
            .filter(|(path, value)| old.get(*path) != Some(*value));
        let gone = old.keys().filter(|path| !new.contains_key(*path));
        (
            altered.map(|(path, _)| path.clone()).collect(),
            gone.cloned().collect(),
        )
    }

    fn apply(&mut self, manager: &'static str, config: &Value, force: bool) -> Result<(), String> {
        let own = (manager, "Apply");
        let set: BTreeSet<Path> = fields_of(config).into_keys().collect();
        let last = self.owned.get(&own).cloned().unwrap_or_default();
        let mut config = config.clone();
        config.as_object_mut().unwrap().remove("status");
        let mut new = merge(Type::Struct(object_type), &self.live, &config);
        let mut owned = self.owned.clone();
        owned.insert(own, set.clone());
        let kept: BTreeSet<&Path> = owned.values().flatten().collect();
        for path in last.difference(&set) {
            if !kept.iter().any(|kept| kept.starts_with(path)) {
                remove(Type::Struct(object_type), &mut new, path);
            }
        }
        let stored = {
            let mut stored = new.clone();
            store(&mut stored);
            stored
        };
        let (altered, gone) = self.changed(&new);
        for (other, paths) in &mut owned {
            if *other == own {
                continue;
            }
            let is_in_conflict =
                |path: &Path| set.contains(path) && (altered.contains(path) || gone.contains(path));
            if !force && paths.iter().any(is_in_conflict) {
                return Err(format!("conflict with {other:?}"));
            }
            paths.retain(|path| !altered.contains(path) && !gone.contains(path));
        }
        self.commit(stored, owned);
        Ok(())
    }

    /// Another client replaces the object.
    fn update(&mut self, mut new: Value) {
        store(&mut new);
        let (altered, gone) = self.changed(&new);
        let mut owned = self.owned.clone();
        for paths in owned.values_mut() {
            paths.retain(|path| !altered.contains(path) && !gone.contains(path));
        }
        owned
            .entry(("kubectl", "Update"))
            .or_default()
            .extend(altered);
        self.commit(new, owned);
    }

    fn commit(&mut self, live: Value, mut owned: BTreeMap<Manager, BTreeSet<Path>>) {
        owned.retain(|_, paths| !paths.is_empty());
        if (&live, &owned) != (&self.live, &self.owned) {
            self.version += 1;
        }
        (self.live, self.owned) = (live, owned);
    }

    /// The object as the server shows it.
    fn shown(&self) -> Value {
        let mut shown = self.live.clone();
        let entries = self.owned.iter().map(|((manager, operation), paths)| {
            json!({"manager": manager, "operation": operation, "apiVersion": "example.com/v1",
                "fieldsType": "FieldsV1", "fieldsV1": fields_v1(paths)})
        });
        shown["metadata"]["managedFields"] = entries.collect();
        shown["metadata"]["resourceVersion"] = self.version.to_string().into();
        shown
    }
}

const MANAGERS: [&str; 2] = ["one", "two"];

/// Whether a manager owns the same before and after, but for parts of what it owns as a member: by
/// `fieldsV1` a member without parts is one piece.
fn is_owned_alike(owned: (Option<&BTreeSet<Path>>, Option<&BTreeSet<Path>>)) -> bool {
    let (Some(before), Some(after)) = owned else {
        return owned.0 == owned.1;
    };
    let is_part = |path: &Path| before.iter().any(|whole| path.starts_with(whole));
    before.is_subset(after) && after.difference(before).all(is_part)
}

/// The host, with a cache that shows the server's latest state.
struct Host {
    server: Server,
    memories: [Applied; 2],
    unchanged: usize,
}

impl Host {
    fn new() -> Self {
        Self {
            server: Server::new(),
            memories: Default::default(),
            unchanged: 0,
        }
    }

    fn is_unchanged(&self, number: usize, wanted: &Value) -> bool {
        let schema = Schema::new(1, Detail::Full, vec![], vec![]);
        let schema = schema.with_managers(MANAGERS.map(str::to_owned).to_vec());
        let target = target();
        let shown = self.server.shown().to_string();
        let current = Object::parse(&target.kind, &shown, &schema).unwrap();
        self.memories[number].is_unchanged(MANAGERS[number], &target, wanted, &current)
    }

    /// Applies as the planner does. Says what is wrong with it if it is not sent and would have
    /// changed something.
    fn apply(&mut self, number: usize, wanted: &Value, force: bool) -> Result<(), String> {
        let manager = MANAGERS[number];
        if self.is_unchanged(number, wanted) {
            self.unchanged += 1;
            let mut sent = self.server.clone();
            // A conflict changes nothing either: another writes the same quantity in another form.
            let _ = sent.apply(manager, wanted, force);
            let own = (manager, "Apply");
            let owned = (self.server.owned.get(&own), sent.owned.get(&own));
            if sent.live != self.server.live || !is_owned_alike(owned) {
                return Err(format!(
                    "{:#?}\nbecomes\n{:#?}",
                    self.server.shown(),
                    sent.shown()
                ));
            }
            return Ok(());
        }
        let memory = &self.memories[number];
        if self.server.apply(manager, wanted, force).is_ok() {
            let version = Some(self.server.version.to_string());
            let shown = self.server.shown().to_string();
            let left = AppliedState::new(manager, None, version, Some(&shown));
            memory.remember(target(), hash(wanted), left);
        } else {
            memory.forget(&target().kind, &target().key);
        }
        Ok(())
    }

    fn restart(&mut self) {
        self.memories = Default::default();
    }
}

fn target() -> ApplyTarget {
    ApplyTarget {
        kind: Kind::new("example.com", "v1", "Thing"),
        key: ObjectKey::new("default", "a"),
        subresource: None,
    }
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "the cases read better without references"
)]
fn intent(labels: Value, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": spec,
        "metadata": {"namespace": "default", "name": "a", "labels": labels}})
}

fn some_of(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let member = (prop::sample::select(names), 0..2_u8);
    prop::collection::vec(member, 0..3).prop_map(|members: Vec<(&str, u8)>| {
        let members = members.into_iter();
        members
            .map(|(name, value)| (name.to_owned(), value.to_string().into()))
            .collect::<Map<_, _>>()
            .into()
    })
}

fn rules() -> impl Strategy<Value = Value> {
    let rule = (0..2, prop::option::of(0..2));
    prop::collection::vec(rule, 0..3).prop_map(|rules| {
        let rule = |(x, y)| match y {
            Some(y) => json!({"x": x, "y": y}),
            None => json!({"x": x}),
        };
        rules.into_iter().map(rule).collect()
    })
}

fn tags() -> impl Strategy<Value = Value> {
    let all = prop::sample::subsequence(vec!["x", "y", "z"], 0..=3);
    all.prop_shuffle().prop_map(Value::from)
}

fn ports() -> impl Strategy<Value = Value> {
    let protocol = prop::sample::select(vec![None, Some("TCP"), Some("UDP")]);
    let port = (1..3, protocol, prop::option::of("[ab]"));
    prop::collection::vec(port, 0..3).prop_map(|ports| {
        let mut seen = BTreeSet::new();
        let item = |(port, protocol, name): (i32, Option<&str>, Option<String>)| {
            let mut item = json!({"port": port, "protocol": protocol, "name": name});
            drop_empty(&mut item);
            item
        };
        let items = ports.into_iter().map(item);
        items
            .filter(|item| seen.insert(element_of(Type::Ports, item)))
            .collect()
    })
}

fn tree() -> impl Strategy<Value = Value> {
    let branch = (prop::sample::select(&["t", "u"][..]), some_of(&["a", "b"]));
    prop::collection::vec(branch, 0..3).prop_map(|branches| {
        let branches = branches.into_iter();
        branches
            .map(|(name, branch)| (name.to_owned(), branch))
            .collect::<Map<_, _>>()
            .into()
    })
}

fn specs() -> impl Strategy<Value = Value> {
    let cpu = prop::sample::select(vec!["1", "1000m", "2"]);
    let fields = (
        prop::option::of((0..3).prop_map(Value::from)),
        prop::option::of(cpu.prop_map(Value::from)),
        prop::option::of(some_of(&["a", "b"])),
        prop::option::of(rules()),
        prop::option::of(some_of(&["a", "b", "c"])),
        prop::option::of(tree()),
        prop::option::of(tags()),
        prop::option::of(ports()),
    );
    fields.prop_map(|(n, cpu, selector, rules, options, tree, tags, ports)| {
        let names = [
            "n", "cpu", "selector", "rules", "options", "tree", "tags", "ports",
        ];
        let values = [n, cpu, selector, rules, options, tree, tags, ports];
        let given = names.into_iter().zip(values);
        given
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect::<Map<_, _>>()
            .into()
    })
}

fn intents() -> impl Strategy<Value = Value> {
    (some_of(&["a", "b"]), specs()).prop_map(|(labels, spec)| intent(labels, spec))
}

#[derive(Clone, Debug)]
enum Step {
    /// A manager wants one of a few objects, as controllers do: mostly what it wanted before.
    Apply(usize, usize, bool),
    /// Somebody replaces some fields.
    Foreign(Value),
    /// Somebody takes one field away.
    Prune(&'static str),
    Status(u8),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let field = prop::sample::select(&["n", "selector", "options", "tree", "tags", "ports"][..]);
    let step = prop_oneof![
        6 => (0..2_usize, 0..2_usize, any::<bool>()).prop_map(|(who, what, force)| Step::Apply(who, what, force)),
        2 => specs().prop_map(Step::Foreign),
        1 => field.prop_map(Step::Prune),
        1 => any::<u8>().prop_map(Step::Status),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..24)
}

fn play(wanted: &[[Value; 2]; 2], steps: &[Step]) -> Result<Host, String> {
    let mut host = Host::new();
    for step in steps {
        match step {
            Step::Apply(who, what, force) => host.apply(*who, &wanted[*who][*what], *force)?,
            Step::Foreign(spec) => {
                let mut live = host.server.live.clone();
                let spec = spec.as_object().unwrap().clone();
                let have = live
                    .as_object_mut()
                    .unwrap()
                    .entry("spec")
                    .or_insert(json!({}));
                have.as_object_mut().unwrap().extend(spec);
                host.server.update(live);
            }
            Step::Prune(field) => {
                let mut live = host.server.live.clone();
                if let Some(spec) = live.get_mut("spec").and_then(Value::as_object_mut) {
                    spec.remove(*field);
                }
                host.server.update(live);
            }
            Step::Status(status) => {
                host.server.live["status"] = json!({"seen": status});
                host.server.version += 1;
            }
            Step::Restart => host.restart(),
        }
    }
    Ok(host)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 20_000 }))]

    #[test]
    fn what_is_called_unchanged_would_have_changed_nothing(
        wanted in [[intents(), intents()], [intents(), intents()]],
        steps in steps(),
    ) {
        if let Err(wrong) = play(&wanted, &steps) {
            return Err(TestCaseError::fail(wrong));
        }
    }

    /// What is stored as it was applied is known again; empty and normalised values, and keys that
    /// are left out, may not be.
    #[test]
    fn after_a_restart_an_apply_of_the_same_text_is_unchanged(wanted in intents(), others in specs()) {
        let mut wanted = wanted;
        let clear = |object: &mut Value| {
            store(object);
            drop_empty(object);
        };
        clear(&mut wanted);
        let mut host = Host::new();
        let mut foreign = host.server.live.clone();
        foreign["spec"] = others;
        host.server.update(foreign);
        host.apply(0, &wanted, true).map_err(TestCaseError::fail)?;
        host.restart();
        // A manager that owns nothing has no entry.
        if !fields_of(&wanted).is_empty() {
            prop_assert!(host.is_unchanged(0, &wanted), "{:#?}", host.server.shown());
        }
    }
}

/// That the property is not empty: with a fixed course of events, applies are dropped both while
/// they are remembered and after a restart.
#[test]
fn applies_are_dropped_with_and_without_a_memory() {
    let first = intent(
        json!({"a": "1"}),
        json!({"n": 1, "ports": [{"port": 1}], "selector": {"a": "1"}}),
    );
    let second = intent(
        json!({"b": "1"}),
        json!({"options": {"b": "1"}, "cpu": "1000m"}),
    );
    let wanted = [[first.clone(), first], [second.clone(), second]];
    let both = [Step::Apply(0, 0, false), Step::Apply(1, 0, false)];
    let count = |steps: &[Step]| play(&wanted, steps).unwrap().unchanged;
    let again = |between: &[Step]| count(&[&both[..], between, &both].concat());
    assert_eq!(again(&[]), 2);
    assert_eq!(again(&[Step::Status(1)]), 2);
    assert_eq!(
        again(&[Step::Restart]),
        1,
        "a normalised value proves nothing"
    );
    assert_eq!(
        again(&[Step::Foreign(json!({"selector": {"a": "1", "b": "1"}}))]),
        0
    );
}

#[test]
fn parts_that_others_have_taken_and_put_back_may_stay_theirs() {
    let tree = |value: &str| json!({"tree": {"t": {"a": value}}});
    let wanted = intent(json!({"a": "1"}), tree("1"));
    let wanted = [wanted.clone(), wanted];
    let steps = [
        Step::Apply(0, 0, false),
        Step::Foreign(tree("0")),
        Step::Foreign(tree("1")),
        Step::Apply(0, 0, false),
    ];
    let host = play(&[wanted.clone(), wanted], &steps).unwrap();
    assert_eq!(host.unchanged, 1);
}
