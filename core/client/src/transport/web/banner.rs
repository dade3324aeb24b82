//! Reads the port that the server prints when it is ready, for example `  Local:    http://127.0.0.1:PORT/#token=…`.
//! The line has the token of the user, so no part of the output is kept or shown.

use tokio::io::AsyncRead;

use super::read_some;
use crate::error::{Error, Result};

/// The limit of the output before the port, in bytes.
const MAX_BYTES: usize = 64 << 10;
const CHUNK: usize = 4 << 10;
const HOSTS: [&str; 2] = ["http://127.0.0.1:", "http://localhost:"];

/// Reads the port. `None` if the output ends before.
pub(super) async fn port(stdout: &mut (impl AsyncRead + Unpin)) -> Result<Option<u16>> {
    let mut read = Vec::new();
    loop {
        let count = read_some::<CHUNK>(stdout, |bytes| read.extend_from_slice(bytes)).await;
        if let Some(port) = find(&String::from_utf8_lossy(&read)) {
            return Ok(Some(port));
        }
        match count {
            Ok(count) if count > 0 && read.len() <= MAX_BYTES => {}
            Ok(count) if count > 0 => {
                return Err(Error::Handshake(format!(
                    "the first {MAX_BYTES} bytes that the agent's server printed have no address on loopback; check that \
                     `executable` names Kimi Code"
                )));
            }
            _ => return Ok(None),
        }
    }
}

fn find(text: &str) -> Option<u16> {
    HOSTS.iter().find_map(|host| {
        text.match_indices(host).find_map(|(at, _)| {
            let rest = &text[at + host.len()..];
            // If nothing follows the number, more digits may follow.
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            rest[..end].parse().ok().filter(|port| *port != 0)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn port_is_read_from_banner() {
        let banner =
            "\n  ▐█▛█▛█▌  Kimi server ready  2.1.0\n\n  Local:    http://127.0.0.1:41234/#token=T\n  Network:  off\n";
        assert_eq!(port(&mut banner.as_bytes()).await.unwrap(), Some(41234));
        assert_eq!(port(&mut &b"http://localhost:80\n"[..]).await.unwrap(), Some(80));
        // The address of a documentation is not the server's.
        assert_eq!(port(&mut &b"see http://127.0.0.1:PORT/ or http://10.0.0.1:5/\n"[..]).await.unwrap(), None);
        assert_eq!(port(&mut &b"http://127.0.0.1:4123"[..]).await.unwrap(), None);
        assert_eq!(port(&mut &b"http://127.0.0.1:99999/ http://127.0.0.1:0/"[..]).await.unwrap(), None);
    }

    #[tokio::test]
    async fn banner_without_end_is_refused() {
        let error = port(&mut tokio::io::repeat(b'x')).await.unwrap_err();
        assert_eq!(error.code(), "handshake_error");
    }
}
