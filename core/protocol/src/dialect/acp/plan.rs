//! The plan of an agent: a list of entries (`plan`), or one of several plans with ids (`plan_update`, `plan_removed`), each
//! of which is a list of entries or a text.

use crate::json::scan::{for_each_member, text_of};
use crate::messages::{Event, Extra, Json, Plan, PlanDisplay, PlanEntry, decode_body, value};

/// Reads an update of a plan. `None` for other updates. The error says which member cannot be read.
pub(super) fn read(kind: &str, update: &str) -> Option<Result<Event, String>> {
    Some(match kind {
        "plan" => Members::read(update).and_then(Members::entries).map(Event::from),
        "plan_update" => updated(update),
        "plan_removed" => Members::read(update).and_then(|members| {
            let plan_id = Some(members.plan_id.ok_or(NO_ID)?);
            Ok(Plan { plan_id, removed: Some(true), extra: members.extra, ..Plan::default() }.into())
        }),
        _ => return None,
    })
}

const NO_ID: &str = "planId: missing, or not a string";

fn updated(update: &str) -> Result<Event, String> {
    let mut inner = None;
    let found = for_each_member(update, |name, value| {
        if name.decode().as_deref() == Some("plan") {
            inner = Some(value);
        }
        Ok(())
    });
    let members = Members::read(inner.filter(|_| found.is_ok()).ok_or("missing field `plan`")?)?;
    let plan_id = members.plan_id.clone().ok_or(NO_ID)?;
    match members.kind.as_deref() {
        Some("items") => members.entries().map(Event::from),
        Some("markdown") => {
            let mut extra = members.extra;
            let text = |extra: &mut Extra, name: &str| {
                let text = extra.get(name)?.as_str()?.to_owned();
                extra.remove(name).map(|_| text)
            };
            let content = text(&mut extra, "content").ok_or("content: missing, or not a string")?;
            let file_path = text(&mut extra, "path").unwrap_or_default();
            extra.insert("plan_id", plan_id.into());
            Ok(PlanDisplay { content, file_path, extra }.into())
        }
        kind => Err(format!("type: unknown variant `{}`, expected `items` or `markdown`", kind.unwrap_or_default())),
    }
}

/// The members of a plan.
#[derive(Default)]
struct Members {
    kind: Option<String>,
    plan_id: Option<String>,
    entries: Option<Json>,
    /// The others.
    extra: Extra,
}

impl Members {
    fn read(object: &str) -> Result<Self, String> {
        let mut members = Self::default();
        let read = for_each_member(object, |name, value| {
            let text = || text_of(value).map(String::from);
            match name.decode().as_deref() {
                // The dialect adds the metadata of the update.
                Some("sessionUpdate" | "_meta") | None => {}
                Some("type") => members.kind = text(),
                Some("planId") => members.plan_id = text(),
                Some("entries") => members.entries = Some(Json::from_text(value)),
                Some(name) => value::keep_unknown(&mut members.extra, name.to_owned(), Json::from_text(value)),
            }
            Ok(())
        });
        read.map(|()| members).map_err(|_| "plan: not an object".to_owned())
    }

    /// Returns the plan with its readable entries. Others are in the unknown fields.
    fn entries(self) -> Result<Plan, String> {
        let raw = self.entries.ok_or("missing field `entries`")?;
        let list: Vec<Json> = raw.decode().map_err(|error| format!("entries: {error}"))?;
        let mut plan = Plan { plan_id: self.plan_id, extra: self.extra, ..Plan::default() };
        let (mut problem, mut unreadable) = (None, Vec::new());
        for (at, entry) in list.iter().enumerate() {
            match decode_body::<PlanEntry>(entry.get()) {
                Ok(entry) => plan.entries.push(entry),
                Err(error) => {
                    problem = problem.or_else(|| Some(format!("entries[{at}]: {error}")));
                    unreadable.push(entry.get());
                }
            }
        }
        match problem {
            Some(problem) if plan.entries.is_empty() => Err(problem),
            Some(problem) => {
                tracing::debug!(%problem, "unreadable entries of a plan left out");
                let unreadable = Json::from_text(&format!("[{}]", unreadable.join(",")));
                value::keep_unknown(&mut plan.extra, "unreadable_entries".to_owned(), unreadable);
                Ok(plan)
            }
            None => Ok(plan),
        }
    }
}
