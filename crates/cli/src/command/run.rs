//! `framefold run`: runs reductions over files, writes their results and sums them up.

use super::{for_each_file, tuple};
use crate::args::{Item, RunArgs, RunCommand};
use crate::field::Field;
use crate::interrupt::cancel_on_interrupt;
use crate::output::{Extra, Target, Written, check_not_inputs};
use crate::progress::Progress;
use crate::roi::{file_of_roi, parse_roi};
use crate::summary::{self, Stats, probe};
use crate::terminal;
use framefold::core::{Bool8, BufferDecl, BufferUse, NativeArray, Udf};
use framefold::exec::Explanation;
use framefold::kernels::Look;
use framefold::{
    Cancel, Dataset, Error, Executor, Plan, PlanOptions, Result, RunOptions, RunResults,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Runs the reductions over each file, all of them in one pass.
pub(crate) fn run(command: &RunCommand) -> Result<u8> {
    let all_files = &command.reduction.files[..];
    let files = command.data.inputs(all_files);
    let (args, items) = (&command.run, &command.reduction.items[..]);
    check_one(args, items)?;
    command.picture.check()?;
    let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
    let targets = match &args.output {
        Some(template) if !args.explain => Target::for_all(template, files, &names, args.force)?,
        _ => Vec::new(),
    };
    let given = all_files.iter().map(PathBuf::as_path);
    let given = given.chain(command.data.corrections().files());
    let given = given.chain(file_of_roi(args.roi.as_deref()));
    let given = given.chain(items.iter().flat_map(Item::files));
    check_not_inputs(targets.iter().flatten().map(Target::path), given)?;
    let mut targets = targets.into_iter();
    for_each_file(files, |file| {
        let targets = targets.next().unwrap_or_default();
        let dataset = command.data.open(&command.data.format, file, all_files)?;
        let mut udfs = Vec::with_capacity(items.len());
        let mut doubts = Vec::new();
        for item in items {
            let (udf, of_item) = item.udf(&dataset)?;
            udfs.push(udf);
            doubts.extend(of_item);
        }
        let plan = Arc::new(plan(args, &dataset, udfs)?);
        let mains = items.iter().enumerate().map(|(i, item)| {
            let wanted = item.buffer.as_deref().or(args.buffer.as_deref());
            main_buffer(item, plan.buffers(i), wanted.unwrap_or(item.reduction.main_buffer))
        });
        let mains = mains.collect::<Result<Vec<usize>>>()?;
        let warnings = oddities(&dataset, &plan, doubts);
        if !args.quiet {
            warnings.iter().for_each(|warning| terminal::warn_of(file, warning));
        }
        if args.explain {
            let explanation = plan.explain();
            return terminal::print(&if args.json {
                explanation_json(file, &explanation).to_string()
            } else {
                explanation.to_string().trim_end().to_owned()
            });
        }
        for target in &targets {
            if target.is_standard_output() && (args.json || !args.probe.is_empty()) {
                return Err(Error::invalid(
                    "the result and what --json or --probe print would mix",
                )
                .with_hint("write the result to a file, or leave these options out"));
            }
        }
        let inputs = dataset.inputs();
        for target in targets.iter().filter(|target| !target.is_standard_output()) {
            framefold::io::keeps_inputs(target.path(), &inputs)?;
        }
        let job = Job { command, file, plan, mains, targets, warnings };
        let running = cancel_on_interrupt();
        running.run(|| job.run(&running.cancel))
    })
}

/// Refuses what makes sense for one reduction only.
fn check_one(args: &RunArgs, items: &[Item]) -> Result<()> {
    let [_, other, ..] = items else { return Ok(()) };
    let (what, hint) = if args.buffer.is_some() {
        ("--buffer", format!("write it into the list: \"{} --buffer …\"", other.text))
    } else if !args.probe.is_empty() {
        ("--probe", "run that reduction by itself, or use --json".to_owned())
    } else {
        return Ok(());
    };
    let n = items.len();
    Err(Error::invalid(format!("{what} is for one reduction, and there are {n}")).with_hint(hint))
}

fn plan(args: &RunArgs, dataset: &Dataset, udfs: Vec<Arc<dyn Udf>>) -> Result<Plan> {
    let roi = args.roi.as_deref().map(|text| parse_roi(text, dataset.shape().nav()));
    let roi = roi.transpose()?.map(Arc::new);
    Plan::try_new(dataset, udfs, roi, &PlanOptions::default())
}

/// The number of the buffer `wanted` among the public ones of a reduction.
///
/// # Errors
/// `InvalidArgument` if there is none of that name.
fn main_buffer(item: &Item, buffers: &[BufferDecl], wanted: &str) -> Result<usize> {
    let public = buffers.iter().filter(|decl| decl.usage != BufferUse::Private);
    let names: Vec<&str> = public.map(|decl| decl.name.as_str()).collect();
    names.iter().position(|name| *name == wanted).ok_or_else(|| {
        let reduction = item.reduction.name;
        Error::invalid(format!("'{reduction}' has no result buffer '{wanted}'"))
            .with_hint(format!("choose one of {}", names.join(", ")))
    })
}

/// What is odd about the data and the reduction, known before time is spent on them.
fn oddities(dataset: &Dataset, plan: &Plan, doubts: Vec<String>) -> Vec<String> {
    let mut all = dataset.warnings();
    all.extend(doubts);
    let n_empty = plan.n_selected().saturating_sub(plan.n_frames());
    if n_empty > 0 {
        all.push(format!(
            "{n_empty} of {} selected scan positions {}",
            plan.n_selected(),
            if n_empty == 1 {
                "has no data; it does not count"
            } else {
                "have no data; they do not count"
            }
        ));
    }
    all
}

/// One file with all that was decided about it.
struct Job<'a> {
    command: &'a RunCommand,
    file: &'a Path,
    plan: Arc<Plan>,
    /// The number of the main buffer of each reduction among its public ones.
    mains: Vec<usize>,
    /// One for each reduction, or none at all.
    targets: Vec<Target>,
    warnings: Vec<String>,
}

