//! The address of an agent: its URL, and the headers of each request.

use std::ffi::OsStr;
use std::fmt;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::request;
use hyper::http::uri::Scheme;
use hyper::{Method, Request, Uri};

use crate::place::secrets;
use crate::secrets::Secrets;

/// The headers that belong to the transport.
const OWN: [&str; 13] = [
    "accept",
    "acp-connection-id",
    "acp-session-id",
    "connection",
    "content-length",
    "content-type",
    "host",
    "sec-websocket-accept",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "sec-websocket-version",
    "upgrade",
];

/// The address of an agent. Shown without the query of the URL, which may be secret.
#[derive(Clone)]
pub(crate) struct Address {
    /// With the scheme `http` or `https`.
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) is_socket: bool,
    pub(super) is_secure: bool,
    shown: String,
    secrets: Secrets,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Address {
    /// Reads a URL and headers. The error says which setting is wrong, without its value if that may be secret.
    pub(crate) fn new(url: &str, headers: &[(String, String)]) -> Result<Self, String> {
        const EXPECTED: &str = "expected an address such as \"wss://agents.example/acp\"";
        let uri: Uri = url.parse().map_err(|error| format!("`url`: {error}; {EXPECTED}"))?;
        let scheme = uri.scheme_str().map(str::to_ascii_lowercase);
        let (is_socket, is_secure) = match scheme.as_deref() {
            Some("wss") => (true, true),
            Some("ws") => (true, false),
            Some("https") => (false, true),
            Some("http") => (false, false),
            Some(other) => {
                return Err(format!("`url`: expected the scheme wss, ws, https or http, got {other}; {EXPECTED}"));
            }
            None => return Err(format!("`url`: it has no scheme; {EXPECTED}")),
        };
        let authority = uri.authority().filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or_else(|| format!("`url`: it names no host; {EXPECTED}"))?.clone();
        if authority.as_str().contains('@') {
            return Err("`url`: it contains a user name; pass `Authorization` in `headers` instead".to_owned());
        }
        if authority
            .as_str()
            .strip_prefix(authority.host())
            .is_none_or(|port| !port.is_empty() && uri.port_u16().is_none())
        {
            return Err(format!("`url`: its port is not a number from 0 to 65535; {EXPECTED}"));
        }
        let shown = format!("{}://{authority}{}", scheme.unwrap_or_default(), uri.path());
        let mut parts = uri.clone().into_parts();
        parts.scheme = Some(if is_secure { Scheme::HTTPS } else { Scheme::HTTP });
        let uri = Uri::from_parts(parts).map_err(|error| format!("`url`: {error}; {EXPECTED}"))?;
        let secrets = secrets(url, headers);
        let secrets = Secrets::new([], secrets.iter().map(OsStr::new));
        Ok(Self { uri, headers: header_map(headers)?, is_socket, is_secure, shown, secrets })
    }

    /// Begins a request with the headers.
    pub(super) fn request(&self, method: Method) -> request::Builder {
        let mut request = Request::builder().method(method).uri(self.uri.clone());
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
            headers
                .entry(hyper::header::USER_AGENT)
                .or_insert(HeaderValue::from_static(concat!("kimi-agent/", env!("CARGO_PKG_VERSION"))));
        }
        request
    }

    /// Returns the path with its query, as the first line of a request has it.
    pub(super) fn origin_form(&self) -> Uri {
        let path = self.uri.path_and_query().cloned();
        path.map_or_else(|| Uri::from_static("/"), Uri::from)
    }

    /// Returns the host with its port.
    pub(super) fn host(&self) -> &str {
        self.uri.authority().map_or("", |authority| authority.as_str())
    }

    /// Returns whether others on the network can read headers of the program.
    pub(super) fn sends_secrets_in_plain_text(&self) -> bool {
        !self.is_secure && !is_loopback(&self.uri) && !self.headers.is_empty()
    }

    /// Returns a text of the server without the secrets.
    pub(super) fn masked(&self, text: &str) -> String {
        const SHOWN: usize = 300;
        self.secrets.shown(text.as_bytes(), SHOWN)
    }
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let shown = name.escape_debug();
        let known = HeaderName::try_from(name.as_str()).map_err(|_| {
            format!("`headers`: \"{shown}\" is not the name of a header; expected one such as `Authorization`")
        })?;
        if OWN.contains(&known.as_str()) {
            return Err(format!("`headers`: `{name}` is set by the transport; leave it out"));
        }
        let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| {
            format!("`headers`: the value of `{name}` has a character that headers cannot have, such as a line break")
        })?;
        value.set_sensitive(true);
        map.append(known, value);
    }
    Ok(map)
}
/// Returns whether the host of an address is this machine.
pub(super) fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}
