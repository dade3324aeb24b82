//! Stored sessions: their list in pages, their titles, and the archive.

use serde_json::{Value, json};

use super::super::super::types::Failure;
use super::super::Server;
use super::INVALID_PARAMS;

/// The code of a session that does not exist.
const NOT_FOUND: i64 = -32002;
/// The longest title, in characters.
const MAX_TITLE: usize = 100;

impl Server {
    /// Sends a page of the list. The cursor is the place of its first session.
    pub(super) fn list_acp(&mut self, id: &str, params: &Value) -> Result<(), Failure> {
        let is_archived = match params["archived"].as_str() {
            None | Some("exclude") => false,
            Some("only") => true,
            Some(other) => return Err(Failure::new(INVALID_PARAMS, format!("Invalid params: archived {other}"))),
        };
        let begin = match params["cursor"].as_str() {
            None => 0,
            Some(cursor) => cursor.parse().map_err(|_| Failure::new(INVALID_PARAMS, "Invalid params: cursor"))?,
        };
        let sessions = self.acp.sessions.list(params["cwd"].as_str(), is_archived);
        let end = self.profile.sessions_per_page.map_or(sessions.len(), |size| sessions.len().min(begin + size));
        let mut answer = json!({"sessions": sessions.get(begin..end).unwrap_or_default()});
        if end < sessions.len() {
            answer["nextCursor"] = json!(end.to_string());
        }
        self.respond(id, answer);
        Ok(())
    }

    /// Gives a session a title, without blanks around it and at most 100 characters long.
    pub(super) fn rename_acp(&mut self, id: &str, session: &str, title: &str) -> Result<(), Failure> {
        let title: String = title.trim().chars().take(MAX_TITLE).collect();
        if title.is_empty() {
            return Err(Failure::new(INVALID_PARAMS, "Invalid params: title"));
        }
        if self.acp.sessions.work_dir(session).is_none() {
            return Err(Failure::new(NOT_FOUND, "Resource not found"));
        }
        self.acp.sessions.name(session, &title);
        self.respond(id, json!({"title": title}));
        Ok(())
    }

    pub(super) fn archive_acp(&mut self, id: &str, session: &str, is_archived: bool) -> Result<(), Failure> {
        if !self.acp.sessions.archive(session, is_archived) {
            return Err(Failure::new(NOT_FOUND, "Resource not found"));
        }
        self.respond(id, json!({}));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::super::types::Profile;
    use super::*;

    fn answer(server: &mut Server) -> Value {
        serde_json::from_slice::<Value>(&server.take_output()).unwrap()["result"].clone()
    }

    #[test]
    fn list_has_pages() {
        let mut profile = Profile::acp("it", "1.0");
        profile.sessions_per_page = Some(2);
        let mut server = Server::new(profile);
        for id in ["a", "b", "c"] {
            server.acp.sessions.open(id, "/w", 0);
        }
        server.list_acp("1", &json!({})).unwrap();
        let first = answer(&mut server);
        assert_eq!((first["sessions"].as_array().unwrap().len(), &first["nextCursor"]), (2, &json!("2")));
        server.list_acp("2", &json!({"cursor": "2"})).unwrap();
        let last = answer(&mut server);
        assert_eq!((&last["sessions"][0]["sessionId"], &last["nextCursor"]), (&json!("c"), &Value::Null));
        assert!(server.list_acp("3", &json!({"cursor": "x"})).is_err());
        assert!(server.list_acp("4", &json!({"archived": "novel"})).is_err());
        server.list_acp("5", &json!({"cursor": "9"})).unwrap();
        assert_eq!(answer(&mut server)["sessions"], json!([]));
    }

    #[test]
    fn title_is_shortened() {
        let mut server = Server::new(Profile::acp("it", "1.0"));
        server.acp.sessions.open("a", "/w", 0);
        server.rename_acp("1", "a", &format!(" {} ", "x".repeat(200))).unwrap();
        assert_eq!(answer(&mut server)["title"], json!("x".repeat(100)));
        assert_eq!(server.rename_acp("2", "a", " ").unwrap_err().code, INVALID_PARAMS);
        assert_eq!(server.rename_acp("3", "b", "x").unwrap_err().code, NOT_FOUND);
        assert_eq!(server.archive_acp("4", "b", true).unwrap_err().code, NOT_FOUND);
    }
}