/// What one reduction gave.
struct Outcome<'a> {
    item: &'a Item,
    fields: Vec<Field>,
    main: usize,
    extras: Vec<Extra>,
}

impl Outcome<'_> {
    fn main(&self) -> Result<&Field> {
        self.fields.get(self.main).ok_or_else(|| Error::bug("the main buffer is gone"))
    }
}

impl Job<'_> {
    fn run(&self, cancel: &Cancel) -> Result<()> {
        let args = &self.command.run;
        let start = Instant::now();
        let results = self.results(cancel)?;
        let seconds = start.elapsed().as_secs_f64();
        let outcomes = self.outcomes(results)?;
        let mut probed = Vec::new();
        for (index, outcome) in args.probe.iter().zip(outcomes.iter().cycle()) {
            let field = outcome.main()?;
            let value = probe(field, index)?.map_or("no data".to_owned(), |n| n.to_string());
            probed.push(format!("{}{index:?} = {value}", field.name));
        }
        let captions = self.write(&outcomes, cancel)?;
        if args.json {
            for (i, outcome) in outcomes.iter().enumerate() {
                let target = self.targets.get(i);
                let caption = captions.get(i).cloned().flatten();
                let json = self.to_json(outcome, target, caption, seconds)?;
                terminal::print(&json.to_string())?;
            }
            return Ok(());
        }
        probed.iter().try_for_each(|line| terminal::print(line))?;
        if args.quiet {
            return Ok(());
        }
        for (i, outcome) in outcomes.iter().enumerate() {
            self.tell(outcome, self.targets.get(i), captions.get(i).cloned().flatten())?;
        }
        Ok(())
    }

    /// Writes all results; files appear when all of them are complete. Gives their captions.
    fn write(&self, outcomes: &[Outcome<'_>], cancel: &Cancel) -> Result<Vec<Option<String>>> {
        let mut new_folders = Vec::new();
        let mut written = Vec::new();
        for (target, outcome) in self.targets.iter().zip(outcomes) {
            new_folders.push(target.make_folder()?);
            let style = self.command.picture.style(outcome.item.reduction.name);
            let Outcome { fields, extras, .. } = outcome;
            written.push(target.write(fields, outcome.main()?, extras, &style)?);
        }
        cancel.check()?;
        written.into_iter().map(Written::publish).collect()
    }

    /// Says in words what came out.
    fn tell(
        &self,
        outcome: &Outcome<'_>,
        target: Option<&Target>,
        caption: Option<String>,
    ) -> Result<()> {
        let Outcome { item, fields, .. } = outcome;
        match target {
            // What is on standard output is the result, and nothing else.
            Some(target) if target.is_standard_output() => Ok(()),
            Some(target) => {
                let caption = match caption {
                    Some(caption) => caption,
                    None if target.takes_all() => {
                        fields.iter().map(in_words).collect::<Vec<_>>().join("; ")
                    }
                    None => in_words(outcome.main()?),
                };
                terminal::print(&format!("{}: {caption}", target.path().display()))
            }
            None => {
                let of = match self.command.reduction.items.len() {
                    1 => String::new(),
                    _ => format!("{}: ", item.text),
                };
                fields.iter().try_for_each(|field| {
                    let file = self.file.display();
                    terminal::print(&format!("{file}: {of}{}", in_words(field)))
                })
            }
        }
    }

    fn results(&self, cancel: &Cancel) -> Result<RunResults> {
        let args = &self.command.run;
        let name = self.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let executor = match args.threads {
            Some(count) if count.get() == 1 => Executor::Inline,
            count => Executor::Threads(count),
        };
        let mut progress = Progress::new(name, args.quiet);
        let options = RunOptions { executor, cancel: cancel.clone(), observer: &mut progress };
        framefold::run(&self.plan, options)?.take()
    }

    /// The results of each reduction.
    fn outcomes(&self, mut results: RunResults) -> Result<Vec<Outcome<'_>>> {
        let items = &self.command.reduction.items;
        let udfs = std::mem::take(&mut results.udfs);
        if udfs.len() != items.len() {
            return Err(Error::bug("there are no results"));
        }
        let axes = self.plan.dataset().axes();
        let mut outcomes = Vec::with_capacity(items.len());
        for ((item, udf), &main) in items.iter().zip(udfs).zip(&self.mains) {
            let reduction = item.reduction;
            let fields = udf.buffers.into_iter();
            let fields = fields.map(|buffer| Field::try_new(buffer, &results, reduction, &axes));
            let fields = fields.collect::<Result<Vec<Field>>>()?;
            let extras = extras(&results, reduction.look)?;
            outcomes.push(Outcome { item, fields, main, extras });
        }
        Ok(outcomes)
    }

    fn to_json(
        &self,
        outcome: &Outcome<'_>,
        target: Option<&Target>,
        caption: Option<String>,
        seconds: f64,
    ) -> Result<Value> {
        let dataset = self.plan.dataset();
        let info = dataset.source().info();
        let probes = &self.command.run.probe;
        let Outcome { item, fields, main, .. } = outcome;
        let buffers = fields
            .iter()
            .enumerate()
            .map(|(i, field)| summary::to_json(field, if i == *main { probes } else { &[] }))
            .collect::<Result<Vec<Value>>>()?;
        Ok(json!({
            "file": self.file.display().to_string(),
            "format": info.format,
            "reduction": item.reduction.name,
            "name": item.name,
            "nav_shape": dataset.shape().nav(),
            "sig_shape": dataset.shape().sig(),
            "dtype": info.dtype.dtype.name(),
            "n_selected": self.plan.n_selected(),
            "n_frames": self.plan.n_frames(),
            "warnings": self.warnings,
            "seconds": seconds,
            "main_buffer": fields.get(*main).map(|field| field.name.as_str()),
            "buffers": buffers,
            "output": target.map(|target| target.path().display().to_string()),
            "caption": caption,
        }))
    }
}

