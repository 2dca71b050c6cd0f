//! Several reductions in one argument: `sum,"com --radius 6","ring 18,50"`.
//!
//! An item is what follows `framefold run`, without the files. A comma before a number belongs to a
//! parameter, any other comma ends an item.

use super::reduction::{self, Item};
use super::with_nearest;
use crate::app::one_line;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};
use framefold::kernels::{ParameterKind, REDUCTIONS, Reduction, Value};
use framefold::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The reduction that takes a disk or a ring.
const MASKS: &str = "masks";

/// What is short for [`MASKS`] with one of its parameters: the name of that.
const SHORT: [(&str, ParameterKind, &str); 2] =
    [("disk", ParameterKind::Disks, "R"), ("ring", ParameterKind::Rings, "RI,RO")];

const VALUE: &str = "value";
const BUFFER: &str = "item_buffer";

/// The arguments that can be lists, each as a command of that name: the parser finds out which of
/// them stands in the place of a reduction, rather than in that of an option's value.
pub(crate) fn commands(args: &[OsString]) -> Vec<Command> {
    let mut texts: Vec<&str> = args.iter().filter_map(|arg| list(arg)).collect();
    texts.sort_unstable();
    texts.dedup();
    texts.into_iter().map(command).collect()
}

/// The argument, if it can be a list: files have names with commas and spaces, too.
fn list(arg: &OsStr) -> Option<&str> {
    let text = arg.to_str()?;
    let is_one = text.contains([',', ' ']) && text.starts_with(|c: char| c.is_ascii_alphabetic());
    (is_one && !Path::new(text).exists()).then_some(text)
}

fn command(text: &str) -> Command {
    // A command lives as long as the program; there are as many as arguments with commas.
    let name: &'static str = String::from(text).leak();
    let mut options: Vec<&str> = own_options().map(|(_, option)| option).collect();
    options.sort_unstable();
    options.dedup();
    // They are taken for the sake of the words that refuse them.
    let options = options.into_iter().map(|option| {
        let argument = Arg::new(option).long(option).num_args(0..=1).action(ArgAction::Append);
        argument.allow_hyphen_values(true).hide(true)
    });
    Command::new(name)
        .about("These reductions, in one pass over the data")
        .hide(true)
        .arg(reduction::files())
        .args(options)
}

/// The options of each reduction.
fn own_options() -> impl Iterator<Item = (&'static Reduction, &'static str)> {
    let of = |row: &'static Reduction| {
        row.parameters.iter().filter_map(move |parameter| Some((row, parameter.option?)))
    };
    REDUCTIONS.iter().flat_map(of)
}

/// The items of a list that was called with `matches`.
///
/// # Errors
/// `InvalidArgument` if one of them is none, or an option beside the list belongs to one of them.
pub(super) fn items(text: &str, matches: &ArgMatches) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for part in split(text) {
        items.push(item(&part, text)?);
    }
    for (row, option) in own_options() {
        if matches.contains_id(option) {
            return Err(Error::invalid(format!(
                "'--{option}' is an option of a single reduction, and here is a list"
            ))
            .with_hint(format!("write it into the list: \"{} --{option} …\"", row.name)));
        }
    }
    name(&mut items);
    Ok(items)
}

/// The texts between commas that are not followed by a number.
fn split(text: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let digits = part.strip_prefix(['-', '+']).unwrap_or(part);
        // Infinity is a number, too; what begins with a digit is wrong as one, if it is none.
        let word = part.split_whitespace().next().unwrap_or_default();
        let is_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            || word.parse::<f64>().is_ok();
        match items.last_mut().filter(|_| is_number) {
            Some(item) => {
                item.push(',');
                item.push_str(part);
            }
            None => items.push(part.to_owned()),
        }
    }
    items
}

fn item(text: &str, list: &str) -> Result<Item> {
    if text.is_empty() {
        return Err(Error::invalid(format!("an item of the list '{list}' is empty"))
            .with_hint("write the reductions with one comma between them: sum,com"));
    }
    let mut command = Command::new("framefold run")
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .subcommands(REDUCTIONS.iter().map(|row| in_list(reduction::subcommand(row))))
        .subcommands(SHORT.map(short));
    let matches = command.try_get_matches_from_mut(text.split_whitespace());
    let matches = matches.map_err(|error| refusal(text, list, &with_nearest(error, &command)))?;
    let Some((name, own)) = matches.subcommand() else {
        return Err(Error::bug("an item without a reduction"));
    };
    let row = |name: &str| REDUCTIONS.iter().find(|row| row.name == name);
    let missing = || Error::bug(format!("there is no reduction '{name}'"));
    let mut item = match row(name) {
        Some(row) => Item::try_new(row, own)?,
        None => {
            let mut item = Item::try_new(row(MASKS).ok_or_else(missing)?, own)?;
            if let Some(value) = own.get_one::<Value>(VALUE) {
                item.set(name_of(name).ok_or_else(missing)?, value.clone())?;
            }
            item
        }
    };
    item.buffer = own.get_one::<String>(BUFFER).cloned();
    name.clone_into(&mut item.name);
    text.clone_into(&mut item.text);
    Ok(item)
}

/// The parameter of a short form.
fn name_of(short: &str) -> Option<&'static str> {
    SHORT.iter().map(|(name, ..)| *name).find(|name| *name == short)
}

