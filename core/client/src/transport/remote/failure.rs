//! The texts of errors: why there is no connection to an agent.

use std::fmt;
use std::io;

use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, LOCATION, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use rustls::CertificateError;

use super::address::Address;
use crate::error::Error;

/// Why there is no connection: a part of a sentence.
#[derive(Clone, Debug)]
pub(super) enum Cause {
    /// The name of the host has no address.
    Name,
    /// Nothing listens at the port.
    Refused,
    /// The certificate of the server is refused, for this reason.
    Untrusted(String),
    /// TLS failed, for this reason.
    Tls(String),
    NotTls,
    /// The system has no certificates, and these problems were found.
    NoRoots(Vec<String>),
    /// The proxy has no connection.
    Proxy(String, Box<Cause>),
    ProxyLogin,
    ProxyRefused,
    /// The answer is not HTTP.
    NotHttp,
    Other(String),
}

impl std::error::Error for Cause {}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("the name of the host is not known; check the address and the network"),
            Self::Refused => {
                f.write_str("nothing listens at this port; start the server, or check the address")
            }
            Self::Untrusted(reason) => write!(
                f,
                "the certificate of the server is not accepted: {reason}; add its authority to the certificates of this system, or name \
                 its file in the variable SSL_CERT_FILE"
            ),
            Self::Tls(reason) => write!(f, "the connection over TLS failed: {reason}"),
            Self::NotTls => f.write_str(
                "the server does not speak TLS at this port; check the port, or use the scheme `ws` or `http` if the network is trusted",
            ),
            Self::NoRoots(problems) => {
                f.write_str("this system has no certificates of authorities; install them, for example with `apt-get install \
                             ca-certificates`, or name a file in the variable SSL_CERT_FILE")?;
                problems.first().map_or(Ok(()), |problem| write!(f, " ({problem})"))
            }
            Self::Proxy(proxy, cause) => write!(f, "through the proxy {proxy} (from the environment): {cause}"),
            Self::ProxyLogin => {
                f.write_str("it wants a login; put the user and the password into the URL of the variable, or add the host to NO_PROXY")
            }
            Self::ProxyRefused => f.write_str("it opens no connection to this host and port; ask for it, or add the host to NO_PROXY"),
            Self::NotHttp => f.write_str(
                "the answer is not HTTP; check the port, and use the scheme `wss` or `https` if the server speaks TLS",
            ),
            Self::Other(reason) => f.write_str(reason),
        }
    }
}

impl Cause {
    /// Finds the cause of a failed connection.
    pub(super) fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut next = Some(error);
        let mut last = String::new();
        while let Some(error) = next {
            if let Some(cause) = Self::known(error) {
                return cause;
            }
            last = error.to_string();
            next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
                // The source of an error of I/O is that of the error in it.
                Some(inner) => Some(inner),
                None => error.source(),
            };
        }
        Self::Other(last)
    }

    fn known(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        if let Some(cause) = error.downcast_ref::<Self>() {
            return Some(cause.clone());
        }
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return Some(match error {
                rustls::Error::InvalidCertificate(problem) => Self::Untrusted(certificate_problem(problem)),
                rustls::Error::InvalidMessage(_) => Self::NotTls,
                other => Self::Tls(other.to_string()),
            });
        }
        if let Some(error) = error.downcast_ref::<hyper::Error>()
            && error.is_parse()
        {
            return Some(Self::NotHttp);
        }
        // These have no public type.
        match &*error.to_string() {
            "dns error" => return Some(Self::Name),
            "tunnel error: proxy authorization required" => return Some(Self::ProxyLogin),
            "tunnel error: unsuccessful" | "tunnel error: unexpected end of file" => return Some(Self::ProxyRefused),
            _ => {}
        }
        let error = error.downcast_ref::<io::Error>()?;
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Some(Self::Refused),
            io::ErrorKind::UnexpectedEof => Some(Self::Other("the server closed the connection".to_owned())),
            _ => None,
        }
    }

    /// Makes the error for an agent that cannot be reached.
    pub(super) fn error(&self, address: &Address) -> Error {
        let text = match self {
            Self::Proxy(..) => format!("can't reach the agent at {address} {self}"),
            _ => format!("can't reach the agent at {address}: {self}"),
        };
        Error::Spawn(text)
    }
}

fn certificate_problem(problem: &CertificateError) -> String {
    match problem {
        CertificateError::UnknownIssuer => "its authority is not known here".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another host".to_owned()
        }
        other => other.to_string(),
    }
}

/// Makes the error for an answer that does not open the connection.
pub(super) fn refused(address: &Address, response: &Response<Incoming>) -> Error {
    let status = response.status();
    let header = |name| response.headers().get(name).and_then(|value: &hyper::header::HeaderValue| value.to_str().ok());
    let has_login = address.headers.contains_key(AUTHORIZATION);
    let expected = if address.is_socket { "opening a WebSocket" } else { "answering over ACP" };
    let reason = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let scheme = header(WWW_AUTHENTICATE).and_then(|value| value.split([' ', ',']).next());
            let scheme = scheme.filter(|scheme| !scheme.is_empty()).map(|scheme| address.masked(scheme));
            let scheme = scheme.map_or_else(String::new, |scheme| format!(", with the scheme {scheme}"));
            match has_login {
                false => format!(
                    "it wants a login (HTTP status {status}); set the header `Authorization` in `headers` of the place{scheme}"
                ),
                true => format!(
                    "it does not accept the header `Authorization` of the place (HTTP status {status}); correct its value{scheme}"
                ),
            }
        }
        StatusCode::NOT_FOUND => {
            format!("it has no agent at this path (HTTP status {status}); check the path, which often is `/acp`")
        }
        status if status.is_redirection() => {
            let target = header(LOCATION).map(|target| target.split(['?', '#']).next().unwrap_or_default());
            let target = target.map_or_else(String::new, |target| format!(" to {}", address.masked(target)));
            format!(
                "it redirects{target} (HTTP status {status}); use that address, because secrets are not sent elsewhere"
            )
        }
        status if status.is_server_error() => {
            format!("it has a problem (HTTP status {status}); try again later, or look at its log")
        }
        status => {
            let other = if address.is_socket { "`https` or `http`" } else { "`wss` or `ws`" };
            format!(
                "it answers with HTTP status {status} instead of {expected}; check the address, or use the scheme {other}"
            )
        }
    };
    Error::Spawn(format!("the server at {address} does not open a connection: {reason}"))
}
