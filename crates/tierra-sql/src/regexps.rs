//! Functions of regular expressions whose answers are PostgreSQL's.
//!
//! In the replacement of DataFusion's `regexp_replace`, `$` begins the name of a group, `\&` is text and `\12` is group 12. Its
//! `regexp_match` leaves out groups that took no part in the match, and those behind them move up.

use std::borrow::Cow;
use std::fmt::Write;
use std::slice;
use std::sync::Arc;

use arrow::array::{Array, AsArray, ListBuilder, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{exec_datafusion_err, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::functions::regex::regexpmatch::RegexpMatchFunc;
use datafusion::functions::regex::regexpreplace::RegexpReplaceFunc;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use regex::Regex;

use crate::columnar::computed;

/// Puts them in the place of DataFusion's.
pub(crate) fn add_to(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let functions = builder.scalar_functions().get_or_insert_with(Vec::new);
    functions.extend([
        Arc::new(ScalarUDF::from(RegexpReplace(RegexpReplaceFunc::new()))),
        Arc::new(ScalarUDF::from(RegexpMatch::new())),
    ]);
    builder
}

/// DataFusion's function, for a replacement as PostgreSQL writes it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RegexpReplace(RegexpReplaceFunc);

impl ScalarUDFImpl for RegexpReplace {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(replacement) = args.args.get_mut(2) {
            let written = computed(slice::from_ref(replacement), |texts| {
                let written = cast(&texts[0], &DataType::Utf8)?;
                let written = written.as_string::<i32>().iter();
                let written: StringArray = written.map(|text| text.map(in_rust)).collect();
                Ok(cast(&written, texts[0].data_type())?)
            });
            *replacement = written?;
        }
        self.0.invoke_with_args(args)
    }
}

/// A replacement as the crate `regex` takes it, once DataFusion has made `${1}` of `\1`.
fn in_rust(replacement: &str) -> Cow<'_, str> {
    if !replacement.contains(['$', '\\']) {
        return Cow::Borrowed(replacement);
    }
    let mut written = String::with_capacity(replacement.len() + 8);
    let mut letters = replacement.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek().copied()) {
            ('$', _) => written.push_str("$$"),
            ('\\', Some('&')) => {
                letters.next();
                written.push_str("${0}");
            }
            ('\\', Some(group)) if group.is_ascii_digit() => {
                letters.next();
                // A string takes everything.
                let _ = write!(written, "${{{group}}}");
            }
            ('\\', next) => {
                if next == Some('\\') {
                    letters.next();
                }
                written.push('\\');
                // DataFusion would take the two for a group. No group is called `_`, so nothing is written for it.
                if letters.peek().is_some_and(char::is_ascii_digit) {
                    written.push_str("${_}");
                }
            }
            (other, _) => written.push(other),
        }
    }
    Cow::Owned(written)
}

/// The groups of the first match, those NULL that took no part in it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RegexpMatch {
    signature: Signature,
    /// For its name and its documentation.
    other: RegexpMatchFunc,
}

impl RegexpMatch {
    fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            other: RegexpMatchFunc::new(),
        }
    }
}

impl ScalarUDFImpl for RegexpMatch {
    fn name(&self) -> &str {
        self.other.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |ty: &DataType| ty.is_string() || *ty == DataType::Null;
        match types {
            [_, _] | [_, _, _] if types.iter().all(is_text) => {
                Ok(vec![DataType::Utf8; types.len()])
            }
            _ => plan_err!("regexp_match takes a text, a pattern and, if need be, flags"),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        let item = Field::new_list_field(DataType::Utf8, true);
        Ok(DataType::List(Arc::new(item)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.other.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args.args, |args| {
            let texts: Vec<&StringArray> = args.iter().map(AsArray::as_string).collect();
            let mut last: Option<(&str, &str, Regex)> = None;
            let mut groups = ListBuilder::new(StringBuilder::new());
            for row in 0..texts[0].len() {
                let value = |place: usize| match texts.get(place) {
                    Some(texts) => texts.is_valid(row).then(|| texts.value(row)),
                    None => Some(""),
                };
                let (Some(text), Some(pattern), Some(flags)) = (value(0), value(1), value(2))
                else {
                    groups.append_null();
                    continue;
                };
                let compiled = match last.take() {
                    Some((of, with, compiled)) if (of, with) == (pattern, flags) => compiled,
                    _ => compile(pattern, flags)?,
                };
                let (_, _, compiled) = last.insert((pattern, flags, compiled));
                match compiled.captures(text) {
                    None => groups.append_null(),
                    // Without groups it is the whole match.
                    Some(found) => {
                        let first = usize::from(found.len() > 1);
                        let found = found.iter().skip(first);
                        groups.append_value(found.map(|group| group.map(|group| group.as_str())));
                    }
                }
            }
            Ok(Arc::new(groups.finish()))
        })
    }
}

fn compile(pattern: &str, flags: &str) -> Result<Regex> {
    if flags.contains('g') {
        return exec_err!("regexp_match finds the first match only, so the flag g says nothing");
    }
    let compiled = match flags {
        "" => Regex::new(pattern),
        flags => Regex::new(&format!("(?{flags}){pattern}")),
    };
    compiled.map_err(|error| exec_datafusion_err!("{error}"))
}
