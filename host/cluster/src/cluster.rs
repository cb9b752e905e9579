//! The API server as the rest of the host sees it. Joins the parts of this crate, and does nothing
//! by itself.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use jiff::Timestamp;
use pilothouse_core::{
    Author, Extent, InformerKey, Kind, ObjectKey, ReadFailure, ResourceVersion, Write, WriteAnswer,
};

use crate::client::Client;
use crate::discovery::{Discovery, DiscoveryError};
use crate::watch::{Alarm, ListWatch, ProbeAnswers, WatchSettings};
use crate::write::{
    AccessReviewer, EventBody, EventWriter, Identity, ObjectFetcher, ObjectWriter, ReviewError,
};

/// An API server, as the host uses it.
pub struct ApiCluster {
    client: Client,
    discovery: Arc<Discovery>,
    alarm: Alarm,
    answers: ProbeAnswers,
    writer: ObjectWriter,
    events: EventWriter,
    fetcher: ObjectFetcher,
    reviewer: AccessReviewer,
}

impl ApiCluster {
    /// `instance` is the name of the pod or the machine. It tells this process from others that
    /// report Events under the same controller names.
    pub fn new(client: impl Into<Client>, instance: &str) -> Self {
        Self::at(client.into(), instance, Timestamp::now)
    }

    /// With a clock that dates Events.
    pub(crate) fn at(client: Client, instance: &str, now: fn() -> Timestamp) -> Self {
        let discovery = Arc::new(Discovery::new(client.clone()));
        Self {
            writer: ObjectWriter::new(client.clone(), discovery.clone()),
            events: EventWriter::new(client.clone(), instance, now),
            fetcher: ObjectFetcher::new(client.clone(), discovery.clone()),
            reviewer: AccessReviewer::new(client.clone(), discovery.clone()),
            alarm: Alarm::default(),
            answers: ProbeAnswers::default(),
            client,
            discovery,
        }
    }

    /// Drops everything kept for a plugin that was removed.
    pub fn forget(&self, plugin: &str) {
        self.client.forget(plugin);
    }

    /// The kinds that the server serves.
    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// The list-watch of an informer that brings this much. It sends nothing before it is run; this
    /// call asks discovery if the kind is not known yet.
    pub async fn list_watch(
        &self,
        informer_key: &InformerKey,
        extent: Extent,
        settings: WatchSettings,
    ) -> Result<ListWatch, DiscoveryError> {
        let resource = self.discovery.look_for(&informer_key.kind, None).await?;
        if !resource.is_watchable() {
            return Err(DiscoveryError::Unwatchable(informer_key.kind.clone()));
        }
        let seed = RandomState::new().build_hasher().finish();
        let list_watch = ListWatch::new(
            self.client.clone(),
            resource,
            informer_key.clone(),
            extent,
            settings,
            seed,
        );
        let list_watch = list_watch.telling(self.discovery.signs().clone());
        Ok(list_watch.sharing(&self.alarm, &self.answers))
    }

    /// Returns whether an identity may list and watch a kind in a namespace (the empty one means
    /// all namespaces), and also get it if it is a pattern: objects of its kinds that cannot be
    /// watched are got one by one. Asks with one SubjectAccessReview per verb. An error means that
    /// the review was not answered.
    pub async fn may_read(
        &self,
        identity: &Identity,
        kind: &Kind,
        namespace: &str,
    ) -> Result<bool, ReviewError> {
        self.reviewer.may_read(identity, kind, namespace).await
    }

    /// Makes one write and returns its result. There is always an answer: an error is a kind of
    /// [`ActionResult`](pilothouse_core::ActionResult). A write whose outcome is unknown is not
    /// repeated.
    pub async fn write(&self, author: &Author, write: &Write) -> WriteAnswer {
        match EventBody::of(author, write) {
            Some(event) => self.events.write(event).await.into(),
            None => self.writer.write(author, write).await,
        }
    }

    /// Fetches one object as the server has it now (a quorum read), past every cache. Returns its
    /// JSON, or `None` if there is no such object. An account that may list a kind need not have
    /// the right to get its objects one by one; then the object is listed by its name. So it is
    /// after a 404 that does not name the object, which says nothing about it.
    pub async fn read(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<String>, ReadFailure> {
        self.fetcher.get(kind, key).await
    }

    /// The version of a list of these objects as the server has them now (a quorum read), past
    /// every cache, and the version of each object; without those if `is_enough` is content with
    /// the list's version before all pages are read.
    pub async fn versions(
        &self,
        objects: &InformerKey,
        is_enough: impl Fn(&ResourceVersion) -> bool,
    ) -> Result<
        (
            ResourceVersion,
            Option<BTreeMap<ObjectKey, ResourceVersion>>,
        ),
        ReadFailure,
    > {
        self.fetcher.versions(objects, is_enough).await
    }

    /// Lists objects as the server has them now (a quorum read), past every cache, and hands each
    /// to `examine` as JSON: whole, or without anything but its metadata. An error of `examine`
    /// ends it.
    pub async fn list(
        &self,
        objects: &InformerKey,
        is_whole: bool,
        examine: impl FnMut(&str) -> Result<(), String>,
    ) -> Result<(), ReadFailure> {
        self.fetcher.list(objects, is_whole, examine).await
    }
}
