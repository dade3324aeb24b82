//! Comparison of numbers by their mathematical value, and of values.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// A whole number that `f64` represents exactly fits below this bound into `i128`.
const LARGE: f64 = 1e38;

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn float(number: &Number) -> f64 {
    number.as_f64().or_else(|| number.to_string().parse().ok()).unwrap_or(f64::NAN)
}

/// Returns whether a number has no fraction.
pub(super) fn is_whole(number: &Number) -> bool {
    whole(number).is_some() || float(number).fract() == 0.0
}

/// Compares two numbers exactly.
pub(super) fn compare(a: &Number, b: &Number) -> Ordering {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => compare_mixed(a, float(b)),
        (None, Some(b)) => compare_mixed(b, float(a)).reverse(),
        (None, None) => float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal),
    }
}

fn compare_mixed(a: i128, b: f64) -> Ordering {
    if b.abs() >= LARGE {
        return if b > 0.0 { Ordering::Less } else { Ordering::Greater };
    }
    let floor = b.floor();
    a.cmp(&(floor as i128)).then(if b > floor { Ordering::Less } else { Ordering::Equal })
}

/// Returns whether a number is a multiple of another one in decimal notation: 0.3 is a multiple of 0.1.
pub(super) fn is_multiple(number: &Number, of: &Number) -> bool {
    let exact = decimal(number).zip(decimal(of)).and_then(|((a, a_power), (b, b_power))| {
        let power = a_power.min(b_power);
        let scaled = |digits: i128, own: i32| {
            let zeros = u32::try_from(own.checked_sub(power)?).ok()?;
            digits.checked_mul(10_i128.checked_pow(zeros)?)
        };
        scaled(a, a_power)?.checked_rem(scaled(b, b_power)?)
    });
    exact.map_or_else(|| float(number) % float(of) == 0.0, |rest| rest == 0)
}

/// Returns the digits and the power of ten.
fn decimal(number: &Number) -> Option<(i128, i32)> {
    let text = number.to_string();
    let (mantissa, power) = match text.split_once(['e', 'E']) {
        Some((mantissa, power)) => (mantissa, power.parse().ok()?),
        None => (text.as_str(), 0_i32),
    };
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let after = after.trim_end_matches('0');
    Some((format!("{before}{after}").parse().ok()?, power.checked_sub(i32::try_from(after.len()).ok()?)?))
}

/// Returns whether two values are equal. Numbers are equal if their mathematical values are.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b) == Ordering::Equal,
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Returns a text that is the same for equal values only.
pub(super) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Number(number) => match whole(number) {
            Some(whole) => text.push_str(&whole.to_string()),
            None if is_whole(number) && float(number).abs() < LARGE => {
                text.push_str(&(float(number) as i128).to_string());
            }
            None => text.push_str(&float(number).to_string()),
        },
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (key, value) in members {
                text.push_str(&format!("{key:?}:"));
                write_canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        // Quotation marks distinguish texts from other values.
        Value::String(own) => text.push_str(&format!("{own:?}")),
        other => text.push_str(&other.to_string()),
    }
}
