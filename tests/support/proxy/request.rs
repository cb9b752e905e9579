//! Requests in the words of fault tests: lists, watches and writes of a resource.

use bytes::Bytes;
use http::Method;
use http::request::Parts;
use tokio::time::Instant;

/// Matches every resource.
pub const ANY: &str = "*";

/// A request that reached the proxy.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    pub path: String,
    pub query: String,
    /// For example `pods`; empty for requests that are not about a resource, such as discovery.
    pub resource: String,
    pub name: Option<String>,
    pub at: Instant,
    /// The number of the host's connection on which it came.
    pub connection: u64,
    pub body: Bytes,
}

impl Seen {
    pub(super) fn of(request: &Parts, body: Bytes, connection: u64) -> Self {
        let path = request.uri.path().to_owned();
        let (resource, name) = resource_of(&path);
        Self {
            method: request.method.clone(),
            query: request.uri.query().unwrap_or_default().to_owned(),
            resource: resource.to_owned(),
            name: name.map(str::to_owned),
            path,
            at: Instant::now(),
            connection,
            body,
        }
    }

    /// Returns a parameter of the query as it was sent, without decoding it.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let pairs = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        let mut values = pairs.filter(|(key, _)| *key == name);
        values.next().map(|(_, value)| value)
    }

    pub fn is_watch(&self) -> bool {
        self.method == Method::GET && matches!(self.parameter("watch"), Some("true" | "1"))
    }

    pub fn is_list(&self) -> bool {
        let is_get = self.method == Method::GET && !self.is_watch();
        is_get && !self.resource.is_empty() && self.name.is_none()
    }

    /// Returns whether this is a watch that begins with all objects (`sendInitialEvents`).
    pub fn is_streamed_list(&self) -> bool {
        self.is_watch() && self.parameter("sendInitialEvents") == Some("true")
    }

    pub fn is_versioned(&self) -> bool {
        let version = self.parameter("resourceVersion");
        version.is_some_and(|version| !version.is_empty())
    }

    /// Returns whether this is a page of a list other than the first.
    pub fn is_later_page(&self) -> bool {
        self.is_list() && self.parameter("continue").is_some()
    }
}

/// Returns resource and name: `deployments` and `web` for
/// `/apis/apps/v1/namespaces/default/deployments/web/status`.
fn resource_of(path: &str) -> (&str, Option<&str>) {
    let mut segments = path.split('/').skip(1);
    let versions = match segments.next() {
        Some("api") => 1,
        Some("apis") => 2,
        _ => return ("", None),
    };
    let rest: Vec<&str> = segments.skip(versions).collect();
    match rest.as_slice() {
        // A subresource of the namespace itself, whose path looks like that of a resource in it.
        ["namespaces", _, "status" | "finalize"] => ("namespaces", rest.get(1).copied()),
        ["namespaces", _, resource, rest @ ..] => (resource, rest.first().copied()),
        [resource, rest @ ..] => (resource, rest.first().copied()),
        [] => ("", None),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Any,
    Get,
    List,
    CompleteList,
    Watch,
    Read,
    Write,
}

/// Selects requests.
#[derive(Clone, Debug)]
pub struct Which {
    verb: Verb,
    resource: String,
    method: Option<Method>,
    path: String,
    /// Whether the path is the whole one, and not only its beginning.
    is_whole_path: bool,
    is_later_page: Option<bool>,
    is_streamed_list: Option<bool>,
    is_versioned: Option<bool>,
}

/// All requests.
pub fn all() -> Which {
    Which::new(Verb::Any, ANY)
}

/// Reads of one object.
pub fn gets(resource: &str) -> Which {
    Which::new(Verb::Get, resource)
}

/// LISTs; each page is one request.
pub fn lists(resource: &str) -> Which {
    Which::new(Verb::List, resource)
}

/// Requests that deliver all objects of a kind: the first page of a LIST, or a watch that begins
/// with all objects. A LIST with limit 1 does not count, as it only asks for the newest
/// resourceVersion.
pub fn complete_lists(resource: &str) -> Which {
    Which::new(Verb::CompleteList, resource)
}

/// Watches, including those that begin with all objects.
pub fn watches(resource: &str) -> Which {
    Which::new(Verb::Watch, resource)
}

/// Watches that begin at a resourceVersion.
pub fn resumes(resource: &str) -> Which {
    watches(resource).streamed_lists(false)
}

/// Requests that keep a cache up to date: LISTs and watches.
pub fn reads(resource: &str) -> Which {
    Which::new(Verb::Read, resource)
}

/// POST, PUT, PATCH and DELETE, also of subresources.
pub fn writes(resource: &str) -> Which {
    Which::new(Verb::Write, resource)
}

impl Which {
    fn new(verb: Verb, resource: &str) -> Self {
        Self {
            verb,
            resource: resource.to_owned(),
            method: None,
            path: String::new(),
            is_whole_path: false,
            is_later_page: None,
            is_streamed_list: None,
            is_versioned: None,
        }
    }

    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Only paths that start with this one.
    #[must_use]
    pub fn under(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// Only this path.
    #[must_use]
    pub fn at(mut self, path: &str) -> Self {
        self.is_whole_path = true;
        self.under(path)
    }

    /// Only pages with a `continue` token; if `false`, only requests without one.
    #[must_use]
    pub fn later_pages(mut self, are_wanted: bool) -> Self {
        self.is_later_page = Some(are_wanted);
        self
    }

    /// Only watches that begin with all objects; if `false`, only other requests.
    #[must_use]
    pub fn streamed_lists(mut self, are_wanted: bool) -> Self {
        self.is_streamed_list = Some(are_wanted);
        self
    }

    /// Only requests with a resourceVersion, exact or as a minimum; if `false`, only requests
    /// without one.
    #[must_use]
    pub fn versioned(mut self, are_wanted: bool) -> Self {
        self.is_versioned = Some(are_wanted);
        self
    }

    pub fn matches(&self, seen: &Seen) -> bool {
        let is_whole =
            seen.is_list() && !seen.is_later_page() && seen.parameter("limit") != Some("1");
        let is_verb = match self.verb {
            Verb::Any => true,
            Verb::Get => seen.method == Method::GET && seen.name.is_some(),
            Verb::List => seen.is_list(),
            Verb::CompleteList => seen.is_streamed_list() || is_whole,
            Verb::Watch => seen.is_watch(),
            Verb::Read => seen.is_list() || seen.is_watch(),
            Verb::Write => seen.method != Method::GET && seen.method != Method::HEAD,
        };
        let is = |wanted: Option<bool>, found: bool| wanted.is_none_or(|wanted| wanted == found);
        is_verb
            && (self.resource == ANY || self.resource == seen.resource)
            && self
                .method
                .as_ref()
                .is_none_or(|method| *method == seen.method)
            && seen.path.starts_with(&self.path)
            && (!self.is_whole_path || seen.path == self.path)
            && is(self.is_later_page, seen.is_later_page())
            && is(self.is_streamed_list, seen.is_streamed_list())
            && is(self.is_versioned, seen.is_versioned())
    }

    /// Returns whether this selects all requests, and so idle connections too.
    pub(super) fn is_everything(&self) -> bool {
        self.verb == Verb::Any
            && self.resource == ANY
            && self.method.is_none()
            && self.path.is_empty()
    }
}
