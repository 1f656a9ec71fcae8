//! A strict parser of Prometheus' text format (version 0.0.4).

use std::collections::{BTreeMap, BTreeSet};

/// A family: its type, its help, its samples.
#[derive(Debug, Default)]
pub struct Read {
    pub kind: String,
    pub help: String,
    pub samples: Vec<Sample>,
}

/// One sample line.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: Vec<(String, String)>,
    pub value: f64,
}

impl Sample {
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, value)| value.as_str())
    }
}

/// All families of `text`, by name.
pub fn read(text: &str) -> BTreeMap<String, Read> {
    assert!(text.ends_with('\n'), "the last line ends");
    let mut families: BTreeMap<String, Read> = BTreeMap::new();
    let mut current = String::new();
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a help has words");
            assert!(!help.contains('\\'), "nothing is escaped: {line}");
            let family = Read { help: help.to_owned(), ..Read::default() };
            assert!(families.insert(name.to_owned(), family).is_none(), "one block each: {line}");
            name.clone_into(&mut current);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            let family = families.get_mut(name).expect("the help goes first");
            assert!(name == current && family.kind.is_empty() && family.samples.is_empty());
            kind.clone_into(&mut family.kind);
        } else {
            let sample = sample(line);
            assert!(seen.insert((sample.name.clone(), sample.labels.clone())), "twice: {line}");
            let family = families.get_mut(&current).expect("a head goes first");
            let suffix =
                sample.name.strip_prefix(&current).expect("lines of a family are together");
            let histogram = family.kind == "histogram";
            let suffixes: &[&str] = if histogram { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(suffixes.contains(&suffix), "{line}");
            assert!(family.kind != "counter" || sample.value >= 0.0, "{line}");
            family.samples.push(sample);
        }
    }
    families.values().filter(|family| family.kind == "histogram").for_each(histogram);
    families
}

fn is_name(text: &str) -> bool {
    let first = text.chars().next();
    first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn sample(line: &str) -> Sample {
    let (name, rest) = line.split_once('{').expect("every sample has labels");
    assert!(is_name(name), "{line}");
    let (mut labels, mut rest) = (Vec::new(), rest);
    loop {
        let (label, after) = rest.split_once("=\"").expect("a label");
        assert!(is_name(label) && !label.starts_with("__"), "{line}");
        let mut value = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next().expect("the quote is closed") {
                (at, '"') => break at,
                (_, '\\') => match characters.next().expect("something is escaped").1 {
                    'n' => value.push('\n'),
                    c @ ('\\' | '"') => value.push(c),
                    c => panic!("\\{c}: {line}"),
                },
                (_, c) => value.push(c),
            }
        };
        labels.push((label.to_owned(), value));
        rest = &after[end + 1..];
        match rest.split_at(1) {
            (",", after) => rest = after,
            ("}", after) => {
                rest = after;
                break;
            }
            other => panic!("{other:?}: {line}"),
        }
    }
    let value = rest.strip_prefix(' ').expect("one blank");
    let number = |c: char| c.is_ascii_digit() || ".-".contains(c);
    assert!(value.chars().all(number), "a plain number: {line}");
    Sample { name: name.to_owned(), labels, value: value.parse().expect("a number") }
}

/// Checks a histogram: buckets do not decrease, and the last one is unbounded and equals the count.
fn histogram(family: &Read) {
    let mut last = (f64::NEG_INFINITY, 0.0);
    for sample in &family.samples {
        if sample.name.ends_with("_bucket") {
            let bound = match sample.label("le").expect("a bound") {
                "+Inf" => f64::INFINITY,
                bound => bound.parse().expect("a number"),
            };
            assert!(bound > last.0 && sample.value >= last.1, "{sample:?}");
            last = (bound, sample.value);
        } else if sample.name.ends_with("_count") {
            assert!(last.0.is_infinite(), "the last bucket has no bound");
            assert!((sample.value - last.1).abs() < 0.5, "{sample:?}");
            last = (f64::NEG_INFINITY, 0.0);
        }
    }
}
