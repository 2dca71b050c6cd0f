//! The TOML file.

use super::FORMAT;
use crate::headers::written::{self, AXES, NAME, OFFSET, SCALE, UNIT, UNITS};
use framefold_core::{
    ByteOrder, Calibration, Error, MetadataList, MetadataValue, Quantity, Result, Shape,
    StoredDType, axes,
};
use std::path::PathBuf;
use toml::{Table, Value};

/// What a descriptor says.
#[derive(Debug)]
pub(crate) struct Descriptor {
    params: Table,
    /// Where the entries of each frame begin.
    pub(crate) row_pointers: ArrayFile,
    /// The pixel of each entry.
    pub(crate) columns: ArrayFile,
    /// The value of each entry.
    pub(crate) values: ArrayFile,
    /// What framefold wrote of the experiment.
    own: Table,
}

/// The table of what framefold writes: quantities, their units, and axes.
const OWN: &str = "framefold";

/// A file that holds an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArrayFile {
    /// Its name, relative to the descriptor's folder.
    pub(crate) name: PathBuf,
    /// What it holds.
    pub(crate) stored: StoredDType,
}

impl ArrayFile {
    pub(crate) fn describe(&self) -> String {
        format!("{} in '{}'", self.stored, self.name.display())
    }
}

/// Whether this is the format's name. Case does not matter.
pub(crate) fn is_raw_csr(filetype: &str) -> bool {
    filetype.eq_ignore_ascii_case(FORMAT.name)
}

/// `params.filetype` of a TOML file, if it has that key; the error says what the text is not.
pub(crate) fn filetype(text: &str) -> Result<Option<String>, &'static str> {
    let table: Table = text.parse().map_err(|_| "TOML file")?;
    let name = table.get("params").and_then(|params| params.get("filetype")?.as_str());
    Ok(name.map(str::to_owned))
}

impl Descriptor {
    /// # Errors
    /// `BadFile` that names the key, or the place that is not TOML.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let root: Table = text.parse().map_err(|error| not_toml(&error))?;
        let params = table(&root, "params")?;
        let filetype = string(params, "params", "filetype")?;
        if !is_raw_csr(filetype) {
            let found = format!("the key 'params.filetype' is '{filetype}', not 'raw_csr'");
            return Err(Error::bad_file(found));
        }
        // The table is called exactly as the type is written above.
        let files = table(&root, filetype)?;
        let array = |name: &str| {
            let file = string(files, filetype, &format!("{name}_file"))?;
            let key = format!("{name}_dtype");
            let stored = StoredDType::parse(string(files, filetype, &key)?).map_err(|error| {
                let error_text = format!("the key '{filetype}.{key}': {}", error.message());
                let hint = error.hint().unwrap_or_default().to_owned();
                Error::bad_file(error_text).with_hint(hint)
            })?;
            Ok::<_, Error>((ArrayFile { name: PathBuf::from(file), stored }, key))
        };
        let integers = |name: &str| {
            let (file, key) = array(name)?;
            if file.stored.dtype.is_integer() {
                return Ok(file);
            }
            let found = file.stored.dtype;
            Err(Error::bad_file(format!("the key '{filetype}.{key}' is {found}, not an integer")))
        };
        Ok(Descriptor {
            own: root.get(OWN).and_then(Value::as_table).cloned().unwrap_or_default(),
            row_pointers: integers("indptr")?,
            columns: integers("indices")?,
            values: array("data")?.0,
            params: params.clone(),
        })
    }

    /// The shape of the scan.
    ///
    /// # Errors
    /// `BadFile` if the key is missing or no shape.
    pub(crate) fn nav_shape(&self) -> Result<Vec<usize>> {
        shape(&self.params, "nav_shape").map_err(|error| {
            error.with_hint("correct it there, or give nav_shape when you open the file")
        })
    }

    /// The shape of a frame.
    ///
    /// # Errors
    /// `BadFile` if the key is missing or no shape.
    pub(crate) fn sig_shape(&self) -> Result<Vec<usize>> {
        shape(&self.params, "sig_shape")
    }

    /// What is known of the experiment; and of the axes, if there are `n_nav` and `n_sig` of them.
    pub(crate) fn metadata(&self, n_nav: usize, n_sig: usize) -> MetadataList {
        let mut list = MetadataList::new();
        for &quantity in Quantity::ALL {
            let name = quantity.name();
            let unit = self.own.get(&format!("{name}{UNIT}")).and_then(Value::as_str);
            if let Some(value) = self.own.get(name)
                && unit.unwrap_or_default() == quantity.unit()
            {
                list.text(quantity, value.as_str());
                list.number(quantity, number(value));
            }
        }
        let axis = |axis: &Value| {
            Some(Calibration {
                step: number(axis.get(SCALE)?)?,
                offset: number(axis.get(OFFSET)?)?,
                unit: axis.get(UNITS)?.as_str()?.to_owned(),
            })
        };
        let written = self.own.get(AXES).and_then(Value::as_array);
        let written: Vec<_> = written.into_iter().flatten().map(axis).collect();
        if written.len() == n_nav + n_sig
            && let Some((nav, sig)) = written.split_at_checked(n_nav)
        {
            written::add_axes(&mut list, nav, sig, n_sig);
        }
        list
    }
}

