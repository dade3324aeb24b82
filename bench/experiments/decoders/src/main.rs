//! Decodes one line that brings a piece of text in several ways: `decoders WAY wire|acp TIMES [spaced]`. `count.py` counts what
//! each takes; docs/explanation/decisions/one-decoder.md has the result.

#![allow(dead_code, reason = "decoding is what is measured")]

use agent_client_protocol_schema::v1 as acp;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::hint::black_box;

#[path = "../../../../core/protocol/src/json/scan.rs"]
mod scan;

const WIRE: &str =
    r#"{"jsonrpc":"2.0","method":"event","params":{"type":"ContentPart","payload":{"type":"text","text":" word1"}}}"#;
const ACP: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"session-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":" word1"}}}}"#;

pub struct Key<'de>(pub Cow<'de, str>);
impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, t: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(t)))
            }
            fn visit_str<E>(self, t: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(t.to_owned())))
            }
        }
        d.deserialize_str(V)
    }
}

// ---- rivals
#[derive(Deserialize)]
struct HandLine<'a> {
    #[serde(borrow)]
    method: Option<&'a str>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    params: Option<HandMessage>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}
#[derive(Deserialize)]
#[serde(tag = "type", content = "payload")]
#[allow(dead_code, reason = "decoding is what is measured")]
enum HandMessage {
    TurnBegin { user_input: String },
    TurnEnd {},
    ContentPart(HandPart),
    ToolCallPart { arguments_part: Option<String> },
}
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(dead_code, reason = "decoding is what is measured")]
enum HandPart {
    Text { text: String },
    Think { think: String },
}
#[derive(Deserialize)]
struct AcpHandLine<'a> {
    params: Option<acp::SessionNotification>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

// ---- the envelope by serde: params as a slice
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Key<'a>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}
// ---- the envelope by serde, the members of params as slices: one scan
#[derive(Default)]
struct Params<'a> {
    kind: Option<Key<'a>>,
    payload: Option<&'a RawValue>,
    session: Option<Key<'a>>,
    update: Option<&'a RawValue>,
}
impl<'de: 'a, 'a> Deserialize<'de> for Params<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Params<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Params<'de>, A::Error> {
                let mut p = Params::default();
                while let Some(key) = map.next_key::<Key<'de>>()? {
                    match &*key.0 {
                        "type" => p.kind = Some(map.next_value()?),
                        "payload" => p.payload = Some(map.next_value()?),
                        "sessionId" => p.session = Some(map.next_value()?),
                        "update" => p.update = Some(map.next_value()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(p)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut s: A) -> Result<Params<'de>, A::Error> {
                while s.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Params::default())
            }
            fn visit_unit<E>(self) -> Result<Params<'de>, E> {
                Ok(Params::default())
            }
        }
        d.deserialize_any(V)
    }
}
#[derive(Deserialize)]
struct Members2<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Key<'a>>,
    #[serde(borrow, default)]
    params: Option<Params<'a>>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}
#[derive(Deserialize)]
struct WireParams<'a> {
    #[serde(borrow, rename = "type")]
    kind: Key<'a>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}
#[derive(Deserialize)]
struct AcpParams<'a> {
    #[serde(borrow, rename = "sessionId")]
    session: Key<'a>,
    #[serde(borrow)]
    update: &'a RawValue,
}

/// What a text part is decoded to in one pass, whatever the order of its keys.
struct Part {
    text: Option<String>,
    extra: usize,
}
impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Part;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Part, A::Error> {
                let (mut text, mut kind, mut extra) = (None, None, 0);
                while let Some(key) = map.next_key::<Key<'de>>()? {
                    match &*key.0 {
                        "type" => kind = Some(map.next_value::<Key<'de>>()?),
                        "text" => text = Some(map.next_value::<String>()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            extra += 1;
                        }
                    }
                }
                if kind.is_none_or(|k| k.0 != "text") {
                    return Err(serde::de::Error::custom("no text"));
                }
                Ok(Part { text, extra })
            }
        }
        d.deserialize_map(V)
    }
}
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, rename = "sessionUpdate")]
    kind: Key<'a>,
    content: Part,
}

// ---- serde, one pass: params decoded by the method before them
struct OnePass<'a> {
    method: Option<Key<'a>>,
    part: Option<Part>,
    session: Option<Key<'a>>,
}
impl<'de: 'a, 'a> Deserialize<'de> for OnePass<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        #[derive(Deserialize)]
        struct W<'a> {
            #[serde(borrow, rename = "type")]
            kind: Key<'a>,
            payload: Part,
        }
        #[derive(Deserialize)]
        struct U<'a> {
            #[serde(borrow, rename = "sessionId")]
            session: Key<'a>,
            #[serde(borrow)]
            update: Chunk<'a>,
        }
        impl<'de> Visitor<'de> for V {
            type Value = OnePass<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OnePass<'de>, A::Error> {
                let mut o = OnePass { method: None, part: None, session: None };
                while let Some(key) = map.next_key::<Key<'de>>()? {
                    match &*key.0 {
                        "method" => o.method = Some(map.next_value()?),
                        "params" => match o.method.as_ref().map(|m| &*m.0) {
                            Some("event") => {
                                let w: W<'de> = map.next_value()?;
                                black_box(&w.kind.0);
                                o.part = Some(w.payload);
                            }
                            _ => {
                                let w: U<'de> = map.next_value()?;
                                black_box(&w.update.kind.0);
                                o.session = Some(w.session);
                                o.part = Some(w.update.content);
                            }
                        },
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(o)
            }
        }
        d.deserialize_map(V)
    }
}

