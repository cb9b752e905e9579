//! What the host is told of the kinds that come and go: they do so with their
//! CustomResourceDefinitions and APIServices, which it may watch for its plugins.

use pilothouse_cluster::discovery::{Discovery, Told};
use pilothouse_core::{Cache, Hub, InformerKey, Kind, Object};

use crate::informers::WatchErrors;

/// kube-aggregator labels the APIServices that it makes itself: they are for kinds that the API
/// server serves itself, those of definitions included. Somebody may give the label to another one;
/// then the kinds of that server are found when the next answer is asked for, within an hour.
const MADE_BY_AGGREGATOR: &str = "kube-aggregator.kubernetes.io/automanaged";

/// True if objects of this kind say which kinds there are.
pub fn defines_kinds(kind: &Kind) -> bool {
    definitions().is_version_of(kind) || api_services().is_version_of(kind)
}

/// What the host is told of. It is told of what it watches all objects of, and of what the server
/// does not serve there is nothing to tell: without APIServices there is no server behind this one.
pub fn told(hub: &Hub, errors: &WatchErrors, discovery: &Discovery) -> Told {
    told_by(
        hub,
        |key| errors.is_behind(key),
        |kind| discovery.lacks(kind),
    )
}

fn told_by(
    hub: &Hub,
    is_behind: impl Fn(&InformerKey) -> bool,
    is_absent: impl Fn(&Kind) -> bool,
) -> Told {
    let followed = |kind: Kind| match is_absent(&kind) {
        true => Followed::Absent,
        false => followed(hub, kind, &is_behind),
    };
    match (followed(definitions()), followed(api_services())) {
        (Followed::No, _) | (_, Followed::No) => Told::Nothing,
        (_, Followed::Yes(cache)) if !cache.list(None).all(|object| is_own(object)) => Told::Own,
        _ => Told::All,
    }
}

/// Whether the host follows all objects of a kind.
enum Followed<'a> {
    /// There is no such kind.
    Absent,
    No,
    Yes(&'a Cache),
}

fn followed(hub: &Hub, kind: Kind, is_behind: impl Fn(&InformerKey) -> bool) -> Followed<'_> {
    let of_all = InformerKey::all(kind);
    let wanted = hub.wanted().into_iter();
    let mut ids = wanted.filter(|(_, (have, _))| *have == of_all);
    let cache = ids.next().map(|(id, _)| &hub.snapshot().informers[id]);
    match cache {
        Some(cache) if !cache.is_initial() && !is_behind(&of_all) => Followed::Yes(cache),
        _ => Followed::No,
    }
}

/// Whether an APIService is for kinds that the API server serves itself.
fn is_own(api_service: &Object) -> bool {
    api_service
        .labels()
        .any(|(key, _)| key == MADE_BY_AGGREGATOR)
}

fn definitions() -> Kind {
    Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
}

fn api_services() -> Kind {
    Kind::new("apiregistration.k8s.io", "v1", "APIService")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pilothouse_core::{
        ControllerSettings, Delta, Extent, Limits, Listing, Manifest, Outcome, Plugin,
        ReadDeclaration, Reader, Request, ResourceVersion, RunError, Schema,
    };

    use super::*;
    use crate::shared::{Cause, Shared};

    /// Reads some kinds.
    struct Reads(Manifest);

    impl Plugin for Reads {
        fn manifest(&self) -> &Manifest {
            &self.0
        }

        fn reconcile(&self, _: &Request, _: &mut Reader) -> Result<Outcome, RunError> {
            Ok(Outcome::default())
        }
    }

    /// A hub with a plugin that reads the names of all objects of these kinds.
    fn reading(kinds: &[Kind]) -> Shared {
        let name = || vec!["metadata.name".to_owned()];
        let reads = kinds.iter().cloned();
        let plugin = Arc::new(Reads(Manifest {
            name: "p".into(),
            version: "1.0.0".into(),
            reconciles: vec![],
            reads: reads
                .map(|kind| ReadDeclaration::new(kind, name()))
                .collect(),
            indexes: vec![],
            writes: vec![],
            limits: Limits::default(),
            config_schema: None,
            optional: [].into(),
        }));
        let shared = Shared::new(1);
        shared.join(plugin, &ControllerSettings::default()).unwrap();
        shared
    }

    /// A list of a kind has come, with an object that has these labels.
    fn list(shared: &Shared, kind: &Kind, labels: &str) {
        let json =
            format!(r#"{{"metadata":{{"name":"a","resourceVersion":"1","labels":{labels}}}}}"#);
        shared.change(Cause::Change, |hub, now| {
            let wanted = hub.wanted();
            let informer = wanted.iter().find(|(_, (key, _))| key.kind == *kind);
            let (id, (_, extent)) = informer.unwrap();
            let object = Object::parse(kind, &json, &Schema::default()).unwrap();
            let listing = Listing {
                objects: vec![object],
                resource_version: ResourceVersion::new("1"),
                extent: Extent::from(extent.detail),
                ..Listing::default()
            };
            hub.apply(*id, Delta::Replace(listing), now);
        });
    }

    const OWN: &str = r#"{"kube-aggregator.kubernetes.io/automanaged":"onstart"}"#;

    fn told_of(shared: &Shared) -> Told {
        shared.read(Cause::Plugins, |hub| told_by(hub, |_| false, |_| false))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_has_listed_definitions_and_api_services_is_told_of_all() {
        let shared = reading(&[definitions(), api_services()]);
        assert_eq!(told_of(&shared), Told::Nothing, "nothing has come yet");
        list(&shared, &api_services(), OWN);
        assert_eq!(told_of(&shared), Told::Nothing);
        list(&shared, &definitions(), "{}");
        assert_eq!(told_of(&shared), Told::All);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_api_service_that_somebody_else_has_made_may_name_a_server() {
        let shared = reading(&[definitions(), api_services()]);
        list(&shared, &definitions(), "{}");
        list(&shared, &api_services(), r#"{"k8s-app":"metrics-server"}"#);
        assert_eq!(told_of(&shared), Told::Own);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_a_kind_that_the_server_does_not_serve_there_is_nothing_to_tell() {
        let shared = reading(&[definitions()]);
        list(&shared, &definitions(), "{}");
        assert_eq!(told_of(&shared), Told::Nothing);
        let told = |hub: &Hub| told_by(hub, |_| false, |kind| *kind == api_services());
        assert_eq!(shared.read(Cause::Plugins, told), Told::All);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_list_watch_that_fails_tells_nothing() {
        let shared = reading(&[definitions(), api_services()]);
        list(&shared, &definitions(), "{}");
        list(&shared, &api_services(), OWN);
        let told = |hub: &Hub| told_by(hub, |key| key.kind == definitions(), |_| false);
        assert_eq!(shared.read(Cause::Plugins, told), Told::Nothing);
    }

    #[test]
    fn kinds_are_defined_by_definitions_and_by_aggregated_servers() {
        for (kind, defines) in [
            ("apiextensions.k8s.io/v1/CustomResourceDefinition", true),
            ("apiregistration.k8s.io/v1/APIService", true),
            ("v1/Pod", false),
        ] {
            assert_eq!(defines_kinds(&kind.parse().unwrap()), defines, "{kind}");
        }
    }
}