/// Which entries of `nav` buffers have data; for picked frames, also where they are from.
fn extras(results: &RunResults, look: Look) -> Result<Vec<Extra>> {
    let nav = results.shape.nav();
    let valid = |shape: &[usize], valid: Vec<bool>| {
        let cells: Vec<Bool8> = valid.into_iter().map(Bool8::from).collect();
        NativeArray::try_new(shape, cells).map(|array| Extra { name: "valid", array })
    };
    let Some(roi) = results.roi.as_ref().filter(|_| look == Look::Frames) else {
        return Ok(vec![valid(nav, results.valid_nav()?)?]);
    };
    let coordinates: Vec<i64> = roi
        .positions()
        .iter()
        .flat_map(|&position| results.shape.nav_coordinates(position))
        .map(|coordinate| i64::try_from(coordinate).unwrap_or(i64::MAX))
        .collect();
    let array = NativeArray::try_new(&[roi.n_selected(), nav.len()], coordinates)?;
    Ok(vec![valid(&[roi.n_selected()], results.valid.clone())?, Extra { name: "positions", array }])
}

/// A buffer in one line.
fn in_words(field: &Field) -> String {
    let stats = Stats::of(field);
    let extremes = match (stats.min, stats.max) {
        (Some(min), Some(max)) => format!(", from {min} to {max}"),
        _ => String::new(),
    };
    let nan =
        if stats.n_nan > 0 { format!(", {} not a number", stats.n_nan) } else { String::new() };
    let (shape, dtype) = (tuple(field.array.shape()), field.array.dtype());
    let sum = stats.sum.map_or("no data".to_owned(), |sum| format!("sum {sum}"));
    format!("{} {shape} {dtype}{extremes}, {sum}{nan}", field.name)
}

fn explanation_json(file: &Path, explanation: &Explanation) -> Value {
    let udfs: Vec<Value> = explanation
        .udfs
        .iter()
        .map(|udf| {
            json!({
                "name": udf.name,
                "method": udf.method,
                "format": udf.format,
                "dtype": udf.dtype,
                "buffers": udf.buffers.iter().map(ToString::to_string).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "file": file.display().to_string(),
        "dataset": explanation.dataset,
        "n_selected": explanation.n_selected,
        "n_frames": explanation.n_frames,
        "bytes_to_read": explanation.bytes_to_read,
        "n_partitions": explanation.n_partitions,
        "frames_per_partition": explanation.frames_per_partition,
        "why_partitions": explanation.why_partitions,
        "tile_depth": explanation.tile_depth,
        "tile_shape": explanation.tile_shape,
        "n_slices": explanation.n_slices,
        "why_tiling": explanation.why_tiling,
        "zero_copy": explanation.zero_copy,
        "udfs": udfs,
    })
}
