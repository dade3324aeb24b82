//! The calls of the web API by the short names that scripts use, for example `prompt`, `cancel` and `new`.

const SESSIONS: &str = "/api/v1/sessions";

/// A call about a session, or a call that creates or lists sessions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Route<'a> {
    pub(crate) name: &'static str,
    pub(crate) session: &'a str,
    /// The prompt, approval, question or skill that the call names.
    pub(crate) item: &'a str,
    pub(crate) query: &'a str,
}

impl<'a> Route<'a> {
    /// Reads a verb and a path, for example `POST /api/v1/sessions/S/prompts`.
    pub(crate) fn parse(method: &'a str) -> Option<Self> {
        let (verb, path) = method.split_once(' ')?;
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let rest = path.strip_prefix(SESSIONS)?;
        let post = match verb {
            "POST" => true,
            "GET" => false,
            _ => return None,
        };
        if rest.is_empty() {
            return Some(Self { name: if post { "new" } else { "list" }, session: "", item: "", query });
        }
        let rest = rest.strip_prefix('/')?;
        let (session, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let (session, verb) = session.split_once(':').unwrap_or((session, ""));
        let (what, item) = rest.split_once('/').unwrap_or((rest, ""));
        let (item, item_verb) = item.split_once(':').unwrap_or((item, ""));
        let name = match (post, verb, what, item_verb) {
            (true, "fork", "", "") => "fork",
            (true, "undo", "", "") => "undo",
            (true, "abort", "", "") => "cancel",
            (true, "compact", "", "") => "compact",
            (true, "archive", "", "") => "archive",
            (true, "delete", "", "") => "delete",
            (false, "", "", "") => "session",
            (true, "", "profile", "") => "profile",
            (true, "", "prompts", "") if item.is_empty() => "prompt",
            (true, "", "prompts:steer", "") => "steer",
            (true, "", "prompts", "abort") => "cancel",
            (true, "", "approvals", "") => "approval",
            (true, "", "questions", "") => "question",
            (true, "", "questions", "dismiss") => "dismiss",
            (true, "", "skills", "activate") => "activate",
            (false, "", "status", "") => "status",
            (false, "", "snapshot", "") => "snapshot",
            (false, "", "transcript", "") => "transcript",
            (false, "", "messages", "") => "messages",
            (false, "", "approvals", "") => "approvals",
            (false, "", "questions", "") => "questions",
            (false, "", "skills", "") => "skills",
            _ => return None,
        };
        Some(Self { name, session, item, query })
    }

    /// Returns whether the call resumes a session that is stored and not open.
    #[cfg(feature = "web")]
    pub(crate) fn resumes(&self) -> bool {
        matches!(self.name, "status" | "messages" | "approvals" | "prompt" | "profile" | "undo" | "skills" | "activate")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_parsed_with_session_and_item() {
        for (method, name, session, item) in [
            ("POST /api/v1/sessions", "new", "", ""),
            ("GET /api/v1/sessions?page_size=5", "list", "", ""),
            ("POST /api/v1/sessions/s:fork", "fork", "s", ""),
            ("POST /api/v1/sessions/s/prompts", "prompt", "s", ""),
            ("POST /api/v1/sessions/s/prompts:steer", "steer", "s", ""),
            ("POST /api/v1/sessions/s/prompts/p:abort", "cancel", "s", "p"),
            ("POST /api/v1/sessions/s/questions/q:dismiss", "dismiss", "s", "q"),
            ("GET /api/v1/sessions/s/transcript?agent_id=main", "transcript", "s", ""),
            ("POST /api/v1/sessions/s/skills/a.b:activate", "activate", "s", "a.b"),
        ] {
            let query = method.split_once('?').map_or("", |(_, query)| query);
            assert_eq!(Route::parse(method), Some(Route { name, session, item, query }), "{method}");
        }
        for method in ["GET /api/v1/meta", "POST /api/v1/sessions/s/nope", "DELETE /api/v1/sessions", "prompt"] {
            assert_eq!(Route::parse(method), None, "{method}");
        }
    }
}