/// A command within a list, which says by itself which of its buffers is written.
fn in_list(command: Command) -> Command {
    let buffer = Arg::new(BUFFER).short('b').long("buffer").value_name("NAME");
    command.disable_help_flag(true).arg(buffer)
}

fn short((name, kind, value): (&'static str, ParameterKind, &'static str)) -> Command {
    let value = Arg::new(VALUE)
        .required(true)
        .value_name(value)
        .allow_hyphen_values(true)
        .value_parser(clap::builder::ValueParser::new(move |text: &str| kind.parse(text)));
    in_list(Command::new(name).arg(value))
}

/// What is wrong with an item.
fn refusal(text: &str, list: &str, error: &clap::Error) -> Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        let what = one_line(&error.to_string());
        return Error::invalid(format!("in '{text}': {what}"));
    }
    let word = text.split_whitespace().next().unwrap_or_default();
    let similar = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(all)) => {
            let all: Vec<String> = all.iter().map(|name| format!("'{name}'")).collect();
            format!("; similar: {}", all.join(", "))
        }
        _ => String::new(),
    };
    Error::invalid(format!("there is no reduction '{word}', as in '{list}'{similar}"))
}

/// Gives each item a name of its own: the second `ring` is `ring-2`.
fn name(items: &mut [Item]) {
    let names: Vec<String> = items.iter().map(|item| item.name.clone()).collect();
    for (i, item) in items.iter_mut().enumerate() {
        let before = names.iter().take(i).filter(|name| **name == item.name).count();
        if before > 0 {
            item.name = format!("{}-{}", item.name, before + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_before_numbers_belong_to_parameters() {
        for (text, expected) in [
            ("sum,com", &["sum", "com"][..]),
            ("sum,com,ring 18,50", &["sum", "com", "ring 18,50"]),
            ("disk 1,2,3,ring -1.5, .5,2,9 , sum", &["disk 1,2,3", "ring -1.5,.5,2,9", "sum"]),
            ("masks --disk 3,4,5 --masks a.npy,max", &["masks --disk 3,4,5 --masks a.npy", "max"]),
            ("ring 3,inf,sum,ring 2,Infinity -b x", &["ring 3,inf", "sum", "ring 2,Infinity -b x"]),
            ("sum,,com,", &["sum", "", "com", ""]),
            ("sum,-x", &["sum", "-x"]),
        ] {
            assert_eq!(split(text), expected, "{text}");
        }
    }

    #[test]
    fn values_and_files_are_no_lists() {
        let args = |all: &[&str]| all.iter().map(OsString::from).collect::<Vec<_>>();
        let found = commands(&args(&["run", "--roi", "0:3,2", "sum,com", "sum,com", "3,4", "a b"]));
        let names: Vec<&str> = found.iter().map(Command::get_name).collect();
        assert_eq!(names, ["a b", "sum,com"]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sum,com");
        std::fs::write(&path, "x").unwrap();
        assert!(commands(&args(&[path.to_str().unwrap()])).is_empty());
    }

    fn named(text: &str) -> Result<Vec<String>> {
        let matches = command(text).no_binary_name(true).get_matches_from(["a.mib"]);
        Ok(items(text, &matches)?.into_iter().map(|item| item.name).collect())
    }

    #[test]
    fn the_second_of_a_name_has_its_number() {
        let names = named("sum,ring 1,2,disk 3,sumsig,ring 3,4,sum_sig,ring 5,6,com -b field");
        let expected = ["sum", "ring", "disk", "sum_sig", "ring-2", "sum_sig-2", "ring-3", "com"];
        assert_eq!(names.unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, words) in [
            ("sum,comm", "there is no reduction 'comm', as in 'sum,comm'; similar: 'com'"),
            ("sum,smu", "there is no reduction 'smu', as in 'sum,smu'; similar: 'sum'"),
            ("frobnicate,sum", "there is no reduction 'frobnicate', as in 'frobnicate,sum'"),
            ("rng 1,2", "there is no reduction 'rng', as in 'rng 1,2'; similar: 'ring'"),
            ("sum,,com", "an item of the list 'sum,,com' is empty"),
            ("sum,", "an item of the list 'sum,' is empty"),
            ("sum,ring", "in 'ring': the following required arguments were not provided"),
            ("sum,ring 18", "in 'ring 18': invalid value '18' for '<RI,RO>': expected RI,RO"),
            ("ring 1,2,3,4,5,sum", "in 'ring 1,2,3,4,5': invalid value"),
            ("sum,disk 1 2", "in 'disk 1 2': unexpected argument '2' found"),
            ("sum 3,com", "in 'sum 3': unexpected argument '3' found"),
            (
                "sum,com --cyy 3",
                "in 'com --cyy 3': unexpected argument '--cyy' found; similar: '--cy'",
            ),
            ("sum,masks", "in 'masks': the following required arguments were not provided"),
            ("com --cy 1 --cy 2,sum", "in 'com --cy 1 --cy 2': the argument '--cy <PX>' cannot be"),
        ] {
            let error = named(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn options_beside_a_list_belong_into_it() {
        let all = commands(&[OsString::from("sum,com")]);
        let matches = all[0].clone().no_binary_name(true).get_matches_from(["a.mib", "--cy", "3"]);
        let error = items("sum,com", &matches).unwrap_err().to_string();
        assert!(error.contains("'--cy' is an option of a single"), "{error}");
        assert!(error.contains("\"com --cy …\""), "{error}");
    }
}
