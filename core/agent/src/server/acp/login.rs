//! The login that the script describes: sessions are refused until the client has called `authenticate`.

use serde_json::{Value, json};

use super::super::super::types::Failure;
use super::super::Server;
use super::{INVALID_PARAMS, UNAUTHORISED};

const INTERNAL: i64 = -32603;

fn needs_terminal(method: &Value) -> bool {
    method["type"] == "terminal"
}

impl Server {
    /// Returns the ways to log in. Those for a terminal are for clients that run them.
    pub(super) fn login_methods(&self, params: &Value) -> Vec<Value> {
        let has_terminal = params["clientCapabilities"]["auth"]["terminal"] == true;
        let methods = self.profile.login.methods.iter().filter(|method| has_terminal || !needs_terminal(method));
        methods.cloned().collect()
    }

    /// Refuses a call about a session until the client has logged in, if the script says so.
    pub(super) fn check_login(&self, method: &str) -> Result<(), Failure> {
        let is_refused =
            self.profile.login.is_required && method.starts_with("session/") && !self.acp.sessions.has_login();
        if is_refused { Err(Failure::new(UNAUTHORISED, "Authentication required")) } else { Ok(()) }
    }

    /// Logs in, if the way exists and one of its variables is set.
    pub(super) fn authenticate(&mut self, id: &str, way: &str) -> Result<(), Failure> {
        let login = &self.profile.login;
        if !login.methods.iter().any(|method| method["id"] == way && !needs_terminal(method)) {
            return Err(Failure::new(INVALID_PARAMS, format!("Invalid params: unknown method {way}")));
        }
        let variables = login.variables.iter().filter(|(id, _)| id == way).flat_map(|(_, names)| names);
        let variables: Vec<&str> = variables.map(String::as_str).collect();
        let has_key = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if !variables.is_empty() && !variables.iter().any(has_key) {
            return Err(Failure::new(INTERNAL, format!("{} is not set", variables.join(" or "))));
        }
        self.acp.sessions.log_in();
        self.respond(id, json!({}));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::super::types::Profile;
    use super::*;

    fn server() -> Server {
        let mut profile = Profile::acp("it", "1.0");
        profile.login.is_required = true;
        profile.login.methods = vec![json!({"id": "key", "name": "Key"}), json!({"id": "tty", "type": "terminal"})];
        profile.login.variables = vec![("key".to_owned(), vec!["KIMI_TEST_NO_SUCH_KEY".to_owned()])];
        Server::new(profile)
    }

    #[test]
    fn session_needs_login() {
        let mut server = server();
        assert_eq!(server.check_login("initialize"), Ok(()));
        assert_eq!(server.check_login("session/new").unwrap_err().code, UNAUTHORISED);
        assert_eq!(server.authenticate("1", "tty").unwrap_err().code, INVALID_PARAMS);
        let missing = server.authenticate("1", "key").unwrap_err();
        assert_eq!((missing.code, &*missing.message), (INTERNAL, "KIMI_TEST_NO_SUCH_KEY is not set"));
        server.profile.login.variables.clear();
        assert_eq!(server.authenticate("1", "key"), Ok(()));
        assert_eq!(server.check_login("session/new"), Ok(()));
    }

    #[test]
    fn terminal_login_needs_client_terminal() {
        let offered = |params: Value| server().login_methods(&params).len();
        assert_eq!(offered(json!({"clientCapabilities": {}})), 1);
        assert_eq!(offered(json!({"clientCapabilities": {"auth": {"terminal": true}}})), 2);
    }
}
