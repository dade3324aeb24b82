//! Compiles a schema into nodes. Each place of the schema is compiled once, in a queue, so that nothing recurses.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::keywords::{Keywords, wrong_at};
use super::pattern::Pattern;
use super::references::{self, Target};
use super::rules::{
    ArrayRules, Choice, Contains, Dependent, Groups, Node, NodeId, NumberRules, ObjectRules, TextRules, type_of,
};
use super::{MAX_MESSAGE, escaped, listed, number, quoted, shortened};

/// The limit of schemas in schemas, as parts of a JSON Pointer.
const MAX_NESTING: usize = 500;
/// The limit of all JSON Pointers together, in bytes. Long names in nested schemas would need much memory.
const MAX_POINTERS: usize = 64 << 20;

const LATEST: &str = "https://json-schema.org/draft/2020-12/schema";
const DRAFT_7: &str = "http://json-schema.org/draft-07/schema";

type Compiled<T> = Result<T, String>;

/// A schema that is not compiled yet.
struct Waiting<'s> {
    id: NodeId,
    schema: &'s Value,
    pointer: String,
    base: Option<String>,
}

/// A reference to an anchor.
struct Anchored {
    from: NodeId,
    anchor: String,
    place: String,
}

struct Compiler<'s> {
    root: &'s Value,
    is_draft_7: bool,
    skips_patterns: bool,
    nodes: Vec<Node>,
    pointers: Vec<String>,
    /// The length of all pointers, in bytes.
    written: usize,
    places: HashMap<String, NodeId>,
    queue: Vec<Waiting<'s>>,
    anchors: HashMap<String, NodeId>,
    anchored: Vec<Anchored>,
}

/// Compiles a schema. Its node is the first.
pub(super) fn compile(schema: &Value, skips_patterns: bool) -> Compiled<Vec<Node>> {
    let Value::Object(map) = schema else {
        return Err("the schema is not a JSON Schema; expected an object".to_owned());
    };
    let is_draft_7 = is_draft_7(Keywords { map, pointer: "" })?.unwrap_or_default();
    let mut compiler = Compiler {
        root: schema,
        is_draft_7,
        skips_patterns,
        nodes: Vec::new(),
        pointers: Vec::new(),
        written: 0,
        places: HashMap::new(),
        queue: Vec::new(),
        anchors: HashMap::new(),
        anchored: Vec::new(),
    };
    compiler.enqueue(schema, String::new(), None)?;
    while let Some(waiting) = compiler.queue.pop() {
        compiler.nodes[waiting.id] = compiler.node(&waiting)?;
    }
    compiler.resolve_anchors()?;
    if let Some(id) = references::endless(&compiler.nodes) {
        let pointer = shortened(&compiler.pointers[id], MAX_MESSAGE);
        let place = if pointer.is_empty() { String::new() } else { format!(" at `{pointer}`") };
        return Err(format!("the schema{place} refers to itself for the same value, without an end"));
    }
    Ok(compiler.nodes)
}

/// Returns whether `$schema` names draft 7; nothing if it is missing.
fn is_draft_7(keywords: Keywords<'_, '_>) -> Compiled<Option<bool>> {
    let Some(draft) = keywords.text("$schema")? else { return Ok(None) };
    let path = |address: &str| {
        let address = address.trim_end_matches('#');
        address.strip_prefix("https://").or(address.strip_prefix("http://")).map(str::to_owned)
    };
    match path(draft) {
        known if known == path(LATEST) => Ok(Some(false)),
        known if known == path(DRAFT_7) => Ok(Some(true)),
        _ => Err(format!(
            "the schema names the draft {:?} at `{}`; expected {LATEST:?} or {DRAFT_7:?}",
            shortened(draft, MAX_MESSAGE),
            keywords.place("$schema")
        )),
    }
}

