//! The service account under which the host acts for a plugin, by impersonation
//! (<https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/>). The API server
//! adds a service account's groups by itself. Its priority and fairness runs after impersonation,
//! so each identity is a flow of its own.

use std::fmt;
use std::str::FromStr;

use http::{HeaderValue, Request};

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    namespace: String,
    name: String,
}

/// The text does not have the form `serviceaccount:NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an identity; write serviceaccount:NAMESPACE/NAME")]
pub struct IdentityError(String);

impl FromStr for Identity {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let is_name = |name: &str| {
            let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
            !name.is_empty() && name.len() <= 253 && name.bytes().all(is_plain)
        };
        let account = text.strip_prefix("serviceaccount:");
        match account.and_then(|account| account.split_once('/')) {
            Some((namespace, name)) if is_name(namespace) && is_name(name) => Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err(IdentityError(text.to_owned())),
        }
    }
}

/// The user name that the API server gives the account.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

impl Identity {
    /// The account's namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The account's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The groups that the API server gives the account.
    pub(super) fn groups(&self) -> [String; 3] {
        [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
            "system:authenticated".to_owned(),
        ]
    }
}

/// Makes the request run as this user.
pub(super) fn impersonate(user: &str, request: &mut Request<Vec<u8>>) -> http::Result<()> {
    let user = HeaderValue::from_str(user)?;
    request.headers_mut().insert("impersonate-user", user);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_a_service_account() {
        let identity: Identity = "serviceaccount:web/deployer".parse().unwrap();
        assert_eq!(identity.to_string(), "system:serviceaccount:web:deployer");
        for wrong in [
            "",
            "web/deployer",
            "serviceaccount:deployer",
            "serviceaccount:web/",
            "serviceaccount:web/a/b",
            "serviceaccount:web/a\r\nb",
            "user:root/x",
        ] {
            assert!(wrong.parse::<Identity>().is_err(), "{wrong:?}");
        }
    }
}
