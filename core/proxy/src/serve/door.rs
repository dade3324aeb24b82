//! The check of each request: clients need the token; without a token, they must be on this machine. Pages of the web are refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use hyper::{Request, StatusCode};
use subtle::ConstantTimeEq as _;

use super::http::Refusal;

/// The scheme of the header, in any case.
const SCHEME: &[u8] = b"Bearer ";

/// The rules for requests.
pub(super) struct Door {
    token: Option<String>,
}

impl Door {
    pub(super) fn new(token: Option<String>) -> Self {
        Self { token }
    }

    /// Checks the head of a request.
    pub(super) fn check(&self, request: &Request<Incoming>) -> Result<(), Refusal> {
        let headers = request.headers();
        match &self.token {
            Some(token) if !knows(headers, token) => {
                let reason = "the header `Authorization: Bearer TOKEN` is missing, or the token is wrong";
                return Err((StatusCode::UNAUTHORIZED, reason.to_owned()));
            }
            Some(_) => {}
            None => {
                // HTTP/2 has the host in the URL of the request.
                let of_url = request.uri().authority().map(|authority| authority.as_str());
                // The page of a name that resolves to loopback has the same origin as this server.
                if !names_loopback(of_url, headers) {
                    let reason =
                        "the header `Host` is not one of 127.0.0.1, [::1] and localhost, once, with or without a port";
                    return Err((StatusCode::FORBIDDEN, reason.to_owned()));
                }
            }
        }
        // Only browsers send it.
        if headers.contains_key(ORIGIN) {
            let reason = "the header `Origin` is refused: pages of the web may not use this server";
            return Err((StatusCode::FORBIDDEN, reason.to_owned()));
        }
        Ok(())
    }
}

/// Returns whether the headers have the token, once. Compares it in constant time.
fn knows(headers: &HeaderMap, token: &str) -> bool {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(given), None) = (given.next(), given.next()) else { return false };
    let (scheme, given) = given.as_bytes().split_at_checked(SCHEME.len()).unwrap_or_default();
    scheme.eq_ignore_ascii_case(SCHEME) && bool::from(given.ct_eq(token.as_bytes()))
}

/// Returns whether a request names this machine only: in its URL, in one header, or in both.
fn names_loopback(of_url: Option<&str>, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let (header, more) = (hosts.next(), hosts.next());
    let is_header_good = header.is_none_or(|host| host.to_str().is_ok_and(is_loopback));
    let is_url_good = of_url.is_none_or(is_loopback);
    more.is_none() && is_header_good && is_url_good && (header.is_some() || of_url.is_some())
}

/// Returns whether a host, with or without a port, is this machine only.
fn is_loopback(host: &str) -> bool {
    let (is_name_good, rest) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            let address = address.parse::<Ipv6Addr>().map(IpAddr::from);
            (address.is_ok_and(|address| address.to_canonical().is_loopback()), rest)
        }
        None => {
            let (name, rest) = host.split_at(host.find(':').unwrap_or(host.len()));
            let is_address = name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
            (is_address || name.eq_ignore_ascii_case("localhost"), rest)
        }
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    is_name_good && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for host in
            ["localhost", "LocalHost:80", "127.0.0.1:8421", "127.8.8.8", "[::1]:80", "[::1]", "[::ffff:127.0.0.1]:1"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "example.org",
            "localhost.example.org:80",
            "127.0.0.1.nip.io",
            "10.0.0.1:80",
            "[::2]:1",
            "0.0.0.0",
            "x@localhost",
            "localhost:80@evil.example",
            "localhost:x.evil.example",
            "localhost:",
            "localhost:+80",
            "localhost:65536",
            "localhost:80:80",
            "localhost.",
            "[localhost]",
            "[127.0.0.1]",
            "[::1]x",
            "[::1]:80@evil.example",
            "::1",
            "127.0.0.1 ",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn request_names_its_host_once() {
        let named = |of_url: Option<&str>, hosts: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, HeaderValue::from_static(host));
            }
            names_loopback(of_url, &headers)
        };
        assert!(named(None, &["localhost"]) && named(Some("127.0.0.1:80"), &[]) && named(Some("[::1]"), &["[::1]"]));
        assert!(!named(None, &[]) && !named(None, &["localhost", "evil.example"]));
        assert!(!named(None, &["localhost", "localhost"]) && !named(None, &["evil.example", "localhost"]));
        assert!(!named(Some("localhost"), &["evil.example"]) && !named(Some("evil.example"), &["localhost"]));
    }

    #[test]
    fn token_is_needed_once_and_whole() {
        let with = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_static(value));
            }
            headers
        };
        let token = "0123456789abcdef";
        for value in ["Bearer 0123456789abcdef", "bearer 0123456789abcdef"] {
            assert!(knows(&with(&[value]), token), "{value}");
        }
        for values in [
            &[][..],
            &["Bearer 0123456789abcde"],
            &["Bearer 0123456789abcdef0"],
            &["Bearer"],
            &["Basic 0123456789abcdef"],
            &["Bearer 0123456789abcdef", "Bearer 0123456789abcdef"],
        ] {
            assert!(!knows(&with(values), token), "{values:?}");
        }
    }
}