fn sonic(line: &str, acp: bool) {
    use sonic_rs::{JsonValueTrait, LazyValue};
    let mut method = None;
    let mut params = None;
    for pair in sonic_rs::to_object_iter(line) {
        let (k, v): (_, LazyValue<'_>) = pair.unwrap();
        match &*k {
            "method" => method = Some(v),
            "params" => params = Some(v),
            _ => {
                black_box(&v);
            }
        }
    }
    let method = method.unwrap();
    black_box(method.as_str());
    let params = params.unwrap();
    let (mut kind, mut payload) = (None, None);
    for pair in sonic_rs::to_object_iter(params.as_raw_str()) {
        let (k, v) = pair.unwrap();
        match &*k {
            "type" | "sessionId" => kind = Some(v),
            "payload" | "update" => payload = Some(v),
            _ => {}
        }
    }
    black_box(kind.unwrap().as_str());
    let raw = payload.unwrap();
    if acp {
        let c: Chunk<'_> = sonic_rs::from_str(raw.as_raw_str()).unwrap();
        black_box(c.content.text);
    } else {
        let c: Part = sonic_rs::from_str(raw.as_raw_str()).unwrap();
        black_box(c.text);
    }
}

fn scanner(line: &str, acp: bool) -> Result<(), scan::NotJson> {
    let (mut kind, mut payload) = (None, None);
    scan::Scanner::new(line).object(|name, scanner| match name.written() {
        "params" => scanner.object(|name, scanner| {
            let value = scanner.value()?;
            match name.written() {
                "payload" | "update" => payload = Some(value),
                _ => kind = Some(value),
            }
            Ok(())
        }),
        _ => scanner.value().map(|value| drop(black_box(value))),
    })?;
    black_box(kind.and_then(scan::text_of));
    let mut payload = payload.ok_or(scan::NotJson)?;
    if acp {
        scan::for_each_member(payload, |name, value| {
            if name.written() == "content" {
                payload = value;
            }
            Ok(())
        })?;
    }
    black_box(scan::plain_text_part(payload).ok_or(scan::NotJson)?);
    Ok(())
}

fn walk(way: &str, line: &'static str, is_acp: bool) {
    let line = black_box(line);
    match way {
        "hand" if !is_acp => {
            black_box(serde_json::from_slice::<HandLine<'_>>(line.as_bytes()).unwrap().params.is_some());
        }
        "hand" => {
            black_box(serde_json::from_slice::<AcpHandLine<'_>>(line.as_bytes()).unwrap().params.is_some());
        }
        "skip" => {
            black_box(serde_json::from_str::<&RawValue>(line).unwrap());
        }
        "utf8" => {
            black_box(std::str::from_utf8(line.as_bytes()).unwrap());
        }
        "envelope" => {
            black_box(serde_json::from_str::<Members<'_>>(line).unwrap().params.unwrap());
        }
        "envelope2" => {
            black_box(serde_json::from_str::<Members2<'_>>(line).unwrap().params.unwrap());
        }
        "serde3" => {
            let m: Members<'_> = serde_json::from_str(std::str::from_utf8(line.as_bytes()).unwrap()).unwrap();
            black_box(&m.method);
            if is_acp {
                let p: AcpParams<'_> = serde_json::from_str(m.params.unwrap().get()).unwrap();
                black_box(&p.session.0);
                let c: Chunk<'_> = serde_json::from_str(p.update.get()).unwrap();
                black_box(c.content.text);
            } else {
                let p: WireParams<'_> = serde_json::from_str(m.params.unwrap().get()).unwrap();
                black_box(&p.kind.0);
                let c: Part = serde_json::from_str(p.payload.unwrap().get()).unwrap();
                black_box(c.text);
            }
        }
        "serde2" => {
            let m: Members2<'_> = serde_json::from_str(std::str::from_utf8(line.as_bytes()).unwrap()).unwrap();
            black_box(&m.method);
            let p = m.params.unwrap();
            if is_acp {
                black_box(&p.session);
                let c: Chunk<'_> = serde_json::from_str(p.update.unwrap().get()).unwrap();
                black_box(c.content.text);
            } else {
                black_box(&p.kind);
                let c: Part = serde_json::from_str(p.payload.unwrap().get()).unwrap();
                black_box(c.text);
            }
        }
        "serde1" => {
            let o: OnePass<'_> = serde_json::from_str(std::str::from_utf8(line.as_bytes()).unwrap()).unwrap();
            black_box((o.method.is_some(), o.session.is_some()));
            black_box(o.part.unwrap().text);
        }
        "sonic" => sonic(std::str::from_utf8(line.as_bytes()).unwrap(), is_acp),
        "sonic1" => {
            let o: OnePass<'_> = sonic_rs::from_slice(line.as_bytes()).unwrap();
            black_box((o.method.is_some(), o.session.is_some()));
            black_box(o.part.unwrap().text);
        }
        "scanner" => scanner(std::str::from_utf8(line.as_bytes()).unwrap(), is_acp).unwrap(),
        "simd" => {
            let mut bytes = line.as_bytes().to_vec();
            let o: OnePass<'_> = simd_json::from_slice(&mut bytes).unwrap();
            black_box((o.method.is_some(), o.session.is_some()));
            black_box(o.part.unwrap().text);
        }
        other => panic!("{other}"),
    }
}
fn main() {
    let args: Vec<_> = std::env::args().collect();
    let times: usize = args[3].parse().unwrap();
    let spaced: bool = args.get(4).is_some();
    let is_acp = args[2] == "acp";
    let line: &'static str = if is_acp { ACP } else { WIRE };
    let line: &'static str =
        if spaced { String::leak(line.replace("\":", "\": ").replace(",\"", ", \"")) } else { line };
    for _ in 0..times {
        walk(&args[1], line, is_acp);
    }
}
