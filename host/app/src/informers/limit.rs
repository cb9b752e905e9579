//! The limit on the number of list-watches. Each one takes a connection of the host and a watcher
//! in the API server for as long as it lives, and a manifest that names namespaces can ask for
//! hundreds.

use pilothouse_core::{Hub, Manifest};

/// The default. This many do not strain an API server or the host's memory, and few hosts have more
/// than a hundred.
const USUAL: usize = 1_000;

/// By default list-watches may use a quarter of the descriptors. The rest is for their successors,
/// other requests, files and child processes.
const SHARE: u64 = 4;

/// This part of the list-watches is kept for kinds that manifests name: whoever lists `*` may find
/// any number of kinds, and must not keep the next plugin from being installed.
const KEPT: usize = 4;

/// The most list-watches that the host may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLimit(usize);

impl WatchLimit {
    /// The operator's limit if one was given (`said`), else a default that fits the number of
    /// descriptors that the process may open (`None`: unlimited).
    pub fn new(said: Option<usize>, descriptors: Option<u64>) -> Self {
        let usual = || {
            let share = descriptors.map_or(u64::MAX, |descriptors| descriptors / SHARE);
            usize::try_from(share).unwrap_or(USUAL).min(USUAL)
        };
        Self(said.unwrap_or_else(usual))
    }

    /// How many more list-watches there may be for kinds of patterns.
    pub fn room_for_patterns(self, hub: &Hub) -> usize {
        let Self(limit) = self;
        let for_patterns = limit - limit.div_ceil(KEPT);
        let left = for_patterns.saturating_sub(hub.watched_for_patterns());
        left.min(limit.saturating_sub(hub.watched()))
    }

    /// Why a plugin with these grants must wait until there are fewer list-watches, if it must.
    pub fn refusal(self, hub: &Hub, granted: &Manifest) -> Option<String> {
        let Self(limit) = self;
        let have = hub.watched();
        let missing = hub.unwatched(granted);
        let wants: usize = missing.iter().map(|(_, count)| count).sum();
        let (kind, most) = missing.iter().max_by_key(|(_, count)| *count)?;
        (have + wants > limit).then(|| {
            format!(
                "it takes {wants} more list-watches, {most} of them of {kind}; the host has {have}, and --watch-limit allows {limit}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pilothouse_core::{
        ControllerSettings, Kind, Limits, Outcome, Plugin, ReadDeclaration, Reader, Request,
        RunError, Time,
    };

    use super::*;

    /// Reads ConfigMaps in a number of namespaces, and all Pods.
    struct Reads(Manifest);

    impl Plugin for Reads {
        fn manifest(&self) -> &Manifest {
            &self.0
        }

        fn reconcile(&self, _: &Request, _: &mut Reader) -> Result<Outcome, RunError> {
            Ok(Outcome::default())
        }
    }

    fn reads(name: &str, namespaces: usize) -> Manifest {
        let mut configs = ReadDeclaration::new(Kind::new("", "v1", "ConfigMap"), vec![]);
        configs.namespaces = (0..namespaces).map(|at| format!("n{at}")).collect();
        let pods = ReadDeclaration::new(Kind::new("", "v1", "Pod"), vec![]);
        Manifest {
            name: name.into(),
            version: "1.0.0".into(),
            reconciles: vec![],
            reads: vec![configs, pods],
            indexes: vec![],
            writes: vec![],
            limits: Limits::default(),
            config_schema: None,
            optional: [].into(),
        }
    }

    #[test]
    fn who_would_take_more_list_watches_than_there_may_be_is_told_how_many() {
        let (mut hub, limit) = (Hub::default(), WatchLimit::new(Some(10), None));
        let (first, second) = (reads("first", 7), reads("second", 9));
        assert_eq!(limit.refusal(&hub, &first), None);
        let joins = |hub: &mut Hub, manifest: &Manifest| {
            let plugin = Arc::new(Reads(manifest.clone()));
            hub.join(plugin, &ControllerSettings::default(), Time::ZERO)
                .unwrap()
        };
        let id = joins(&mut hub, &first);
        // Seven of its namespaces and all pods are already watched.
        assert_eq!(limit.refusal(&hub, &second), None);
        let third = reads("third", 10);
        assert_eq!(
            limit.refusal(&hub, &third).as_deref(),
            Some(
                "it takes 3 more list-watches, 3 of them of v1/ConfigMap; the host has 8, and --watch-limit allows 10"
            )
        );
        joins(&mut hub, &second);
        assert_eq!(limit.refusal(&hub, &second), None, "it takes no more");
        drop(hub.leave(id));
        assert!(limit.refusal(&hub, &third).is_some(), "the second has them");
    }

    #[test]
    fn a_quarter_is_kept_for_kinds_that_are_named() {
        let (mut hub, limit) = (Hub::default(), WatchLimit::new(Some(10), None));
        assert_eq!(limit.room_for_patterns(&hub), 7);
        let plugin = Arc::new(Reads(reads("first", 6)));
        let settings = ControllerSettings::default();
        hub.join(plugin, &settings, Time::ZERO).unwrap();
        assert_eq!(limit.room_for_patterns(&hub), 3, "seven are in use");
        assert_eq!(WatchLimit::new(Some(1), None).room_for_patterns(&hub), 0);
    }

    #[test]
    fn without_a_word_of_the_operators_they_take_a_quarter_of_the_descriptors_at_most() {
        assert_eq!(WatchLimit::new(None, Some(1_024)), WatchLimit(256));
        assert_eq!(WatchLimit::new(None, Some(1 << 20)), WatchLimit(USUAL));
        assert_eq!(WatchLimit::new(None, None), WatchLimit(USUAL));
        assert_eq!(WatchLimit::new(Some(5_000), Some(1_024)), WatchLimit(5_000));
    }
}
