//! The check of each request: clients need the token; without a token, they must be on this machine. Pages of the web are refused.

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
                let host = of_url.or_else(|| headers.get(HOST)?.to_str().ok());
                // The page of a name that resolves to loopback has the same origin as this server.
                if !host.is_some_and(is_loopback) {
                    let reason = "the header `Host` names another machine; use 127.0.0.1, [::1] or localhost";
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

/// Returns whether a host, with or without a port, is this machine only.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
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
        ] {
            assert!(!is_loopback(host), "{host}");
        }
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
