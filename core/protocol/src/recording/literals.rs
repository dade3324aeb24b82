//! The fixed texts that a redactor replaces: secrets and directories, as JSON spells them.

use super::keys::is_of_name;

/// A text that is replaced.
pub(super) struct Literal {
    pub(super) text: Box<[u8]>,
    pub(super) replacement: Box<str>,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Secret,
    /// A path, or its form in names of folders, which is not a part of a longer name.
    Path,
    /// The whole name of a folder between separators. A shorter condition would find it in ordinary text.
    Folder,
    /// The beginning of a text that looks like a placeholder.
    Placeholder,
}

impl Literal {
    /// Returns whether the text may come after this byte, or after none.
    pub(super) fn may_follow(&self, before: Option<u8>) -> bool {
        match self.kind {
            Kind::Secret | Kind::Placeholder => true,
            Kind::Folder => before.is_some_and(|byte| matches!(byte, b'/' | b'\\')),
            Kind::Path => self.text[0] == b'-' || before.is_none_or(|byte| !is_of_name(byte) && byte != b'.'),
        }
    }

    /// Returns whether the text ends in front of `after`: `/home/u` is a part of `/home/user`.
    pub(super) fn may_end(&self, after: &[u8]) -> bool {
        match (self.kind, after) {
            (Kind::Secret, _) | (_, []) => true,
            (Kind::Placeholder, [next, ..]) => matches!(next, b'}' | b':'),
            (Kind::Folder, [next, ..]) => matches!(next, b'/' | b'\\'),
            (Kind::Path, [b'.', next, ..]) => !is_of_name(*next),
            (Kind::Path, [next, ..]) => !is_of_name(*next) || self.text[0] == b'-' && *next == b'-',
        }
    }
}

/// The texts that a redactor replaces.
pub(super) struct Literals {
    /// In the order of their first bytes, and the longest first of those with the same one.
    list: Vec<Literal>,
    /// For each first byte, the index of the first literal with this byte or a later one.
    starts: Box<[usize; 257]>,
}

impl Default for Literals {
    fn default() -> Self {
        Self { list: Vec::new(), starts: Box::new([0; 257]) }
    }
}

impl Literals {
    /// Adds a text in the ways in which JSON spells it, also as text in a text.
    pub(super) fn add(&mut self, text: &str, replacement: &str, kind: Kind) {
        let once = escaped(text);
        let spelled = |text: &str| {
            let html = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
            [escaped_ascii(text, false), escaped_ascii(text, true), text.replace('/', "\\/"), html]
        };
        let mut forms: Vec<String> = spelled(&once).into_iter().chain([once]).collect();
        let twice: Vec<String> = forms.iter().map(|form| escaped(form)).collect();
        forms.extend(twice.iter().map(|form| escaped_ascii(form, false)));
        forms.extend(twice.into_iter().chain([text.to_owned()]));
        forms.sort();
        forms.dedup();
        for form in forms {
            let (text, replacement) = (form.into_bytes().into(), replacement.into());
            self.list.push(Literal { text, replacement, kind });
        }
    }

    /// Sorts the literals, so that few of them are compared with a text. Of equal literals, the first is kept.
    pub(super) fn sort(&mut self) {
        let first = |literal: &Literal| literal.text.first().copied().unwrap_or_default();
        self.list.sort_by(|one, other| {
            let lengths = other.text.len().cmp(&one.text.len());
            first(one).cmp(&first(other)).then(lengths).then_with(|| one.text.cmp(&other.text))
        });
        self.list.dedup_by(|next, one| next.text == one.text);
        for (byte, start) in self.starts.iter_mut().enumerate() {
            *start = self.list.partition_point(|literal| usize::from(first(literal)) < byte);
        }
    }

    /// Returns the literals that begin with a byte, the longest first.
    pub(super) fn of(&self, first: u8) -> &[Literal] {
        let first = usize::from(first);
        &self.list[self.starts[first]..self.starts[first + 1]]
    }

    /// Returns whether a text is a spelling of a secret.
    pub(super) fn has_secret(&self, text: &[u8]) -> bool {
        self.secrets_from(text).any(|known| known == text)
    }

    /// Returns whether a spelling of a secret begins with a text.
    pub(super) fn may_begin(&self, text: &[u8]) -> bool {
        self.secrets_from(text).any(|known| known.starts_with(text))
    }

    fn secrets_from(&self, text: &[u8]) -> impl Iterator<Item = &[u8]> {
        let literals = text.first().map_or(&[][..], |first| self.of(*first)).iter();
        literals.filter(|literal| literal.kind == Kind::Secret).map(|literal| &*literal.text)
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Literal> {
        self.list.iter()
    }
}

/// Returns a text as it is in JSON, without the quotation marks.
fn escaped(text: &str) -> String {
    let json = serde_json::to_string(text).unwrap_or_default();
    json.get(1..json.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

/// Escapes everything that is not ASCII, as Python does, or with capital letters.
fn escaped_ascii(text: &str, is_upper: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii() {
            out.push(letter);
            continue;
        }
        let mut units = [0; 2];
        for unit in letter.encode_utf16(&mut units) {
            out.push_str(&if is_upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") });
        }
    }
    out
}