impl<'s> Compiler<'s> {
    /// Returns the number of the schema at a place, and compiles it later if it is new.
    fn enqueue(&mut self, schema: &'s Value, pointer: String, base: Option<String>) -> Compiled<NodeId> {
        if let Some(&id) = self.places.get(&pointer) {
            return Ok(id);
        }
        if !schema.is_object() && !schema.is_boolean() {
            return Err(wrong_at(&pointer, &format!("want boolean or object, but got {}", type_of(schema))));
        }
        if pointer.matches('/').count() > MAX_NESTING {
            return Err(format!("the schema is nested more than {MAX_NESTING} levels deep"));
        }
        self.written += pointer.len();
        if self.written > MAX_POINTERS {
            return Err("the schema is too large; expected fewer schemas, or shorter names".to_owned());
        }
        let id = self.nodes.len();
        self.nodes.push(Node::default());
        self.pointers.push(pointer.clone());
        self.places.insert(pointer.clone(), id);
        // An `$id` next to `$ref` means nothing in draft 7.
        let has_base = !(self.is_draft_7 && schema.get("$ref").is_some());
        let base = base.or_else(|| references::base_of(schema, &pointer).filter(|_| has_base));
        self.queue.push(Waiting { id, schema, pointer, base });
        Ok(id)
    }

    fn node(&mut self, at: &Waiting<'s>) -> Compiled<Node> {
        let map = match at.schema {
            Value::Object(map) => map,
            other => return Ok(Node { always: other.as_bool(), ..Node::default() }),
        };
        let keywords = Keywords { map, pointer: &at.pointer };
        keywords.check_annotations()?;
        if is_draft_7(keywords)?.is_some_and(|own| own != self.is_draft_7) {
            return Err(keywords.wrong("$schema", "a schema within the schema cannot have another draft"));
        }
        let reference = self.reference(keywords, at)?;
        self.definitions(keywords, at)?;
        let node = Node {
            always: None,
            types: keywords.types()?,
            choices: choices(keywords)?,
            reference,
            number: number_rules(keywords)?,
            text: self.text_rules(keywords)?,
            array: self.array_rules(keywords, at)?,
            object: self.object_rules(keywords, at)?,
            groups: self.groups(keywords, at)?,
            unevaluated_properties: self.since_2020("unevaluatedProperties", keywords, at)?,
            unevaluated_items: self.since_2020("unevaluatedItems", keywords, at)?,
        };
        if self.is_draft_7 && reference.is_some() {
            // Draft 7 ignores the siblings of a reference.
            return Ok(Node { reference, ..Node::default() });
        }
        Ok(node)
    }

    fn reference(&mut self, keywords: Keywords<'s, '_>, at: &Waiting<'s>) -> Compiled<Option<NodeId>> {
        for key in ["$dynamicRef", "$recursiveRef"] {
            if keywords.value(key).is_some() {
                let place = shortened(&keywords.place(key), MAX_MESSAGE);
                return Err(format!("the schema uses `{key}` at `{place}`, which is not supported; expected `$ref`"));
            }
        }
        self.note_anchors(keywords, at)?;
        let Some(target) = keywords.text("$ref")? else { return Ok(None) };
        let place = keywords.place("$ref");
        let id = self.root.get("$id").and_then(Value::as_str);
        let Some(read) = references::read(target, id) else { return Err(references::foreign(&place, target)) };
        if let Some(base) = &at.base {
            return Err(format!(
                "the schema refers to {:?} at `{}`, relative to the `$id` at `{}`; expected no `$id` there",
                shortened(target, MAX_MESSAGE),
                shortened(&place, MAX_MESSAGE),
                shortened(base, MAX_MESSAGE)
            ));
        }
        match read {
            Target::Pointer(pointer) => {
                let found = references::locate(self.root, &pointer).ok_or_else(|| missing(&place, target))?;
                self.enqueue(found.schema, found.pointer, found.base).map(Some)
            }
            Target::Anchor(anchor) => {
                self.anchored.push(Anchored { from: at.id, anchor, place });
                // The number is set when all anchors are known.
                Ok(Some(at.id))
            }
        }
    }

