//! An index of the rules for files of one kind.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use crate::glob::Ends;
use crate::path::{FilePath, PathPattern};
use crate::pieces::Pieces;
use crate::rule::Rule;
use crate::rules::Counts;

/// Rules for files by what is in their globs.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathIndex {
    all: Vec<usize>,
    /// Rules by the name of a folder or file that every path which matches has.
    by_name: HashMap<String, Vec<usize>>,
    /// Rules by a text in such a name.
    by_piece: Pieces<Vec<usize>>,
    /// Rules without such a text.
    wide: Vec<usize>,
    /// Rules by what their globs begin with: they can be about what is below a folder.
    by_start: BTreeMap<String, Vec<usize>>,
    /// Rules with `\\`, whose beginning is not known.
    escaped: Vec<usize>,
    /// The first rule for paths in any folder.
    first_deep: Option<usize>,
    /// The first rule that has more than wildcards.
    first_named: Option<usize>,
    /// Rules with the glob `*`.
    of_all: Vec<usize>,
}

impl PathIndex {
    pub(crate) fn add(&mut self, at: usize, path: &PathPattern, counts: &Counts<'_>) {
        let name = counts.rarest(path.literal_parts());
        let piece = counts.rarest(path.pieces());
        let rarer = |piece: &str, name: Option<&str>| name.is_none_or(|name| counts.of(piece) < counts.of(name));
        let list = match (name, piece) {
            (name, Some(piece)) if rarer(piece, name) => self.by_piece.entry(piece),
            (Some(name), _) => self.by_name.entry(name.to_owned()).or_default(),
            _ => &mut self.wide,
        };
        list.push(at);
        self.all.push(at);
        self.by_start.entry(path.start().to_owned()).or_default().push(at);
        if path.has_escape() {
            self.escaped.push(at);
        }
        if path.is_deep() {
            self.first_deep.get_or_insert(at);
        }
        if path.names_something() {
            self.first_named.get_or_insert(at);
        }
        if path.is_any_name() {
            self.of_all.push(at);
        }
    }

    /// Finds the rules that stand for all others, if a target that cannot be decided may be any file.
    pub(crate) fn find_any(&self, found: &mut Vec<usize>) {
        found.extend(self.all.first());
        found.extend(&self.of_all);
    }

    /// Finds the rules that can match a path. Returns how many steps that took, besides one for each rule.
    pub(crate) fn find(&self, rules: &[Rule], path: &FilePath, found: &mut Vec<usize>) -> usize {
        if !path.is_certain() {
            found.extend(self.first_of_any(path));
        }
        let mut steps = 0;
        if path.is_glob_like() {
            steps += self.find_overlapping(rules, path, found);
        }
        if path.is_glob_of_call() {
            return steps;
        }
        found.extend(&self.wide);
        for name in path.names() {
            found.extend(self.by_name.get(name).into_iter().flatten());
            steps += 1 + self.by_piece.visit(name, |rules| found.extend(rules));
        }
        if path.is_whole() {
            found.extend(self.first_deep.filter(|_| !path.is_word()));
            path.forms().for_each(|form| self.find_below(form, found));
        }
        steps
    }

    /// The rule that stands for all others, which may match a path as well.
    fn first_of_any(&self, path: &FilePath) -> Option<usize> {
        if path.is_word() { self.first_named } else { self.all.first().copied() }
    }

    /// Finds the rules for paths below a folder.
    fn find_below(&self, form: &str, found: &mut Vec<usize>) {
        if matches!(form, "" | "." | "/") {
            return found.extend(&self.all);
        }
        found.extend(self.by_start.get(form).into_iter().flatten());
        self.find_beginning(&format!("{form}/"), found);
    }

    /// Finds the rules whose globs begin with a text.
    fn find_beginning(&self, text: &str, found: &mut Vec<usize>) {
        let starts = self.by_start.range::<str, _>((Bound::Included(text), Bound::Unbounded));
        found.extend(starts.take_while(|(start, _)| start.starts_with(text)).flat_map(|(_, rules)| rules));
    }

    /// Finds the rules that can match something below a folder, or the folder and those above it.
    fn find_near(&self, folder: &str, found: &mut Vec<usize>) {
        self.find_beginning(folder, found);
        let above = folder.match_indices('/').map(|(at, _)| &folder[..at]);
        let starts = std::iter::once("").chain(above).filter_map(|start| self.by_start.get(start));
        found.extend(starts.flatten());
    }

    /// Finds the rules whose globs can match a path that the glob of a call matches, too.
    fn find_overlapping(&self, rules: &[Rule], path: &FilePath, found: &mut Vec<usize>) -> usize {
        let ends: Vec<Ends<'_>> = path.forms().map(Ends::of).collect();
        let skips_folders = path.skips_folders();
        let pattern = |at: &usize| rules[*at].pattern.as_ref().and_then(|pattern| pattern.path.as_ref());
        let may_overlap = |at: &&usize| {
            pattern(at).is_some_and(|pattern| {
                let agrees = |ends: &Ends<'_>| {
                    let mut own = pattern.ends();
                    own.any(|own| ends.agree(own) || (path.is_whole() && ends.beginning().agree(own)))
                };
                !(skips_folders && pattern.is_folder_of_one_place()) && ends.iter().any(agrees)
            })
        };
        if path.may_be_any() {
            found.extend(self.first_of_any(path));
            return 0;
        }
        let folders: Option<Vec<&str>> = ends.iter().map(|ends| ends.folder()).collect();
        let Some(folders) = folders else {
            found.extend(self.all.iter().filter(may_overlap));
            return self.all.len() * ends.len();
        };
        let mut near = self.escaped.clone();
        folders.iter().for_each(|folder| self.find_near(folder, &mut near));
        found.extend(near.iter().filter(may_overlap));
        near.len() * ends.len()
    }
}
