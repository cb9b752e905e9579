//! Decides which requests are answered at a loopback address.
//!
//! An operator who lets the host listen on the loopback address wants to admit only users of this
//! machine. A web page in a browser there is not one of them, but it can send requests under a name
//! of its own that resolves to this machine (DNS rebinding). Therefore the request must use one of
//! this machine's names, and must not come from a page.

use std::net::SocketAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The rule for one address.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The host names that a request may use. `None`: any request is answered.
    names: Option<Vec<String>>,
}

impl Guard {
    /// `address` is where the host listens, `said` the host name as the operator wrote it, and
    /// `allowed` are further names, such as that of a proxy on this machine.
    pub fn of(address: SocketAddr, said: &str, allowed: &[String]) -> Self {
        let is_local = address.ip().to_canonical().is_loopback();
        let own = ["localhost", "127.0.0.1", "[::1]", said];
        let own = own.iter().map(|name| (*name).to_owned());
        let names = own.chain(allowed.iter().cloned()).collect();
        Self {
            names: is_local.then_some(names),
        }
    }

    fn refusal(&self, headers: &HeaderMap) -> Option<&'static str> {
        let names = self.names.as_ref()?;
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let host = text(header::HOST).map(without_port);
        let is_ours = |host: &str| names.iter().any(|name| name.eq_ignore_ascii_case(host));
        // A browser always sends a host, so a request without one does not come from a page.
        if host.is_some_and(|host| !host.is_empty() && !is_ours(host)) {
            return Some(
                "the host answers at this machine's own names alone: localhost, 127.0.0.1 or [::1]; for a proxy that asks under another, start it with --allowed-host NAME\n",
            );
        }
        // `none` is sent when a user opens the address directly.
        let is_of_page = text(header::ORIGIN).is_some()
            || text(header::HeaderName::from_static("sec-fetch-site"))
                .is_some_and(|site| site != "none");
        is_of_page.then_some("the host answers no web page\n")
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Passes a request on, or refuses it.
pub async fn guard(guard: Guard, request: Request, next: Next) -> Response {
    match guard.refusal(request.headers()) {
        Some(text) => (StatusCode::FORBIDDEN, text).into_response(),
        None => next.run(request).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_answered(listen: &str, said: &str, headers: &[(&'static str, &'static str)]) -> bool {
        is_answered_with(listen, said, &[], headers)
    }

    fn is_answered_with(
        listen: &str,
        said: &str,
        allowed: &[&str],
        headers: &[(&'static str, &'static str)],
    ) -> bool {
        let allowed: Vec<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        let guard = Guard::of(listen.parse().unwrap(), said, &allowed);
        let headers = headers.iter().map(|(name, value)| {
            let name = header::HeaderName::from_static(name);
            (name, header::HeaderValue::from_static(value))
        });
        guard.refusal(&headers.collect()).is_none()
    }

    #[test]
    fn a_page_that_calls_itself_this_machine_is_not_answered() {
        let local = |headers: &[_]| is_answered("127.0.0.1:8080", "127.0.0.1", headers);
        assert!(!local(&[("host", "evil.example:8080")]));
        assert!(!local(&[("host", "localhost.evil.example")]));
        assert!(!local(&[
            ("host", "localhost:8080"),
            ("origin", "http://evil.example")
        ]));
        assert!(!local(&[
            ("host", "localhost"),
            ("sec-fetch-site", "cross-site")
        ]));
        assert!(local(&[("host", "localhost"), ("sec-fetch-site", "none")]));
        for host in [
            "localhost",
            "LOCALHOST:9000",
            "127.0.0.1:8080",
            "[::1]:8080",
            "[::1]",
        ] {
            assert!(local(&[("host", host)]), "{host}");
        }
        assert!(local(&[]), "HTTP/1.0 has no host");
    }

    #[test]
    fn the_name_that_listen_says_is_one_of_ours() {
        let headers = [("host", "build-7:8080")];
        assert!(is_answered("127.0.1.1:8080", "build-7", &headers));
        assert!(!is_answered("127.0.1.1:8080", "127.0.1.1", &headers));
    }

    #[test]
    fn a_proxys_name_is_answered_once_the_operator_has_allowed_it() {
        let headers = [("host", "Pilothouse.example:443")];
        let is_answered =
            |allowed: &[&str]| is_answered_with("127.0.0.1:8080", "127.0.0.1", allowed, &headers);
        assert!(!is_answered(&[]));
        assert!(is_answered(&["pilothouse.example"]));
        assert!(!is_answered(&["example", "other.example"]));
        let of_page = [headers[0], ("origin", "http://pilothouse.example")];
        let allowed = ["pilothouse.example"];
        assert!(!is_answered_with(
            "127.0.0.1:8080",
            "127.0.0.1",
            &allowed,
            &of_page
        ));
    }

    #[test]
    fn an_address_for_all_is_answered_under_any_name() {
        let headers = [
            ("host", "pilothouse.kube-system.svc"),
            ("origin", "http://x"),
        ];
        assert!(is_answered("0.0.0.0:8080", "", &headers));
        assert!(is_answered("[::]:8080", "", &headers));
    }
}
