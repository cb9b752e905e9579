use futures::FutureExt;
use pilothouse_core::{
    ControllerSettings, Detail, Hub, Kind, Limits, Listing, Manifest, Object, Outcome, Plugin,
    PluginId, ReadDeclaration, Reader, Request, RunError,
};

use super::super::{Begin, Running};
use super::*;

/// Reads pods.
struct Reads(Manifest);

impl Plugin for Reads {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn reconcile(&self, _: &Request, _: &mut Reader) -> Result<Outcome, RunError> {
        Ok(Outcome::default())
    }
}

fn pods() -> Kind {
    Kind::new("", "v1", "Pod")
}

fn pod(name: &str, version: u64) -> Object {
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"n","resourceVersion":"{version}"}}}}"#
    );
    Object::parse(&pods(), &json, &Schema::default()).unwrap()
}

fn listed(names: &[&str], at: u64, detail: Detail) -> Delta {
    Delta::Replace(Listing {
        objects: names.iter().map(|name| pod(name, at)).collect(),
        resource_version: ResourceVersion::new(&at.to_string()),
        extent: detail.into(),
        ..Listing::default()
    })
}

/// Adds a plugin that reads these fields of pods.
fn join(shared: &Shared, name: &str, fields: &[&str]) -> PluginId {
    join_for(shared, pods(), name, fields)
}

/// Adds a plugin that reads these fields of a kind.
fn join_for(shared: &Shared, kind: Kind, name: &str, fields: &[&str]) -> PluginId {
    let fields = fields.iter().copied().map(str::to_owned);
    let manifest = Manifest {
        name: name.into(),
        version: "1.0.0".into(),
        reconciles: vec![],
        reads: vec![ReadDeclaration::new(kind, fields.collect())],
        indexes: vec![],
        writes: vec![],
        limits: Limits::default(),
        config_schema: None,
        optional: [].into(),
    };
    let plugin = Arc::new(Reads(manifest));
    shared.join(plugin, &ControllerSettings::default()).unwrap()
}

/// A hub with a plugin that reads whole pods, and the errors recorded for them.
struct Rig {
    shared: Arc<Shared>,
    id: InformerId,
    plugin: PluginId,
    kind: Kind,
    watch_errors: WatchErrors,
}

impl Rig {
    fn new() -> Self {
        Self::of(pods())
    }

    /// The same with another kind.
    fn of(kind: Kind) -> Self {
        let shared = Arc::new(Shared::new(1));
        let plugin = join_for(&shared, kind.clone(), "whole", &[]);
        let wanted = shared.read(Cause::Change, Hub::wanted);
        Self {
            id: *wanted.keys().next().unwrap(),
            plugin,
            kind,
            shared,
            watch_errors: WatchErrors::default(),
        }
    }

    /// Which list-watch has to start for what the plugins want now.
    fn begin(&self, running: &mut Running) -> Begin {
        self.shared.read(Cause::Change, |hub| {
            let (_, detail) = hub.wanted()[&self.id].clone();
            running.begin(detail, &hub.snapshot().informers[self.id])
        })
    }

    /// A list-watch's sink, and the list-watch as its successor knows it.
    fn sink(&self, detail: Detail, predecessor: Option<Follower>) -> (HubSink, Follower) {
        let follower = Follower {
            extent: detail.into(),
            task: tokio::spawn(std::future::pending::<()>()).abort_handle(),
            is_retired: Arc::default(),
        };
        let informer_key = InformerKey::all(self.kind.clone());
        let is_retired = follower.is_retired.clone();
        let feed = Feed::new(
            self.id,
            informer_key,
            detail.into(),
            is_retired,
            predecessor,
        );
        let incidents = Arc::new(Incidents::new("server"));
        let (shared, watch_errors) = (self.shared.clone(), self.watch_errors.clone());
        let sink = HubSink::new(feed, shared, watch_errors, incidents, Budget::default());
        (sink, follower)
    }

    fn names(&self) -> Vec<String> {
        self.shared.read(Cause::Change, |hub| {
            let objects = hub.snapshot().informers[self.id].list(None);
            objects.map(|object| object.key().name.to_owned()).collect()
        })
    }

