//! Connections to the server of an agent: over TLS with the roots of the system, and through the proxy that the environment names.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower_service::Service;

use super::address::is_loopback;
use super::failure::Cause;

/// After this time without traffic, the system asks the peer whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const QUESTIONS: u32 = 3;

pub(super) type Connector = HttpsConnector<Dialer>;

/// Makes the connector. `is_socket`: only HTTP/1.1 has the upgrade to a WebSocket.
pub(super) async fn connector(is_secure: bool, is_socket: bool) -> Result<Connector, Cause> {
    let roots = if is_secure {
        // Reads files.
        let read = tokio::task::spawn_blocking(roots).await;
        read.map_err(|error| Cause::Other(format!("the certificates of the system cannot be read: {error}")))??
    } else {
        RootCertStore::empty()
    };
    with_roots(roots, is_socket)
}

/// Makes the connector for servers that these roots certify.
pub(super) fn with_roots(roots: RootCertStore, is_socket: bool) -> Result<Connector, Cause> {
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Cause::Other(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let builder = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http();
    let dialer = Dialer::new();
    Ok(match is_socket {
        true => builder.enable_http1().wrap_connector(dialer),
        false => builder.enable_http1().enable_http2().wrap_connector(dialer),
    })
}

fn roots() -> Result<RootCertStore, Cause> {
    let mut roots = RootCertStore::empty();
    let (certificates, problems) = system::certificates();
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        return Err(Cause::NoRoots(problems));
    }
    Ok(roots)
}

#[cfg(not(target_vendor = "apple"))]
mod system {
    use rustls::pki_types::CertificateDer;

    /// Returns the certificates that this system trusts, and what could not be read.
    pub(super) fn certificates() -> (Vec<CertificateDer<'static>>, Vec<String>) {
        let found = rustls_native_certs::load_native_certs();
        (found.certs, found.errors.iter().map(ToString::to_string).collect())
    }
}

#[cfg(target_vendor = "apple")]
mod system {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    /// The certificates of the system, which Apple keeps up to date.
    const FILE: &str = "/etc/ssl/cert.pem";

    /// Returns the certificates that this system trusts, and what could not be read.
    pub(super) fn certificates() -> (Vec<CertificateDer<'static>>, Vec<String>) {
        let file = std::env::var_os("SSL_CERT_FILE").unwrap_or_else(|| FILE.into());
        match CertificateDer::pem_file_iter(&file) {
            Ok(certificates) => (certificates.filter_map(Result::ok).collect(), Vec::new()),
            Err(error) => (Vec::new(), vec![format!("{}: {error}", std::path::Path::new(&file).display())]),
        }
    }
}

/// Opens a connection of TCP: directly, or through a proxy.
#[derive(Clone)]
pub(super) struct Dialer {
    proxies: Arc<Matcher>,
    tcp: HttpConnector,
}

impl Dialer {
    fn new() -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_keepalive_interval(Some(KEEP_ALIVE));
        tcp.set_keepalive_retries(Some(QUESTIONS));
        Self { proxies: Arc::new(Matcher::from_env()), tcp }
    }
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = Cause;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Cause>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, destination: Uri) -> Self::Future {
        let mut tcp = self.tcp.clone();
        // A proxy would reach its own machine.
        let proxy = self.proxies.intercept(&destination).filter(|_| !is_loopback(&destination));
        let Some(proxy) = proxy else {
            return Box::pin(async move { tcp.call(destination).await.map_err(|error| Cause::of(&error)) });
        };
        let uri = proxy.uri().clone();
        let shown =
            uri.authority().map(|authority| authority.as_str().rsplit('@').next().unwrap_or_default().to_owned());
        let through = move |cause: Cause| Cause::Proxy(shown.unwrap_or_default(), Box::new(cause));
        let destination = with_port(destination);
        match uri.scheme_str() {
            Some("http") => {
                let mut tunnel = Tunnel::new(uri, tcp);
                if let Some(login) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(login.clone());
                }
                Box::pin(async move { tunnel.call(destination).await.map_err(|error| through(Cause::of(&error))) })
            }
            Some("socks5" | "socks5h") => {
                let mut socks = SocksV5::new(uri, tcp);
                if let Some((user, password)) = proxy.raw_auth() {
                    socks = socks.with_auth(user.to_owned(), password.to_owned());
                }
                Box::pin(async move { socks.call(destination).await.map_err(|error| through(Cause::of(&error))) })
            }
            other => {
                let reason = format!("a proxy with the scheme {}; use http or socks5", other.unwrap_or_default());
                Box::pin(async move { Err(through(Cause::Other(reason))) })
            }
        }
    }
}

/// Adds the default port, which a tunnel must be asked for.
fn with_port(uri: Uri) -> Uri {
    if uri.port().is_some() {
        return uri;
    }
    let port = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let mut parts = uri.clone().into_parts();
    parts.authority = uri.host().and_then(|host| format!("{host}:{port}").parse().ok());
    Uri::from_parts(parts).unwrap_or(uri)
}
