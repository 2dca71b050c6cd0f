//! What may be registered.

use framefold_core::{Error, ErrorKind};
use framefold_io::{
    FORMATS, Format, OpenOptions, OptionKind, OptionSpec, OptionValue, Verdict, open, open_as,
    register,
};
use std::sync::Mutex;

fn row(name: &'static str, options: &'static [OptionSpec]) -> Format {
    Format {
        name,
        title: "a test",
        extensions: &["test"],
        options,
        detect: &|_| Verdict::No("it never is".into()),
        open: &|_, _| Err(Error::unsupported("nothing is opened")),
    }
}

#[test]
fn names_are_not_taken_twice_and_options_mean_one_thing() {
    const OTHER: &[OptionSpec] =
        &[OptionSpec::new("nav_shape", OptionKind::Text, "Something else")];
    const TWICE: &[OptionSpec] = &[
        OptionSpec::new("gain", OptionKind::Number, "A factor"),
        OptionSpec::new("gain", OptionKind::Number, "A factor"),
    ];
    const ODD: &[OptionSpec] =
        &[OptionSpec::new("gain", OptionKind::Number, "A factor").with_default("one")];
    for (format, part) in [
        (row("mib", &[]), "already"),
        (row("auto", &[]), "cannot be called"),
        (row("My Format", &[]), "cannot be called"),
        (row("of_text", OTHER), "another name"),
        (row("of_two", TWICE), "twice"),
        (row("of_one", ODD), "has the default one, which is not a finite number"),
    ] {
        let error = register(format).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn options_have_flags_that_the_command_line_does_not_use_itself() {
    let mut built_in = FORMATS.iter().flat_map(|format| format.options);
    let corrections = built_in.find(|spec| spec.name == "enable_corrections").unwrap();
    let own = vec![
        OptionSpec::new("gain_of_all", OptionKind::Number, "A factor"),
        OptionSpec::new("roi", OptionKind::Number, "Something").with_flag("threads"),
        OptionSpec::new("nav_shape", OptionKind::Shape, "The scan shape"),
        OptionSpec::new(corrections.name, corrections.kind, "As others").with_flag("roi"),
    ];
    let format = register(row("of_flags", own.leak())).unwrap();
    let found: Vec<String> = format.options.iter().map(OptionSpec::flag_name).collect();
    assert_eq!(found, ["option-gain-of-all", "option-roi", "nav-shape", "corrections"]);
}

#[test]
fn panics_of_a_format_are_errors_that_name_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scan.panics");
    std::fs::write(&path, b"anything").unwrap();
    let detect = &|prefix: &framefold_io::Prefix<'_>| {
        assert!(prefix.extension() != "panics", "at detect");
        Verdict::No("it is another".into())
    };
    let open_it = &|_: &std::path::Path, _: &OpenOptions| panic!("at open");
    register(Format { detect, open: open_it, ..row("of_panics", &[]) }).unwrap();
    let options = OpenOptions::default();
    for (opened, at) in
        [(open(&path, &options), "at detect"), (open_as("of_panics", &path, &options), "at open")]
    {
        let error = opened.unwrap_err();
        assert_eq!((error.kind(), error.format()), (ErrorKind::Bug, Some("of_panics")));
        assert!(error.message().contains(&format!("the format panicked: {at}")), "{error}");
    }
}

#[test]
fn options_are_what_was_said_last_and_whole_numbers_of_any_type() {
    const OPTIONS: &[OptionSpec] = &[
        OptionSpec::new("sync_offset", OptionKind::Integer, "The first frame").with_default("0"),
        OptionSpec::new("skip", OptionKind::Count, "How many to skip").with_default("0"),
    ];
    static SEEN: Mutex<Vec<(i64, Option<OptionValue>)>> = Mutex::new(Vec::new());
    let open_it = &|_: &std::path::Path, options: &OpenOptions| {
        SEEN.lock().unwrap().push((options.sync_offset, options.get("skip")));
        Err(Error::unsupported("nothing is opened"))
    };
    let format = register(Format { open: open_it, ..row("of_numbers", OPTIONS) }).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let opened = |options: &OpenOptions| {
        let error = open_as("of_numbers", file.path(), options).unwrap_err();
        (error.kind() == ErrorKind::Unsupported).then(|| SEEN.lock().unwrap().pop().unwrap())
    };
    let others = OpenOptions::default().with("sync_offset", 2u64).with("skip", 3i64);
    assert_eq!(opened(&others), Some((2, Some(OptionValue::Count(3)))));
    assert_eq!(opened(&OpenOptions::default().with("skip", -3i64)), None);
    let mut options = others;
    for spec in format.options {
        options.set(spec, spec.default_value().unwrap()).unwrap();
    }
    assert_eq!(opened(&options), Some((0, None)));
}