    fn note_anchors(&mut self, keywords: Keywords<'s, '_>, at: &Waiting<'s>) -> Compiled<()> {
        let anchors = if self.is_draft_7 {
            let own = keywords.text("$id")?.filter(|_| keywords.value("$ref").is_none());
            [own.and_then(|id| id.strip_prefix('#')), None]
        } else {
            [keywords.text("$anchor")?, keywords.text("$dynamicAnchor")?]
        };
        // Anchors below another `$id` have other addresses.
        for anchor in anchors.into_iter().flatten().filter(|_| at.base.is_none()) {
            if self.anchors.insert(anchor.to_owned(), at.id).is_some_and(|other| other != at.id) {
                let place = shortened(&at.pointer, MAX_MESSAGE);
                return Err(format!(
                    "the schema has two anchors {:?}, one at `{place}`",
                    shortened(anchor, MAX_MESSAGE)
                ));
            }
        }
        Ok(())
    }

    fn resolve_anchors(&mut self) -> Compiled<()> {
        for Anchored { from, anchor, place } in std::mem::take(&mut self.anchored) {
            let target = self.anchors.get(&anchor).ok_or_else(|| missing(&place, &format!("#{anchor}")))?;
            self.nodes[from].reference = Some(*target);
        }
        Ok(())
    }

    /// Compiles the definitions, even if nothing refers to them, because they can be wrong.
    fn definitions(&mut self, keywords: Keywords<'s, '_>, at: &Waiting<'s>) -> Compiled<()> {
        self.schema_map("definitions", keywords, at)?;
        if !self.is_draft_7 {
            self.schema_map("$defs", keywords, at)?;
            self.schema("contentSchema", keywords, at)?;
        }
        Ok(())
    }

    fn schema(&mut self, key: &str, keywords: Keywords<'s, '_>, at: &Waiting<'s>) -> Compiled<Option<NodeId>> {
        let read = |schema| self.enqueue(schema, keywords.place(key), at.base.clone());
        keywords.value(key).map(read).transpose()
    }

    /// Returns the schema of a keyword that draft 7 does not have.
    fn since_2020(&mut self, key: &str, keywords: Keywords<'s, '_>, at: &Waiting<'s>) -> Compiled<Option<NodeId>> {
        if self.is_draft_7 { Ok(None) } else { self.schema(key, keywords, at) }
    }

    fn schema_list(&mut self, key: &str, keywords: Keywords<'s, '_>, at: &Waiting<'s>) -> Compiled<Vec<NodeId>> {
        let Some(list) = keywords.list(key)? else { return Ok(Vec::new()) };
        if list.is_empty() {
            return Err(keywords.wrong(key, "minimum 1 items required, but got 0 items"));
        }
        let place = keywords.place(key);
        let read = |(n, schema)| self.enqueue(schema, format!("{place}/{n}"), at.base.clone());
        list.iter().enumerate().map(read).collect()
    }

    fn schema_map(
        &mut self,
        key: &str,
        keywords: Keywords<'s, '_>,
        at: &Waiting<'s>,
    ) -> Compiled<Vec<(&'s String, NodeId)>> {
        let place = keywords.place(key);
        let read = |(name, schema): (&'s String, &'s Value)| {
            let id = self.enqueue(schema, format!("{place}/{}", escaped(name)), at.base.clone())?;
            Ok((name, id))
        };
        keywords.object(key)?.into_iter().flatten().map(read).collect()
    }

    fn pattern(&self, regex: &str, place: &str) -> Compiled<Pattern> {
        match Pattern::new(regex) {
            Ok(pattern) => Ok(pattern),
            Err(_) if self.skips_patterns => Ok(Pattern::unread()),
            Err(reason) => Err(format!(
                "the pattern {:?} at `{}` of the schema cannot be used: {reason}",
                shortened(regex, MAX_MESSAGE),
                shortened(place, MAX_MESSAGE)
            )),
        }
    }

