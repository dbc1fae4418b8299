//! The platform's base URL.

use std::str::FromStr;

use url::{Host, Url};

/// A base URL: http, https, ws or wss, a host, maybe a path; nothing secret in it.
#[derive(Debug, Clone)]
pub(crate) struct PlatformUrl(Url);

impl FromStr for PlatformUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("must be a URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https" | "ws" | "wss") {
            return Err("must begin with http://, https://, ws:// or wss://".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must not hold a credential".to_owned());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("must end with its path".to_owned());
        }
        Ok(Self(url))
    }
}

impl PlatformUrl {
    /// Whether what is sent to it can be read on the way.
    pub(crate) fn is_plaintext_beyond_loopback(&self) -> bool {
        matches!(self.0.scheme(), "http" | "ws") && !is_loopback(&self.0)
    }

    /// Whether it is spoken to over TLS.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.0.scheme(), "https" | "wss")
    }

    /// The URL as text, without a slash at its end.
    pub(crate) fn as_text(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }

    /// The HTTP URL of `path`, which begins with a slash.
    pub(crate) fn http(&self, path: &str) -> String {
        let text = self.as_text();
        let rest = text.split_once(':').map_or(text, |(_, rest)| rest);
        format!("{}:{rest}{path}", if self.is_tls() { "https" } else { "http" })
    }
}

/// Whether a URL's host is this machine: localhost, 127.0.0.0/8 or ::1.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_taken_with_either_scheme_and_any_trailing_slash() {
        for (text, http) in [
            ("http://127.0.0.1:7878", "http://127.0.0.1:7878/v1/events"),
            ("ws://localhost:1/", "http://localhost:1/v1/events"),
            ("wss://events.example/base/", "https://events.example/base/v1/events"),
        ] {
            let url = text.parse::<PlatformUrl>().expect(text);
            assert_eq!(url.http("/v1/events"), http);
        }
    }

    #[test]
    fn other_schemes_and_urls_with_more_in_them_are_refused() {
        for bad in
            ["127.0.0.1:7878", "ftp://host", "file:///x", "http://user:pass@host", "http://h?x", "http://h#x", ""]
        {
            assert!(bad.parse::<PlatformUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_loopback_is_safe_in_plaintext() {
        for (text, plain) in [
            ("http://127.8.9.1", false),
            ("ws://[::1]:7", false),
            ("http://LOCALHOST", false),
            ("http://10.0.0.1", true),
            ("ws://events.example", true),
            ("https://events.example", false),
        ] {
            assert_eq!(text.parse::<PlatformUrl>().expect(text).is_plaintext_beyond_loopback(), plain, "{text}");
        }
    }
}