    fn is_whole(&self) -> bool {
        let is_whole = |hub: &Hub| hub.snapshot().informers[self.id].is_synced(Detail::Full);
        self.shared.read(Cause::Change, is_whole)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_watch_feeds_the_cache_until_the_one_that_brings_more_has_come_as_far() {
    let rig = Rig::new();
    let (mut old, follower) = rig.sink(Detail::Metadata, None);
    old.apply(listed(&["a"], 10, Detail::Metadata));
    let (mut new, _) = rig.sink(Detail::Full, Some(follower));
    // The new one listed before the old one brought the next two changes, and gets them later.
    old.apply(Delta::Upsert(pod("b", 11)));
    new.apply(listed(&["a"], 10, Detail::Full));
    old.apply(Delta::Upsert(pod("c", 12)));
    new.apply(Delta::Upsert(pod("b", 11)));
    assert_eq!(rig.names(), ["a", "b", "c"]);
    assert!(
        !rig.is_whole(),
        "the new one's list is older than the cache"
    );
    new.apply(Delta::Upsert(pod("c", 12)));
    assert_eq!(rig.names(), ["a", "b", "c"]);
    assert!(rig.is_whole());
    // A change from the old one now would hide the same change with more of the object in it.
    old.apply(Delta::Upsert(pod("d", 13)));
    assert_eq!(rig.names(), ["a", "b", "c"]);
    new.apply(Delta::Upsert(pod("d", 13)));
    assert_eq!(rig.names(), ["a", "b", "c", "d"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_the_successor_from_its_list_is_no_error_of_the_cache() {
    let rig = Rig::new();
    let (mut old, follower) = rig.sink(Detail::Metadata, None);
    old.apply(listed(&["a"], 10, Detail::Metadata));
    old.state(WatchState::Watching);
    let (mut new, _) = rig.sink(Detail::Full, Some(follower.clone()));
    new.state(WatchState::Error("there is no room".into()));
    let error = |rig: &Rig| rig.watch_errors.all().remove(&InformerKey::all(pods()));
    let told = error(&rig).unwrap();
    assert_eq!(told.reason, "there is no room");
    assert!(!told.is_behind);
    old.state(WatchState::Error("it is forbidden".into()));
    assert!(error(&rig).unwrap().is_behind);
    // The list has arrived. What is left of the old one is ignored.
    new.apply(listed(&["a"], 11, Detail::Full));
    assert_eq!(error(&rig), None);
    old.state(WatchState::Error("it is forbidden still".into()));
    assert_eq!(error(&rig), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_that_is_not_wanted_any_more_takes_over_nothing() {
    let rig = Rig::new();
    let (mut old, follower) = rig.sink(Detail::Metadata, None);
    old.apply(listed(&["a"], 10, Detail::Metadata));
    let (mut new, successor) = rig.sink(Detail::Full, Some(follower));
    rig.shared.read(Cause::Change, |_| successor.retire());
    new.apply(listed(&[], 11, Detail::Full));
    old.apply(Delta::Upsert(pod("b", 12)));
    assert_eq!(rig.names(), ["a", "b"]);
    assert!(!rig.is_whole());
}

/// Its file went and came back while the server was slow.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_comes_back_before_less_was_listed_is_synced_again() {
    let rig = Rig::new();
    join(&rig.shared, "less", &[".metadata.labels"]);
    let (mut old, follower) = rig.sink(Detail::Full, None);
    old.apply(listed(&["a"], 10, Detail::Full));
    let mut running = Running {
        informer_key: InformerKey::all(pods()),
        follower: follower.clone(),
        successor: None,
    };
    assert!(matches!(rig.begin(&mut running), Begin::Nothing));
    rig.shared.leave(rig.plugin);
    assert!(matches!(rig.begin(&mut running), Begin::Successor));
    running.successor = Some(rig.sink(Detail::Metadata, Some(follower.clone())).1);
    join(&rig.shared, "whole", &[]);
    assert!(!rig.is_whole());
    assert!(matches!(rig.begin(&mut running), Begin::Successor));
    let (mut new, successor) = rig.sink(Detail::Full, Some(follower));
    running.successor = Some(successor);
    assert!(matches!(rig.begin(&mut running), Begin::Nothing));
    new.apply(listed(&["a"], 11, Detail::Full));
    assert!(rig.is_whole());
    assert!(matches!(rig.begin(&mut running), Begin::Nothing));
}

/// Whether a definition's deletion, or its coming, makes the host look for kinds.
#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_comes_or_goes_is_news_and_its_deletion_once_more_is_none() {
    let kind = Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let rig = Rig::of(kind.clone());
    let (mut sink, _) = rig.sink(Detail::Full, None);
    let is_news = |sink: &mut HubSink, delta| {
        sink.apply(delta);
        rig.shared.kinds_redefined().now_or_never().is_some()
    };
    let json = r#"{"metadata":{"name":"a","resourceVersion":"11"}}"#;
    let comes = Object::parse(&kind, json, &Schema::default()).unwrap();
    let goes = |version: &str| Delta::Delete {
        key: ObjectKey::new("", "a"),
        resource_version: ResourceVersion::new(version),
    };
    assert!(is_news(&mut sink, listed(&[], 10, Detail::Full)));
    assert!(is_news(&mut sink, Delta::Upsert(comes)));
    assert!(is_news(&mut sink, goes("12")));
    assert!(!is_news(&mut sink, goes("12")));
    assert!(!is_news(
        &mut sink,
        Delta::Bookmark(ResourceVersion::new("13"))
    ));
}