    fn text_rules(&mut self, keywords: Keywords<'s, '_>) -> Compiled<Option<Box<TextRules>>> {
        let length = keywords.bounds("minLength", "maxLength")?;
        let read = |regex| self.pattern(regex, &keywords.place("pattern"));
        let pattern = keywords.text("pattern")?.map(read).transpose()?;
        let is_used = length.min.is_some() || length.max.is_some() || pattern.is_some();
        Ok(is_used.then(|| Box::new(TextRules { length, pattern })))
    }

    fn array_rules(&mut self, keywords: Keywords<'s, '_>, at: &Waiting<'s>) -> Compiled<Option<Box<ArrayRules>>> {
        let is_list = self.is_draft_7 && keywords.value("items").is_some_and(Value::is_array);
        let (first, rest) = if is_list {
            (self.schema_list("items", keywords, at)?, self.schema("additionalItems", keywords, at)?)
        } else if self.is_draft_7 {
            self.schema("additionalItems", keywords, at)?;
            (Vec::new(), self.schema("items", keywords, at)?)
        } else {
            (self.schema_list("prefixItems", keywords, at)?, self.schema("items", keywords, at)?)
        };
        let contained =
            if self.is_draft_7 { Default::default() } else { keywords.bounds("minContains", "maxContains")? };
        let contains = self.schema("contains", keywords, at)?;
        let evaluates = !self.is_draft_7;
        let rules = ArrayRules {
            length: keywords.bounds("minItems", "maxItems")?,
            is_unique: keywords.flag("uniqueItems")?,
            first,
            rest,
            contains: contains.map(|item| Contains { item, bounds: contained, evaluates }),
        };
        let is_bounded = rules.length.min.is_some() || rules.length.max.is_some();
        let is_used = is_bounded || rules.is_unique || rules.has_items() || rules.contains.is_some();
        Ok(is_used.then(|| Box::new(rules)))
    }

    fn object_rules(&mut self, keywords: Keywords<'s, '_>, at: &Waiting<'s>) -> Compiled<Option<Box<ObjectRules>>> {
        let properties = self.schema_map("properties", keywords, at)?;
        let patterns = self.schema_map("patternProperties", keywords, at)?;
        let place = keywords.place("patternProperties");
        let patterns = patterns.into_iter().map(|(regex, id)| Ok((self.pattern(regex, &place)?, id)));
        let patterns = patterns.collect::<Compiled<Vec<_>>>()?;
        let rules = ObjectRules {
            length: keywords.bounds("minProperties", "maxProperties")?,
            required: keywords.names("required")?,
            dependent: self.dependent(keywords, at)?,
            properties: properties.into_iter().map(|(name, id)| (name.clone(), id)).collect(),
            patterns,
            additional: self.schema("additionalProperties", keywords, at)?,
            names: self.schema("propertyNames", keywords, at)?,
        };
        let is_bounded = rules.length.min.is_some() || rules.length.max.is_some() || !rules.required.is_empty();
        let is_used = is_bounded || rules.has_members() || !rules.dependent.is_empty() || rules.names.is_some();
        Ok(is_used.then(|| Box::new(rules)))
    }

    /// Reads `dependencies`, which newer drafts split into two keywords.
    fn dependent(&mut self, keywords: Keywords<'s, '_>, at: &Waiting<'s>) -> Compiled<Vec<(String, Dependent)>> {
        let mut found = self.dependent_names_or_schemas("dependencies", keywords, at)?;
        if !self.is_draft_7 {
            let schemas = self.schema_map("dependentSchemas", keywords, at)?;
            found.extend(schemas.into_iter().map(|(name, id)| (name.clone(), Dependent::Schema(id))));
            let place = keywords.place("dependentRequired");
            let map = keywords.object("dependentRequired")?;
            for name in map.into_iter().flat_map(Map::keys) {
                let inner = Keywords { map: map.unwrap_or(keywords.map), pointer: &place };
                found.push((name.clone(), Dependent::Names(inner.names(name)?)));
            }
        }
        Ok(found)
    }

