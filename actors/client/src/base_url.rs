//! The platform's address: which schemes, which hosts, which path.

use std::fmt;

use perilune_proto::limits;
use url::{Host, Url};

use crate::error::ConfigError;

/// Whether credentials may travel unencrypted beyond this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plaintext {
    LoopbackOnly,
    Anywhere,
}

/// A checked base URL: scheme, authority and path, without a trailing slash.
#[derive(Clone)]
pub(crate) struct BaseUrl {
    encrypted: bool,
    /// `host[:port]/path`, the path without its trailing slash.
    rest: String,
}

impl BaseUrl {
    pub(crate) fn parse(text: &str, plaintext: Plaintext) -> Result<Self, ConfigError> {
        let url = Url::parse(text).map_err(|_| ConfigError::base_url("is no absolute URL"))?;
        let encrypted = match url.scheme() {
            "http" | "ws" => false,
            "https" | "wss" => true,
            _ => return Err(ConfigError::base_url("has a scheme other than http, https, ws, wss")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ConfigError::base_url("holds a user or password; give a credential provider instead"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(ConfigError::base_url("has a query or a fragment"));
        }
        let Some(host) = url.host() else {
            return Err(ConfigError::base_url("has no host"));
        };
        if !encrypted && plaintext == Plaintext::LoopbackOnly && !is_loopback(&host) {
            return Err(ConfigError::base_url("is unencrypted beyond loopback, which has to be allowed explicitly"));
        }
        if encrypted && matches!(host, Host::Ipv6(_)) {
            // The TLS layer below takes the brackets for a part of the server's name.
            return Err(ConfigError::base_url("names a TLS server by its IPv6 address; use a host name"));
        }
        let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
        Ok(Self { encrypted, rest: format!("{host}{port}{}", url.path().trim_end_matches('/')) })
    }

    /// Whether the platform is reached by TLS.
    pub(crate) const fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// The WebSocket's URL.
    pub(crate) fn events(&self) -> String {
        let scheme = if self.encrypted { "wss" } else { "ws" };
        format!("{scheme}://{}{}", self.rest, limits::EVENTS_PATH)
    }

    /// The URL of an HTTP resource; `path` begins with a slash.
    pub(crate) fn http(&self, path: &str) -> String {
        let scheme = if self.encrypted { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.rest)
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.http(""))
    }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> Option<String> {
        BaseUrl::parse(text, Plaintext::LoopbackOnly).ok().map(|base| base.events())
    }

    #[test]
    fn plaintext_is_for_loopback_unless_allowed() {
        for loopback in ["localhost", "LOCALHOST", "127.0.0.1", "127.9.8.7", "[::1]"] {
            assert!(events(&format!("ws://{loopback}:7878")).is_some(), "{loopback}");
            assert!(events(&format!("http://{loopback}")).is_some(), "{loopback}");
        }
        for beyond in ["example.com", "128.0.0.1", "[::2]", "localhost.example.com", "0.0.0.0", "127.0.0.1.nip.io"] {
            assert_eq!(events(&format!("ws://{beyond}")), None, "{beyond}");
            assert!(BaseUrl::parse(&format!("http://{beyond}"), Plaintext::Anywhere).is_ok(), "{beyond}");
        }
    }

    #[test]
    fn the_base_path_is_kept_and_its_trailing_slash_dropped() {
        assert_eq!(events("https://a.example/base/").as_deref(), Some("wss://a.example/base/v1/events"));
        assert_eq!(events("wss://a.example:444").as_deref(), Some("wss://a.example:444/v1/events"));
        assert_eq!(events("http://127.0.0.1:1/").as_deref(), Some("ws://127.0.0.1:1/v1/events"));
    }

    #[test]
    fn other_schemes_and_parts_are_refused() {
        for bad in [
            "ftp://localhost",
            "localhost:7878",
            "",
            "https://",
            "https://u:p@a.example",
            "https://a/?q",
            "https://a/#f",
        ] {
            assert_eq!(events(bad), None, "{bad}");
        }
    }
}