/// The text of a descriptor; `names` and `stored` are those of row pointers, columns and values.
/// `metadata` is what is known of the experiment.
pub(crate) fn descriptor_text(
    shape: &Shape,
    names: [&str; 3],
    stored: [StoredDType; 3],
    metadata: &MetadataList,
) -> String {
    let mut text = format!(
        "[params]\nfiletype = \"{0}\"\nnav_shape = {1:?}\nsig_shape = {2:?}\n\n[{0}]\n",
        FORMAT.name,
        shape.nav(),
        shape.sig()
    );
    for ((key, name), stored) in ["indptr", "indices", "data"].iter().zip(names).zip(stored) {
        let order = match stored.order {
            _ if stored.dtype.size() == 1 => '|',
            ByteOrder::Little => '<',
            ByteOrder::Big => '>',
        };
        let (name, code) = (quoted(name), stored.dtype.code());
        text += &format!("{key}_file = {name}\n{key}_dtype = \"{order}{code}\"\n");
    }
    if metadata.is_empty() {
        return text;
    }
    text += &format!("\n[{OWN}]\n");
    for fact in metadata.iter() {
        let name = fact.quantity.name();
        text += &match &fact.value {
            MetadataValue::Number(number) => format!("{name} = {number:?}\n"),
            MetadataValue::Text(value) => format!("{name} = {}\n", quoted(value)),
        };
        match fact.quantity.unit() {
            "" => {}
            unit => text += &format!("{name}{UNIT} = {}\n", quoted(unit)),
        }
    }
    for axis in axes(shape.nav(), shape.sig(), metadata) {
        let (name, unit) = (quoted(&axis.name), quoted(&axis.unit));
        text += &format!(
            "\n[[{OWN}.{AXES}]]\n{NAME} = {name}\n{SCALE} = {:?}\n{OFFSET} = {:?}\n{UNITS} = {unit}\n",
            axis.scale, axis.offset
        );
    }
    text
}

/// A TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            c if c.is_control() => quoted += &format!("\\U{:08X}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn not_toml(error: &toml::de::Error) -> Error {
    let text = error.message().replace('\n', ", ");
    let error_here = Error::bad_file(format!("the file is not a TOML file: {text}"));
    match error.span().and_then(|span| u64::try_from(span.start).ok()) {
        Some(offset) => error_here.with_offset(offset),
        None => error_here,
    }
}

fn table<'t>(root: &'t Table, name: &str) -> Result<&'t Table> {
    let found = root.get(name);
    found.and_then(Value::as_table).ok_or_else(|| wrong(name, found, "a table"))
}

fn string<'t>(table: &'t Table, table_name: &str, name: &str) -> Result<&'t str> {
    let found = table.get(name);
    let key = || format!("{table_name}.{name}");
    found.and_then(Value::as_str).ok_or_else(|| wrong(&key(), found, "a string"))
}

/// A number, also where it was typed without a point.
fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|integer| integer as f64))
}

fn shape(params: &Table, name: &str) -> Result<Vec<usize>> {
    let found = params.get(name);
    let axes = found.and_then(Value::as_array).and_then(|axes| {
        let axis = |axis: &Value| usize::try_from(axis.as_integer()?).ok().filter(|&len| len > 0);
        axes.iter().map(axis).collect::<Option<Vec<usize>>>()
    });
    axes.filter(|axes| !axes.is_empty()).ok_or_else(|| {
        wrong(&format!("params.{name}"), found, "a list of lengths, such as [128, 128]")
    })
}