    fn dependent_names_or_schemas(
        &mut self,
        key: &str,
        keywords: Keywords<'s, '_>,
        at: &Waiting<'s>,
    ) -> Compiled<Vec<(String, Dependent)>> {
        let Some(map) = keywords.object(key)? else { return Ok(Vec::new()) };
        let place = keywords.place(key);
        let inner = Keywords { map, pointer: &place };
        let mut found = Vec::new();
        for (name, value) in map {
            found.push(match value {
                Value::Array(_) => (name.clone(), Dependent::Names(inner.names(name)?)),
                schema => {
                    let id = self.enqueue(schema, inner.place(name), at.base.clone())?;
                    (name.clone(), Dependent::Schema(id))
                }
            });
        }
        Ok(found)
    }

    fn groups(&mut self, keywords: Keywords<'s, '_>, at: &Waiting<'s>) -> Compiled<Option<Box<Groups>>> {
        let groups = Groups {
            not: self.schema("not", keywords, at)?,
            all_of: self.schema_list("allOf", keywords, at)?,
            any_of: self.schema_list("anyOf", keywords, at)?,
            one_of: self.schema_list("oneOf", keywords, at)?,
            condition: self.schema("if", keywords, at)?,
            then: self.schema("then", keywords, at)?,
            otherwise: self.schema("else", keywords, at)?,
        };
        let has_lists = !groups.all_of.is_empty() || !groups.any_of.is_empty() || !groups.one_of.is_empty();
        let is_used = has_lists || groups.not.is_some() || groups.condition.is_some();
        Ok(is_used.then(|| Box::new(groups)))
    }
}

fn missing(place: &str, target: &str) -> String {
    let place = shortened(place, MAX_MESSAGE);
    format!("the schema refers to {:?} at `{place}`, which it does not have", shortened(target, MAX_MESSAGE))
}

/// Reads `const` and `enum`.
fn choices(keywords: Keywords<'_, '_>) -> Compiled<Vec<Choice>> {
    let is_scalar = |value: &Value| !value.is_array() && !value.is_object();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), quoted);
    let message = |values: &[Value], key: &str| match values {
        values if !values.iter().all(is_scalar) => format!("{key} failed"),
        [value] => format!("value must be {}", text(value)),
        values => format!("value must be one of {}", listed(values.iter().map(text), ", ")),
    };
    let mut found = Vec::new();
    if let Some(value) = keywords.value("const") {
        let values = std::slice::from_ref(value);
        found.push(Choice::new(values, message(values, "const")));
    }
    if let Some(values) = keywords.list("enum")? {
        found.push(Choice::new(values, message(values, "enum")));
    }
    Ok(found)
}

fn number_rules(keywords: Keywords<'_, '_>) -> Compiled<Option<Box<NumberRules>>> {
    let rules = NumberRules {
        minimum: keywords.number("minimum")?,
        maximum: keywords.number("maximum")?,
        exclusive_minimum: keywords.number("exclusiveMinimum")?,
        exclusive_maximum: keywords.number("exclusiveMaximum")?,
        multiple_of: keywords.number("multipleOf")?,
    };
    if let Some(number) = rules.multiple_of.as_ref().filter(|own| number::compare(own, &0.into()).is_le()) {
        return Err(keywords.wrong("multipleOf", &format!("must be > 0 but got {number}")));
    }
    let limits = [&rules.minimum, &rules.maximum, &rules.exclusive_minimum, &rules.exclusive_maximum];
    let is_used = limits.into_iter().any(Option::is_some) || rules.multiple_of.is_some();
    Ok(is_used.then(|| Box::new(rules)))
}
