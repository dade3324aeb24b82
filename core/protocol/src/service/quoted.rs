//! Reads the HTTP statuses and the delays that errors quote.

use std::sync::LazyLock;
use std::time::Duration;

use regex_lite::Regex;
use serde_json::Value;

use super::prefix;

/// The limit of a delay. No service asks for a longer one, so a longer one is not a delay.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);
/// Plurals behind a number that is a count and not a status. Services use other plurals behind a status.
const COUNTED: [&str; 14] = [
    "bytes",
    "characters",
    "entries",
    "files",
    "lines",
    "matches",
    "results",
    "rows",
    "seconds",
    "steps",
    "tests",
    "tokens",
    "warnings",
    "words",
];
/// The numbers that are years, if they have no unit.
const YEARS: std::ops::Range<f64> = 1970.0..2200.0;

/// Returns the HTTP status that a message quotes, such as `Error code: 429 - {…}`, `API Error: 529 Overloaded` or
/// `503 Service Unavailable`.
pub(crate) fn quoted_status(message: &str) -> Option<u16> {
    static STATUS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let before = r"^|\bstatus(?:[ _]?code)?\W{1,4}|\bcode\W{1,4}|(?:\b|_)error\W{1,4}|\bHTTP(?:/[\d.]+)?\W{1,3}|\bfailed\W{1,3}|\b(?:responded|returned)(?: with)?\W{1,3}|\bprovider \(\w+\)\W{1,3}";
        let after = r"$|[^\w.%-]";
        let reason = r"(?:bad request|unauthorized|forbidden|not found|conflict|too many|internal server|bad gateway|service unavailable|gateway time)";
        Regex::new(&format!(r"(?i)(?:(?:{before})([45]\d\d)(?:{after})|\b([45]\d\d) {reason})")).ok()
    });
    let message = prefix(message);
    STATUS.as_ref()?.captures_iter(message).find_map(|found| {
        let number = found.get(1).or_else(|| found.get(2))?;
        let before = message[..found.get(0)?.start()].trim_end().to_lowercase();
        let is_exit = before.ends_with("exit") || before.ends_with("exited with");
        (!is_exit && !is_count(&message[number.end()..])).then(|| number.as_str().parse().ok())?
    })
}

/// Returns whether the text after a number says what it counts, such as ` files skipped`.
fn is_count(after: &str) -> bool {
    let Some(after) = after.strip_prefix(' ') else { return false };
    let word = &after[..after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len())];
    COUNTED.contains(&word)
}

/// Returns the delay that a message quotes, such as `Please retry in 36.5s`, `try again in 3 days 4 hours` or `retry-after: 30`.
/// `None` if it is a time of day or a date, or has another unit.
pub(super) fn quoted_delay(text: &str) -> Option<Duration> {
    static DELAY: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let before = r"re-?try|try again|wait|resets? (?:after|in)\b";
        Regex::new(&format!(r"(?i)\b(?:{before})[\w -]{{0,16}}?([ :=\x22']{{1,4}})(\d[^\n]{{0,63}})")).ok()
    });
    let found = DELAY.as_ref()?.captures(text)?;
    let is_named = found.get(1)?.as_str().contains([':', '=']);
    span(found.get(2)?.as_str(), is_named)
}

/// Reads a time such as `36.5s`, `2h30m12s` or `3 days 4 hours`, with anything behind it.
fn span(text: &str, may_be_year: bool) -> Option<Duration> {
    let mut rest = text;
    let mut seconds = None;
    while rest.starts_with(|first: char| first.is_ascii_digit()) {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len()));
        let number: f64 = number.trim_end_matches('.').parse().ok()?;
        let spaced = after.strip_prefix(' ').unwrap_or(after);
        let (unit, others) = spaced.split_at(spaced.find(|c: char| !c.is_alphabetic()).unwrap_or(spaced.len()));
        let unit = match &*unit.to_lowercase() {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            "" if !may_be_year && YEARS.contains(&number) => return None,
            "" if seconds.is_none() && !after.starts_with([':', '-', '/']) => 1.0,
            _ => return None,
        };
        seconds = Some(seconds.unwrap_or(0.0) + number * unit);
        let next = others.trim_start_matches([' ', ',']);
        rest = next.strip_prefix("and ").unwrap_or(next);
    }
    bounded(seconds?)
}

fn bounded(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|delay| *delay <= LONGEST)
}

/// Reads a delay: a number, a text such as `30` or `36.5s`, an object with `seconds`, or a list with one of them. `date` is the time of the answer, which
/// a delay that is a date needs.
pub(super) fn delay_member(value: &Value, unit: f64, date: Option<&str>) -> Option<Duration> {
    match value {
        Value::String(text) => match text.trim().parse::<f64>() {
            Ok(number) => bounded(number * unit),
            // `PT7S` is a duration of ISO 8601.
            Err(_) => span(text.trim().trim_start_matches("PT"), true).or_else(|| {
                let (until, from) = (http_date(text.trim())?, http_date(date?.trim())?);
                bounded(until.checked_sub(from)? as f64)
            }),
        },
        Value::Array(items) => {
            items.first().filter(|item| !item.is_array()).and_then(|item| delay_member(item, unit, date))
        }
        // Protocol buffers have durations of this form.
        Value::Object(members) => {
            let part = |name: &str| members.get(name).and_then(Value::as_f64);
            let seconds = part("seconds").or_else(|| members.get("seconds")?.as_str()?.trim().parse().ok())?;
            bounded(seconds + part("nanos").unwrap_or(0.0) * 1e-9)
        }
        other => bounded(other.as_f64()? * unit),
    }
}

/// Reads a date such as `Wed, 30 Nov 2026 23:59:00 GMT` (RFC 9110). Returns the seconds since the year 0.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, text) = text.strip_suffix(" GMT")?.split_once(", ")?;
    let mut words = text.split(' ');
    let day: u64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let name = words.next()?;
    let month = MONTHS.iter().position(|month| *month == name)?;
    let year: u64 = words.next()?.parse().ok().filter(|year| YEARS.contains(&(*year as f64)))?;
    let mut time = words.next()?.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    // Days of the years and months before, with the leap day at the end of the year.
    let (year, month) = if month < 2 { (year - 1, month as u64 + 10) } else { (year, month as u64 - 2) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (306 * month + 5) / 10 + day;
    Some(days * 86_400 + hour.min(24) * 3600 + minute.min(60) * 60 + second.min(60))
}