fn wrong(key: &str, found: Option<&Value>, expected: &str) -> Error {
    Error::bad_file(match found {
        None => format!("the key '{key}' is missing; it has to be {expected}"),
        Some(found) => {
            let kind = found.type_str();
            let article = if kind.starts_with(['a', 'i']) { "an" } else { "a" };
            format!("the key '{key}' is {article} {kind}, not {expected}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::{ByteOrder, DType};

    const GOOD: &str = r#"
        [params]
        filetype = "RAW_csr"
        nav_shape = [3, 4]
        sig_shape = [16]

        [RAW_csr]
        indptr_file = "a"
        indptr_dtype = ">i8"
        indices_file = "/b/c"
        indices_dtype = "uint16"
        data_file = "d"
        data_dtype = "<c8"
    "#;

    #[test]
    fn all_keys() {
        let descriptor = Descriptor::parse(GOOD).unwrap();
        assert_eq!(descriptor.nav_shape().unwrap(), [3, 4]);
        assert_eq!(descriptor.sig_shape().unwrap(), [16]);
        let file = descriptor.row_pointers;
        assert_eq!((file.stored.dtype, file.stored.order), (DType::I64, ByteOrder::Big));
        assert_eq!(descriptor.columns.name, PathBuf::from("/b/c"));
        assert_eq!(descriptor.values.stored.dtype, DType::C64);
        assert_eq!(filetype(GOOD), Ok(Some("RAW_csr".into())));
        assert_eq!(filetype("a = 1"), Ok(None));
        assert!(filetype("a = ").is_err());
    }

    #[test]
    fn what_is_written_is_read() {
        let shape = Shape::try_new(&[3, 4], &[16]).unwrap();
        let names = ["a \"b\"\\", "é\t\u{7f}", "plain.data"];
        let stored = [">i8", "u1", "<f4"].map(|text| StoredDType::parse(text).unwrap());
        let mut metadata = MetadataList::new();
        let plain = descriptor_text(&shape, names, stored, &metadata);
        assert!(!plain.contains(OWN), "{plain}");
        metadata.text(Quantity::Orientation, "flip \"y\"");
        metadata.number(Quantity::ScanStepX, 5e-7);
        metadata.number(Quantity::EnergyStep, -2.0);
        let seconds = Calibration { step: 0.25, offset: -1.0, unit: "s \\".into() };
        metadata.calibrate(framefold_core::AxisKind::Nav, 1, seconds);
        let text = descriptor_text(&shape, names, stored, &metadata);
        let read = Descriptor::parse(&text).unwrap();
        assert_eq!(read.nav_shape().unwrap(), shape.nav());
        assert_eq!(read.sig_shape().unwrap(), shape.sig());
        assert_eq!(read.metadata(2, 1), metadata);
        let typed = Descriptor::parse(&text.replace("-2.0", "-2")).unwrap();
        assert_eq!(typed.metadata(2, 1), metadata);
        // Another number of axes: those that were written are not these.
        assert_eq!(read.metadata(1, 1).iter().count(), 3);
        assert_eq!(axes(&[12], &[16], &read.metadata(1, 1))[0].scale, 5e-7);
        for (file, (name, stored)) in
            [read.row_pointers, read.columns, read.values].iter().zip(names.iter().zip(stored))
        {
            assert_eq!(file, &ArrayFile { name: PathBuf::from(name), stored });
        }
    }

    #[test]
    fn every_wrong_key_is_named() {
        for (from, to, words) in [
            ("filetype = \"RAW_csr\"", "", "'params.filetype' is missing"),
            ("\"RAW_csr\"", "\"raw\"", "'params.filetype' is 'raw'"),
            ("\"RAW_csr\"", "\"raw_csr\"", "'raw_csr' is missing; it has to be a table"),
            ("[params]", "[param]", "'params' is missing"),
            ("data_file = \"d\"", "data_file = 1.5", "'RAW_csr.data_file' is a float"),
            ("<c8", "<c9", "'RAW_csr.data_dtype': unknown dtype '<c9'"),
            ("uint16", "float32", "'RAW_csr.indices_dtype' is float32, not an integer"),
            ("\">i8\"", "[1]", "'RAW_csr.indptr_dtype' is an array"),
            ("indices_file", "indexes_file", "'RAW_csr.indices_file' is missing"),
            ("[params]", "[params", "not a TOML file"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = Descriptor::parse(&GOOD.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(error.kind(), framefold_core::ErrorKind::BadFile);
        }
        for shape in ["[]", "[3, 0]", "[-1]", "[1.5]", "12", "[[1]]"] {
            let text = GOOD.replace("[16]", shape).replace("[3, 4]", shape);
            let descriptor = Descriptor::parse(&text).unwrap();
            let error = descriptor.sig_shape().unwrap_err();
            assert!(error.to_string().contains("'params.sig_shape' is an "), "{error}");
            let error = descriptor.nav_shape().unwrap_err();
            assert!(error.to_string().contains("give nav_shape"), "{error}");
        }
    }
}
